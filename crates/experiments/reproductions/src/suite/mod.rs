//! `stasis suite`: throughput and application start-up on a drive that a guest
//! shares with its host, with the publication's workloads and statistics (vIrtical,
//! deliverable D3.6, chapters 7 and 8).

pub mod applications;
pub mod disk;
pub mod guest;
pub mod measured;
pub mod plan;
pub mod runner;
pub mod scenario;
pub mod statistics;
pub mod tables;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{anyhow, bail, Context, Result};
use stasis_experiment::{Engine, GuestSpec};
use stasis_models::ModelSpec;
use stasis_program::suite::{Arguments, Coordinate};
use stasis_report::page::{Block, Page, Section};
use stasis_results::REPORT_FILE;
use stasis_runner::batch::{self, KeptResults, Stopped};
use stasis_runner::engine;
use stasis_runner::guest::recipe;
use stasis_scheduler::SchedulerSpec;
use stasis_terminal::{answer, ensure_guest, FAILURE, STOPPED};

use applications::Applications;
use measured::Measurement;
use plan::{Boot, Grid, Size};
use runner::{BootOutcome, Runner};
use scenario::Device;

/// The statistics of every scenario.
pub const SCENARIOS_FILE: &str = "scenarios.json";

/// The boots that the words ask for, and their applications.
fn grid(arguments: &Arguments) -> Result<(Grid, Applications)> {
    let names: Vec<String> =
        arguments.application.iter().filter(|name| *name != "none").cloned().collect();
    let applications = Applications::new(&names, &arguments.command, &arguments.packages);
    let applications = applications.map_err(|error| anyhow!("--application: {error}"))?;
    for name in &arguments.device {
        ModelSpec::parse(name).with_context(|| format!("--device {name}"))?;
    }
    for word in &arguments.host_scheduler {
        SchedulerSpec::parse(word).with_context(|| format!("--host-scheduler {word}"))?;
    }
    const KERNEL: [&str; 4] = ["bfq", "mq-deadline", "kyber", "none"];
    if let Some(word) = arguments.guest_scheduler.iter().find(|word| !KERNEL.contains(&&***word)) {
        bail!("--guest-scheduler {word}: there are {}", KERNEL.join(", "));
    }
    let grid = Grid {
        devices: arguments.device.iter().map(|name| Device::named(name)).collect(),
        host_schedulers: arguments.host_scheduler.clone(),
        host_workloads: arguments.host_workload.clone(),
        guest_schedulers: arguments.guest_scheduler.clone(),
        coordinated: match arguments.coordinate {
            Coordinate::No => vec![false],
            Coordinate::Yes => vec![true],
            Coordinate::Both => vec![false, true],
        },
        guest_workloads: arguments.guest_workload.clone(),
        applications: applications.list.clone(),
        size: Size {
            repetitions: arguments.repetitions,
            samples: arguments.samples,
            starts: arguments.starts,
        },
    };
    Ok((grid, applications))
}
/// Options for running boots, in words of the command line.
pub struct Running<'a> {
    pub folder: &'a Path,
    pub engine: Engine,
    pub force: bool,
    pub jobs: Option<usize>,
    /// Run nothing: boots that are not complete count as failed.
    pub gather: bool,
    /// True if other processes run other boots in this folder.
    pub beside_others: bool,
}

/// Runs boots with these applications.
///
/// # Errors
/// [`Stopped`], and where guests or folders cannot be made.
pub fn run_boots(
    running: &Running,
    boots: &[Boot],
    applications: &Applications,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<BootOutcome>> {
    let engine = engine::choose(running.engine)?;
    // The guest that measures, and the one whose system is on the disk.
    ensure_guest(&recipe(&GuestSpec::default()), stop)?;
    let packages = applications.packages.clone();
    let on_disk = recipe(&GuestSpec { packages, ..GuestSpec::default() });
    let root = ensure_guest(&on_disk, stop)?.root;
    let runner = Runner {
        folder: running.folder.to_owned(),
        engine,
        kept: KeptResults::new(running.folder, running.force, running.gather)?,
        jobs: running.jobs,
        beside_others: running.beside_others,
        root,
        recipe: serde_json::to_string(&on_disk)?,
        has_server: applications.has_server(),
        stop: Arc::clone(stop),
    };
    runner.run(boots)
}

/// Writes every scenario's statistics.
pub fn write_scenarios(folder: &Path, measurements: &[Measurement]) -> Result<()> {
    let path = folder.join(SCENARIOS_FILE);
    let text = serde_json::to_vec_pretty(measurements)?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// `stasis suite`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let (grid, applications) = grid(arguments)?;
    let boots = grid.boots();
    if boots.is_empty() {
        bail!("nothing to do: only bfq in the guest and on the host can be coordinated");
    }
    if grid.applications.is_empty() && arguments.samples == 0 {
        bail!("nothing to do: neither samples of throughput nor anything to start");
    }
    let stop = stasis_terminal::stop_on_signals()?;
    let provenance = stasis_runner::provenance::Provenance::begin(true);
    let folder = &arguments.results;
    let Arguments { engine, force, jobs, .. } = *arguments;
    let (engine, gather, beside_others) = (engine.unwrap_or_default(), false, false);
    let running = Running { folder, engine, force, jobs, gather, beside_others };
    let outcomes = match run_boots(&running, &boots, &applications, &stop) {
        Err(error) if error.is::<Stopped>() => {
            eprintln!("stasis: {error}; the same command goes on from here");
            return Ok(ExitCode::from(STOPPED));
        }
        other => other?,
    };
    let measurements: Vec<Measurement> = outcomes.iter().flatten().flatten().cloned().collect();
    write_scenarios(folder, &measurements)?;
    let failed = batch::failed(&boots, &outcomes);
    let mut page = Page {
        title: "Throughput and start-up".into(),
        subtitle: "A guest and its host on one drive.".into(),
        head: Some(tables::head(&measurements, &failed).repeated_by(Some(provenance.repeat()))),
        sections: vec![Section::new("Scenarios").with(Block::Plots(tables::plots(&measurements)))],
    };
    page.sections.extend(provenance.section());
    page.write(folder, REPORT_FILE)?;
    answer::put("results", folder)?;
    answer::put("scenarios", &measurements)?;
    answer::text(&tables::scenarios(&measurements).to_text())?;
    eprintln!("statistics: {}", folder.join(SCENARIOS_FILE).display());
    eprintln!("report: {}", folder.join(REPORT_FILE).display());
    for (name, why) in &failed {
        eprintln!("stasis: {name} failed: {why}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
}
