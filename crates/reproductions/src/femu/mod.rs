//! Li et al., "The CASE of FEMU" (FAST 2018): the experiments of its section 3.
//!
//! Latency against threads and the word count run in guests; what concerns the
//! drive alone runs on the model, as `stasis sim` does it, on all cores.

mod collection;
mod grid;
mod personalities;
mod published;
mod threads;
mod words;

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{json, Value};
use stasis_experiment::{DriveSpec, Experiment, MachineSpec};
use stasis_report::page::Block;

use crate::bench::{Runs, Trial};
use crate::experiments::{self, Evaluation, Settings};
use crate::figure::figure;
use crate::publication::{Extra, Publication};
use crate::request::{Findings, Part, Request};
use crate::simulated::{Point, Simulations, Simulator};

/// Threads of the publication's experiments on drives.
const THREADS: u32 = 16;

/// Li et al.: "The CASE of FEMU: cheap, accurate, scalable and extensible flash emulator", 2018
pub struct Femu;

impl Publication for Femu {
    fn name(&self) -> &'static str {
        "femu"
    }

    fn citation(&self) -> &'static str {
        "Li et al.: \
         \"The CASE of FEMU: cheap, accurate, scalable and extensible flash emulator\", 2018"
    }

    fn takes(&self) -> &'static [Extra] {
        &[Extra::Jobs]
    }

    fn parts(&self, request: &Request) -> Result<Vec<Part>> {
        let mut parts = experiments::parts(request, trials)?;
        for point in points(&Settings::of(request)?) {
            parts.push(point.part()?);
        }
        Ok(parts)
    }

    fn run(&self, request: &Request, names: &[String]) -> Result<Vec<(String, String)>> {
        let mut failed = experiments::some(request, trials, names)?;
        let mut points = points(&Settings::of(request)?);
        points.retain(|point| names.contains(&point.id));
        failed.extend(Simulator::new(request)?.run_all(&points)?.failed);
        Ok(failed)
    }

    fn measure(&self, request: &Request) -> Result<Findings> {
        let simulator = Simulator::new(request)?;
        experiments::run(request, trials, |settings, runs| {
            findings(runs, simulator.run_all(&points(settings))?)
        })
    }
}

/// The experiments that need a guest, in the order in which they are run.
fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let mut trials = threads::trials(settings)?;
    trials.extend(words::trials(settings)?);
    Ok(trials)
}

/// What needs no guest; each point once, whichever figures have it.
fn points(settings: &Settings) -> Vec<Point> {
    let parts = [grid::points, personalities::points, collection::points];
    let mut points: Vec<Point> = parts.iter().flat_map(|part| part(settings)).collect();
    let mut seen = BTreeSet::new();
    points.retain(|point| seen.insert(point.id.clone()));
    points
}

/// What the runs and the simulations say.
fn findings(runs: &Runs, simulations: Simulations) -> Result<Evaluation> {
    let mut findings = Evaluation {
        title: "The CASE of FEMU: cheap, accurate, scalable and extensible flash emulator",
        sections: Vec::new(),
        figures: Vec::new(),
        failed: Vec::new(),
    };
    let parts = [
        threads::findings(runs)?,
        grid::findings(&simulations),
        personalities::findings(&simulations),
        collection::findings(&simulations),
        words::findings(runs)?,
    ];
    for (section, figures) in parts {
        findings.sections.push(section.with(Block::Figures(figures.clone())));
        findings.figures.extend(figures);
    }
    findings.failed = simulations.failed;
    Ok(findings)
}

/// The OpenChannel SSD's cells on `channels` channels of `planes` planes.
///
/// `advanced`: two registers and a time for each page type; otherwise FEMU's basic
/// model, with one register and the mean times.
fn ssd(channels: u32, planes: u32, advanced: bool) -> Value {
    let (registers, read, program) = if advanced {
        (2, json!({ "L": "48us", "u": "64us" }), json!({ "L": "900us", "u": "2400us" }))
    } else {
        (1, json!("56us"), json!("1650us"))
    };
    json!({
        "base": "femu-ocssd", "channels": channels, "luns": 1, "planes": planes,
        "page_size": "4KiB", "oob_size": "16B", "mapping_unit": "4KiB",
        "registers": registers, "precondition": "sequential",
        "over_provisioning": 0.15,
        // 4 KiB take what FEMU charges for a transfer: 52.4 us.
        "timing": { "read": read, "program": program, "erase": "3ms", "bus": "78125kB/s" },
    })
}

fn experiment(
    settings: &Settings,
    vcpus: u32,
    memory: u64,
    drives: Vec<DriveSpec>,
    script: &str,
) -> Experiment {
    Experiment {
        engine: settings.engine,
        command: ["sh", "-e", "-c", script].map(str::to_owned).to_vec(),
        machine: MachineSpec { vcpus, memory, ..MachineSpec::default() }.into(),
        drives,
        ..Experiment::default()
    }
}
