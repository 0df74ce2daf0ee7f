//! The suite's part in the guest: `/proc/1/exe guest-suite`.
//!
//! One boot measures many scenarios: guest workloads one after the other, each with its throughput
//! and the starts of every application. The measurements are JSON in `/results`.

mod disk;
mod load;
mod plan;
mod start;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use disk::{TestDisk, Transferred};
use load::Loads;
pub use plan::{Application, MeasurementPlan, Phase};
use start::Starter;

/// Name of the guest's file in `/results`.
pub const FILE: &str = "suite.json";

/// The suite's commands in the guest.
#[derive(Debug, clap::Subcommand)]
pub enum Part {
    /// Measure a plan's phases
    Run {
        /// The plan as JSON
        plan: String,
    },
    /// Read or write a file for ever
    Load(load::Arguments),
}

/// Measurements beside a workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// For each repetition.
    pub repetitions: Vec<Repetition>,
}

/// Measurements of one execution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Bytes that the guest read and wrote in each sample.
    pub samples: Vec<Transferred>,
    /// Beginning of the samples (ns since the command's start).
    pub samples_begin: u64,
    /// The time from the first to the last start (ns since the command's start).
    pub starts_begin: u64,
    pub starts_end: u64,
    /// Bytes that the guest read and wrote in that time.
    pub starts_moved: Transferred,
    /// Seconds of each start by application; `null` where it was given up.
    pub starts: Vec<Vec<Option<f64>>>,
}

/// `stasis guest-suite`.
pub fn main(part: &Part) -> Result<ExitCode> {
    match part {
        Part::Run { plan } => {
            let plan: MeasurementPlan =
                serde_json::from_slice(plan.as_bytes()).context("the plan")?;
            let measured = measure(&plan)?;
            std::fs::create_dir_all("/results")?;
            std::fs::write(format!("/results/{FILE}"), serde_json::to_vec(&measured)?)?;
        }
        Part::Load(arguments) => load::run(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(plan: &MeasurementPlan) -> Result<Vec<Measured>> {
    let begun = Instant::now();
    let disk = TestDisk::new(&plan.disk);
    let starter = Starter::new(plan, &disk)?;
    let mut all = Vec::new();
    // An application that was given up would be given up again.
    for phase in &plan.phases {
        let mut measured = Measured::default();
        let mut failed = vec![false; phase.applications.len()];
        for number in 0..phase.repetitions {
            let loads = Loads::start(plan, &disk, phase.workload, number)?;
            std::thread::sleep(Duration::from_millis(plan.settle_ms));
            let repetition = repeat(plan, phase, &disk, &starter, begun, &mut failed)?;
            drop(loads);
            println!("{} {}: {:?}", phase.workload, number + 1, repetition.starts);
            measured.repetitions.push(repetition);
        }
        all.push(measured);
    }
    Ok(all)
}

fn repeat(
    plan: &MeasurementPlan,
    phase: &Phase,
    disk: &TestDisk,
    starter: &Starter,
    begun: Instant,
    failed: &mut [bool],
) -> Result<Repetition> {
    let since = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    start::drop_caches()?;
    let samples_begin = since();
    let mut samples = Vec::new();
    let (mut last, from) = (disk.moved()?, Instant::now());
    for number in 1..=phase.samples {
        let until = from + Duration::from_millis(plan.sample_ms) * number;
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let now = disk.moved()?;
        samples.push(now - last);
        last = now;
    }
    let starts_begin = since();
    let mut starts = Vec::new();
    for (application, failed) in phase.applications.iter().zip(failed) {
        let mut times = Vec::new();
        for _ in 0..phase.starts {
            if *failed {
                break;
            }
            let time = starter.start(application)?;
            *failed = time.is_none();
            times.push(time);
            std::thread::sleep(Duration::from_millis(plan.gap_ms));
        }
        starts.push(times);
    }
    let starts_moved = disk.moved()? - last;
    Ok(Repetition {
        samples,
        samples_begin,
        starts_begin,
        starts_end: since(),
        starts_moved,
        starts,
    })
}
