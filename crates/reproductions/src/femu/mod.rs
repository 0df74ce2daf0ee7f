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

use std::sync::Arc;

use anyhow::Result;
use serde_json::{json, Value};
use stasis_experiment::{DriveSpec, Experiment, MachineSpec};
use stasis_report::page::Block;

use crate::bench::{Runs, Trial};
use crate::experiments::{self, Evaluation, Settings, Trials};
use crate::figure::figure;
use crate::publication::{Extra, Publication};
use crate::request::{Findings, Request};
use crate::simulated::{Point, Simulator};

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

    fn trials(&self) -> Option<Trials> {
        Some(trials)
    }

    fn measure(&self, request: &Request) -> Result<Findings> {
        let simulator = Simulator::new(Arc::clone(&request.stop), request.jobs);
        experiments::run(request, trials, |settings, runs| findings(settings, runs, &simulator))
    }
}

/// The experiments that need a guest, in the order in which they are run.
fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let mut trials = threads::trials(settings)?;
    trials.extend(words::trials(settings)?);
    Ok(trials)
}

/// What the runs and the simulations say.
fn findings(settings: &Settings, runs: &Runs, simulator: &Simulator) -> Result<Evaluation> {
    let mut findings = Evaluation {
        title: "The CASE of FEMU: cheap, accurate, scalable and extensible flash emulator",
        sections: Vec::new(),
        figures: Vec::new(),
    };
    let parts = [
        threads::findings(runs)?,
        grid::findings(settings, simulator)?,
        personalities::findings(settings, simulator)?,
        collection::findings(settings, simulator)?,
        words::findings(runs)?,
    ];
    for (section, figures) in parts {
        findings.sections.push(section.with(Block::Figures(figures.clone())));
        findings.figures.extend(figures);
    }
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
