//! The drives and machines of its experiments.

use anyhow::{Context, Result};
use stasis_block::units;
use stasis_experiment::{DriveSpec, Experiment, MachineSpec};
use stasis_media::MediumSpec;

use crate::bench::Trial;
use crate::experiments::Settings;
use crate::fio;

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
pub const MANY: u32 = 4;

/// An experiment of fio's `jobs` (name, operation), `count` I/Os each.
pub fn fio_trial(
    settings: &Settings,
    (id, description): (&'static str, &str),
    vcpus: u32,
    drive: DriveSpec,
    (jobs, count): (&[(&str, &str)], u64),
) -> Trial {
    let command = fio::command(jobs, count);
    Trial {
        id,
        description: description.to_owned(),
        experiment: experiment(settings, vcpus, drive, command),
        disk_size: None,
        timed: None,
    }
}

pub fn experiment(
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
pub fn on_ram(model: &str) -> Result<DriveSpec> {
    Ok(DriveSpec::parse(&format!("name={model},model={model},medium=ram:{SIZE}"))?)
}

/// A drive on the slow disk.
pub fn on_slow(model: &str) -> Result<DriveSpec> {
    let mut drive = on_ram(model)?;
    let size = units::parse_size(SIZE).context("a size of this program's own")?;
    drive.medium = MediumSpec::File { path: "slow.img".into(), size: Some(size), direct: false };
    drive.delay = units::parse_duration(SLOW).context("a time of this program's own")?;
    Ok(drive)
}

/// A drive of the size of the publication's data, on an image with holes.
pub fn on_image(model: &str) -> Result<DriveSpec> {
    let mut drive = on_ram(model)?;
    let medium = MediumSpec::File { path: "disk.img".into(), size: Some(DISK_SIZE), direct: false };
    drive.medium = medium;
    Ok(drive)
}

/// The two jobs of most experiments.
pub const READ_AND_WRITE: [(&str, &str); 2] = [("read", "randread"), ("write", "randwrite")];

/// Number of I/Os of each operation in an experiment.
pub fn count(settings: &Settings) -> u64 {
    if settings.quick {
        300
    } else {
        2000
    }
}

/// Label of I/Os or a run, with the number of processors.
pub fn label(subject: &str, vcpus: u32) -> String {
    let plural = if vcpus == 1 { "" } else { "s" };
    format!("{subject}, {vcpus} vCPU{plural}")
}
