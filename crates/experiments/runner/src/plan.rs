//! A run as the process that runs it needs it: everything resolved, no
//! path but those of media, and nothing that depends on where it runs.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_channel::{Job, ScheduledGuestFault};
use stasis_experiment::{
    Condition, CpuSpeed, DriveSpec, FaultTrigger, Interface, MachineFailure, MachinePause,
    MachineSpec, TenantSpec,
};
use stasis_media::MediumSpec;
use stasis_models::ModelSpec;
use stasis_network::{NetworkFault, NetworkSpec};
use stasis_results::{Changes, Drive};
use stasis_run_events::{DebugJob, Moment, ProfileJob, SnapshotJob};

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

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunPlan {
    /// The machines, at least one.
    pub machines: Vec<PlannedMachine>,
    /// The processors' speed.
    pub cpu_speed: CpuSpeed,
    /// True if the host repeats itself to the instruction.
    pub repeatable: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Seed of the schedule of processors, where that is a random one.
    #[serde(default)]
    pub interleaving: Option<u64>,
    /// True if a flush covers nothing that is in flight, as power is cut.
    #[serde(default)]
    pub strict: bool,
    /// Limit on the commands' virtual time (ns).
    pub virtual_limit: Option<Nanos>,
    /// True if the machine reports each request to the drives.
    #[serde(default)]
    pub trace: bool,
    /// True if the machine reports the timeline of its inside.
    #[serde(default)]
    pub timeline: bool,
    /// The wishes of a debugger: part of the commands, not of their machine.
    #[serde(skip)]
    pub debug: Option<DebugJob>,
    /// The branch that begins at that moment in place of a debugger: the same.
    #[serde(skip)]
    pub branch: Option<stasis_channel::Branch>,
    /// The samples to take of the run: the same.
    #[serde(skip)]
    pub profile: Option<ProfileJob>,
    /// The snapshots to take of the run: the same.
    #[serde(skip)]
    pub snapshots: Option<SnapshotJob>,
    /// The run that this one becomes, if it does: the same.
    #[serde(skip)]
    pub change: Option<Box<PlannedChange>>,
    /// A fault to inject below the drives as the guest sees them.
    #[serde(default)]
    pub fault: Option<stasis_crash::Fault>,
    /// The device of the guests' root, if the root is not in their memory.
    #[serde(default)]
    pub root: Option<PlannedRoot>,
    /// Drives below a scheduler.
    pub shared: Vec<PlannedDrive>,
    /// Host workloads on the shared drives.
    pub workloads: Vec<PlannedWorkload>,
    /// Triggers of faults.
    #[serde(default)]
    pub triggers: Vec<FaultTrigger>,
    /// Networks between the machines.
    #[serde(default)]
    pub networks: Vec<NetworkSpec>,
    /// Faults of each of them.
    #[serde(default)]
    pub network_faults: Vec<Vec<NetworkFault>>,
}

impl RunPlan {
    /// Every drive that has its own medium.
    pub fn media(&self) -> impl Iterator<Item = &PlannedDrive> {
        let own = self.machines.iter().flat_map(|machine| &machine.drives);
        self.shared.iter().chain(own.filter(|drive| drive.has_medium()))
    }

    /// Every drive that has its own medium, to change.
    pub fn media_mut(&mut self) -> impl Iterator<Item = &mut PlannedDrive> {
        let own = self.machines.iter_mut().flat_map(|machine| &mut machine.drives);
        self.shared.iter_mut().chain(own.filter(|drive| drive.has_medium()))
    }
}

/// Another run that a run becomes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedChange {
    /// When; None for where the run begins, at a snapshot.
    pub moment: Option<Moment>,
    /// Number of faults that the run had: the first ones of the plan.
    pub known: usize,
    /// Commands that begin in guests.
    #[serde(default)]
    pub commands: Vec<stasis_channel::Branch>,
    /// The other run.
    pub plan: RunPlan,
}

