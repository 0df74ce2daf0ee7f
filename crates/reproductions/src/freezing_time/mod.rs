//! Bona et al., "Freezing time" (2020): the experiments of its section 5.
//!
//! The drives are models; the slow disk underneath is an image behind a real delay
//! for each I/O. Each experiment is smaller than the publication's (4 KiB I/Os over
//! 4 GB, five times; 10 GB of random reads of the DCPMM).

mod dcpmm;
mod fastest;
mod overhead;
mod program;
mod published;
mod ssd;

use anyhow::{Context, Result};
use stasis_block::units;
use stasis_experiment::{DriveSpec, Experiment, MachineSpec};
use stasis_media::MediumSpec;
use stasis_report::page::Block;

use crate::bench::{Runs, Trial};
use crate::experiments::{self, Evaluation, Settings, Trials};
use crate::figure::figure;
use crate::fio;
use crate::publication::{Extra, Publication};
use crate::request::{Findings, Request};

/// Real time that each I/O on the slow medium takes, about a random access of the
/// publication's disk (its Fig. 6).
const SLOW: &str = "5ms";
/// Size of drives whose model does not depend on it.
const SIZE: &str = "256MiB";
/// The publication's data size, over which the disk's arm moves.
const DISK_SIZE: u64 = 4 << 30;
/// Memory of the guest: enough for fio and ffmpeg. The publication's 2 GB would
/// only take longer to make.
const MEMORY: u64 = 512 << 20;
/// Processors of the publication's larger machine.
const MANY: u32 = 4;

/// Bona et al.: "Freezing time: emulating new and faster devices with virtual machines", 2020
pub struct FreezingTime;

impl Publication for FreezingTime {
    fn name(&self) -> &'static str {
        "freezing-time"
    }

    fn citation(&self) -> &'static str {
        "Bona et al.: \
         \"Freezing time: emulating new and faster devices with virtual machines\", 2020"
    }

    fn takes(&self) -> &'static [Extra] {
        &[Extra::Jobs]
    }

    fn trials(&self) -> Option<Trials> {
        Some(trials)
    }

    fn measure(&self, request: &Request) -> Result<Findings> {
        experiments::run(request, trials, findings)
    }
}

/// The experiments, in the order in which they are run.
fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let parts = [fastest::trials, overhead::trials, ssd::trials, dcpmm::trials, program::trials];
    let mut trials = Vec::new();
    for part in parts {
        trials.extend(part(settings)?);
    }
    // Section 5.5 compares their wall-clock times.
    let compared = ssd::RUNS.iter().chain(&overhead::RUNS);
    for (_, one, other) in compared {
        for trial in trials.iter_mut().filter(|trial| [one, other].contains(&&trial.id)) {
            trial.timed = Some(other);
        }
    }
    Ok(trials)
}

/// What the runs say. The quick form has no rows for what it leaves out.
fn findings(settings: &Settings, runs: &Runs) -> Result<Evaluation> {
    let parts =
        [fastest::findings, ssd::findings, dcpmm::findings, program::findings, overhead::findings];
    let mut findings = Evaluation {
        title: "Freezing time: emulating new and faster devices with virtual machines",
        sections: Vec::new(),
        figures: Vec::new(),
        failed: Vec::new(),
    };
    for part in parts {
        let (section, mut figures) = part(runs)?;
        if settings.quick {
            figures.retain(|figure| figure.measured.is_some());
        }
        // Percentiles have a table of their own.
        let mut shown = figures.clone();
        shown.retain(|figure| !figure.what.contains(", p"));
        findings.sections.push(if shown.is_empty() {
            section
        } else {
            section.with(Block::Figures(shown))
        });
        findings.figures.extend(figures);
    }
    Ok(findings)
}

/// An experiment of fio's `jobs` (name, operation), `count` I/Os each.
fn fio_trial(
    settings: &Settings,
    (id, what): (&'static str, &str),
    vcpus: u32,
    drive: DriveSpec,
    (jobs, count): (&[(&str, &str)], u64),
) -> Trial {
    let command = fio::command(jobs, count);
    Trial {
        id,
        what: what.to_owned(),
        experiment: experiment(settings, vcpus, drive, command),
        disk_size: None,
        timed: None,
    }
}

fn experiment(
    settings: &Settings,
    vcpus: u32,
    drive: DriveSpec,
    command: Vec<String>,
) -> Experiment {
    Experiment {
        engine: settings.engine,
        command,
        machine: MachineSpec { vcpus, memory: MEMORY, ..MachineSpec::default() }.into(),
        drives: vec![drive],
        ..Experiment::default()
    }
}

/// A drive in memory.
fn on_ram(model: &str) -> Result<DriveSpec> {
    Ok(DriveSpec::parse(&format!("name={model},model={model},medium=ram:{SIZE}"))?)
}

/// A drive on the slow disk.
fn on_slow(model: &str) -> Result<DriveSpec> {
    let mut drive = on_ram(model)?;
    let size = units::parse_size(SIZE).context("a size of this program's own")?;
    drive.medium = MediumSpec::File { path: "slow.img".into(), size: Some(size), direct: false };
    drive.delay = units::parse_duration(SLOW).context("a time of this program's own")?;
    Ok(drive)
}

/// A drive of the size of the publication's data, on an image with holes.
fn on_image(model: &str) -> Result<DriveSpec> {
    let mut drive = on_ram(model)?;
    let medium = MediumSpec::File { path: "disk.img".into(), size: Some(DISK_SIZE), direct: false };
    drive.medium = medium;
    Ok(drive)
}

/// The two jobs of most experiments.
const READ_AND_WRITE: [(&str, &str); 2] = [("read", "randread"), ("write", "randwrite")];

/// How many I/Os an experiment of each operation makes.
fn count(settings: &Settings) -> u64 {
    if settings.quick {
        300
    } else {
        2000
    }
}

/// Of I/Os or a run, with the number of processors.
fn label(what: &str, vcpus: u32) -> String {
    let plural = if vcpus == 1 { "" } else { "s" };
    format!("{what}, {vcpus} vCPU{plural}")
}
