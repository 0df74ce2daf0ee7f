//! The first boot of a run's machines: up to its agent's greeting a machine boots in the same way whatever its
//! drives and networks are, so that one kept boot serves all experiments with such machines.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use stasis_experiment::CpuSpeed;
use stasis_machine::{FirstBoot, FirstBootConfig, Speed};

use crate::begins::BOOT_SEED;
use crate::machine_inputs::{whole, Inputs};
use crate::opened_drives::paths;
use crate::plan::{input, PlannedDrive, PlannedMachine, RunPlan};

/// Kilohertz of a gigahertz: a boot is kept where a nanosecond has a whole number of ticks.
const GHZ: u64 = 1_000_000;

/// Everything that a first boot depends on, beside the guest's files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstBootJob {
    memory: u64,
    command_line: String,
    cpu_speed: CpuSpeed,
}

/// Returns the first boot of the machines of `plan`, of which the rest begins with its commands;
/// None where the machines differ, or where a boot might depend on other properties. A machine that
/// has a first boot hides its drives and networks until its agent greets, whether the boot has been
/// made before or not.
pub fn job(plan: &RunPlan) -> Option<FirstBootJob> {
    let is_whole = match plan.cpu_speed {
        CpuSpeed::Khz(khz) => khz % GHZ == 0,
        CpuSpeed::Times(times) => times.fract() == 0.0,
    };
    // A controller's buffer lies where the bus has it from the start, and a drive that comes and goes has a slot.
    let is_late = |drive: &PlannedDrive| {
        drive.spec.memory_buffer.is_none() && paths(drive).iter().all(Vec::is_empty)
    };
    let of_machine = |PlannedMachine { spec, drives, .. }: &PlannedMachine| {
        let is_kept = spec.vcpus == 1 && !spec.random && drives.iter().all(is_late);
        is_kept.then(|| FirstBootJob {
            memory: spec.memory,
            command_line: spec.kernel_command_line.clone(),
            cpu_speed: plan.cpu_speed,
        })
    };
    let mut all = plan.machines.iter().map(of_machine);
    let first = all.next()??;
    let is_one = plan.repeatable && plan.root.is_none() && is_whole;
    (is_one && all.all(|other| other.as_ref() == Some(&first))).then_some(first)
}

/// Makes the first boot that `job` describes.
///
/// # Errors
/// The guest's files cannot be read, or the boot cannot be made.
pub fn make(job: &[u8], inputs: &mut dyn Inputs) -> Result<FirstBoot> {
    let job: FirstBootJob = serde_json::from_slice(job).context("cannot read the job")?;
    let vmlinux = whole(inputs, input::VMLINUX)?;
    let initramfs = whole(inputs, input::INITRAMFS)?;
    let root_length = inputs.length(input::ROOT).context("the root file system is missing")?;
    Ok(stasis_machine::first_boot(FirstBootConfig {
        memory: job.memory,
        command_line: &job.command_line,
        seed: BOOT_SEED,
        speed: speed(job.cpu_speed),
        vmlinux: &vmlinux,
        initramfs: &initramfs,
        root_length,
        fill_root: &mut |into| inputs.read(input::ROOT, into).map_err(std::io::Error::other),
    })?)
}

/// The speed of processors as a machine takes it.
pub fn speed(speed: CpuSpeed) -> Speed {
    match speed {
        CpuSpeed::Khz(khz) => Speed::Khz(khz),
        CpuSpeed::Times(times) => Speed::Times(times),
    }
}