/// A root that is read where it lies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedRoot {
    /// Identity and state of the root: a guest that is kept has parts of the root in memory.
    pub identity: String,
    /// Size in bytes.
    pub length: u64,
}

/// A machine of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedMachine {
    /// Name of the machine.
    pub name: String,
    /// The machine.
    pub spec: MachineSpec,
    /// The job of the guest.
    pub job: Job,
    /// The drives, in order.
    pub drives: Vec<PlannedDrive>,
    /// Times at which its processors stand still.
    #[serde(default)]
    pub pauses: Vec<MachinePause>,
    /// Its failures.
    #[serde(default)]
    pub failures: Vec<MachineFailure>,
    /// True if it comes back from one of them: its first boot serves the later ones.
    #[serde(default)]
    pub comes_back: bool,
    /// Machines whose commands are in some state before its own begins.
    #[serde(default)]
    pub dependencies: Vec<PlannedDependency>,
    /// Faults that the agent of its guest brings about.
    #[serde(default)]
    pub guest_faults: Vec<ScheduledGuestFault>,
}

/// A machine that another waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedDependency {
    /// Its place among the machines.
    pub machine: usize,
    /// Its name.
    pub name: String,
    /// State of its command.
    pub state: Condition,
}

/// A place on a shared drive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SharedRegion {
    /// Index of the shared drive.
    pub drive: usize,
    /// Offset of the region on the shared drive (bytes).
    pub offset: u64,
    /// Length of the region in bytes.
    pub length: u64,
    /// The owner's parameters for the scheduler.
    pub tenant: TenantSpec,
}

/// A host workload of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedWorkload {
    /// Name of the workload.
    pub name: String,
    /// Jobs of the workload, as a fio job file's text.
    pub job: String,
    /// The region for the jobs' I/O, and the scheduler's tenant.
    pub place: SharedRegion,
    /// Share of all the workload's threads together.
    pub group_weight: Option<u32>,
}

/// A drive of a planned machine: the user's description, and what was resolved beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedDrive {
    /// The drive as the user wrote it. The files of its model have been read, its medium has an
    /// absolute path, and a shared drive has a scheduler.
    pub spec: DriveSpec,
    /// Name in the results.
    pub name: String,
    /// Number among the experiment's drives: part of the drive's seed.
    pub number: u16,
    /// Serial number.
    pub serial: String,
    /// Size in bytes, of its medium.
    pub capacity: u64,
    /// True if the file of its medium is only read, and what is written stays in memory.
    #[serde(default)]
    pub overlay: bool,
    /// Files of an image, from the top; empty without an image.
    #[serde(default)]
    pub links: Vec<stasis_qcow2::Link>,
    /// Time that the guest's software adds to each command (ns).
    pub path: Nanos,
    /// I/O queues or queue pairs.
    pub queues: u16,
    /// Faults that befall the drive.
    #[serde(default)]
    pub faults: Vec<stasis_drive::DriveFault>,
    /// True if there can be faults later, where there are none yet.
    #[serde(default)]
    pub faulty: bool,
    /// Number of its power cuts.
    #[serde(default)]
    pub cuts: usize,
    /// State kept while the power was off, if any.
    #[serde(default)]
    pub state: Option<Box<stasis_nvme::KeptState>>,
    /// Region on a shared drive, if it holds this drive. The shared drive's model then applies, and
    /// so does its medium unless this drive is an image.
    pub on: Option<SharedRegion>,
}

impl PlannedDrive {
    /// Returns whether the drive is an image in a place on a shared drive.
    pub fn is_image(&self) -> bool {
        self.on.is_some() && !self.links.is_empty()
    }

    /// Returns whether faults befall the drive, now or later.
    pub fn is_faulty(&self) -> bool {
        self.faulty || !self.faults.is_empty()
    }

    /// Returns whether the drive has its own medium.
    pub fn has_medium(&self) -> bool {
        self.on.is_none() || self.is_image()
    }

