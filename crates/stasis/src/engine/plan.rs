//! A machine as the process that runs it needs it: everything resolved, no
//! path but those of media, and nothing that depends on where it runs.

use serde::{Deserialize, Serialize};
use stasis_channel::Job;
use stasis_clock::Nanos;
use stasis_experiment::{CpuSpeed, Doorbells, MachineSpec};
use stasis_media::MediumSpec;
use stasis_models::ModelSpec;

/// Names of the files that a machine reads.
pub mod input {
    /// The kernel.
    pub const VMLINUX: &str = "vmlinux";
    /// The initramfs.
    pub const INITRAMFS: &str = "initramfs";
    /// The root file system's image.
    pub const ROOT: &str = "root";
    /// The tar archive of files for the guest.
    pub const FILES: &str = "files";
}

/// The seed of a run's drive: drives of one model do not draw the same numbers.
pub fn drive_seed(seed: u64, index: u16) -> u64 {
    seed.wrapping_add(u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A machine to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The machine.
    pub machine: MachineSpec,
    /// The processors' speed.
    pub cpu_speed: CpuSpeed,
    /// Whether the host repeats itself to the instruction.
    pub repeatable: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// What the guest is to do.
    pub job: Job,
    /// Most virtual time of the command (ns).
    pub virtual_limit: Option<Nanos>,
    /// The drives, in order.
    pub drives: Vec<PlannedDrive>,
}

/// A drive of a planned machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedDrive {
    /// Its name in the results.
    pub name: String,
    /// Its serial number.
    pub serial: String,
    /// When its commands complete.
    pub model: ModelSpec,
    /// Where its bytes live, as the machine's process sees it.
    pub medium: MediumSpec,
    /// A real wait for each I/O on the medium (ns).
    pub delay: Nanos,
    /// What the guest's software adds to each command (ns).
    pub path: Nanos,
    /// I/O queue pairs.
    pub queues: u16,
    /// Whether submissions leave the guest.
    pub doorbells: Doorbells,
    /// Logical block size in bytes.
    pub block_size: u32,
}