    /// Returns whether all that the drive holds is within the machine that runs it.
    pub fn is_inside(&self) -> bool {
        self.overlay || matches!(self.spec.medium, MediumSpec::Ram { .. })
    }

    /// Logical block size in bytes.
    pub fn block_size(&self) -> u32 {
        // Small: the experiment's check.
        self.spec.block_size as u32
    }

    /// Returns the configuration of the drive's NVMe controller, on `capacity` bytes, not checked
    /// yet.
    pub fn controller(&self, capacity: u64, discard_zeroes: bool) -> stasis_nvme::Config {
        let serial = self.serial.clone();
        let (spec, queues) = (&self.spec, self.queues);
        let config = crate::controller::config(spec, serial, queues, capacity, discard_zeroes);
        // On a shared drive, nobody knows where metadata lies.
        stasis_nvme::Config { metadata: config.metadata && self.on.is_none(), ..config }
    }

    /// The drive as results describe it; `medium`: its medium in the user's words.
    pub fn described(&self, medium: String) -> Drive {
        describe(self.name.clone(), &self.spec.model, self.spec.interface.name(), medium)
    }
}

/// A model with all its parameters, in the form used in results.
pub fn parameters(model: &ModelSpec) -> serde_json::Value {
    // A model whose files have been read can be written.
    serde_json::to_value(model).unwrap_or_default()
}

/// A drive as results describe it: named `name`, of `model` with its files read, seen by its user
/// through `interface`, on `medium`.
pub fn describe(name: String, model: &ModelSpec, interface: &str, medium: String) -> Drive {
    Drive {
        name,
        model: model.label(),
        parameters: parameters(model),
        changes: model.changes().map(|(from, keys)| Changes { from, keys }),
        interface: interface.into(),
        medium,
    }
}

/// The guest kernel's names of drives, in order: each driver counts its own.
pub fn device_names(interfaces: impl Iterator<Item = Interface>) -> Vec<String> {
    let (mut nvme, mut virtio) = (0, 0);
    let mut name = |interface| match interface {
        Interface::Nvme => {
            nvme += 1;
            format!("nvme{}n1", nvme - 1)
        }
        Interface::VirtioBlk => {
            virtio += 1;
            format!("vd{}", letters(virtio))
        }
    };
    interfaces.map(&mut name).collect()
}

/// The name of the node by which the guest has a drive of that name: without blocks the generic one.
pub fn device_node(spec: &DriveSpec, name: String) -> String {
    match spec.namespace.first().map_or(spec.key_value, |first| first.key_value) {
        Some(_) => name.replacen("nvme", "ng", 1),
        None => name,
    }
}

/// The guest kernel's name of a virtio drive that comes behind those.
pub fn last_device(interfaces: impl Iterator<Item = Interface>) -> String {
    let all = interfaces.filter(|interface| *interface == Interface::VirtioBlk);
    device_names(all.chain([Interface::VirtioBlk])).pop().unwrap_or_default()
}

/// `number` from 1 on as a to z, aa to az, ba and so on.
fn letters(mut number: u32) -> String {
    let mut letters = Vec::new();
    while number > 0 {
        letters.push(b'a' + ((number - 1) % 26) as u8);
        number = (number - 1) / 26;
    }
    letters.iter().rev().map(|&letter| char::from(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_counts_its_own_drives() {
        use Interface::{Nvme, VirtioBlk};
        let names = device_names([VirtioBlk, Nvme, VirtioBlk, Nvme].into_iter());
        assert_eq!(names, ["vda", "nvme0n1", "vdb", "nvme1n1"]);
        assert_eq!(last_device([VirtioBlk, Nvme].into_iter()), "vdb");
        assert_eq!(last_device([Nvme].into_iter()), "vda");
        assert_eq!([26, 27, 52, 53, 703].map(letters), ["z", "aa", "az", "ba", "aaa"]);
    }
}
