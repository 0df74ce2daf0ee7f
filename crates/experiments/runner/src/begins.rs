//! The part of a run that begins with its commands: what the seed decides, and the faults.
//!
//! Nothing of a guest's boot depends on it, so that one kept boot serves every seed, and faults that
//! are drawn anew. A run that boots makes the same change at the same moment: its results are the same.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_channel::ScheduledGuestFault;
use stasis_drive::{DriveFault, DriveFaultKind};
use stasis_experiment::{FaultTrigger, MachineFailure, MachinePause};
use stasis_network::NetworkFault;

use crate::opened_drives::path_fault;
use crate::plan::{PlannedDrive, PlannedMachine, RunPlan};

/// The seed of every boot, up to the agent's greeting at least.
pub const BOOT_SEED: u64 = 0;

/// The part of a run that begins with its commands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Begins {
    seed: u64,
    #[serde(default)]
    interleaving: Option<u64>,
    virtual_limit: Option<Nanos>,
    machines: Vec<MachineBegins>,
    triggers: Vec<FaultTrigger>,
    network_faults: Vec<Vec<NetworkFault>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct MachineBegins {
    pauses: Vec<MachinePause>,
    failures: Vec<MachineFailure>,
    guest_faults: Vec<ScheduledGuestFault>,
    /// The faults of each drive.
    drives: Vec<Vec<DriveFault>>,
}

impl Begins {
    /// Takes the part out of `plan`, of which the boot is left.
    pub fn take(plan: &mut RunPlan) -> Self {
        let seed = plan.seed;
        if !boots_by_seed(plan) {
            plan.seed = BOOT_SEED;
        }
        let boot = plan.seed;
        let machine = |machine: &mut PlannedMachine| {
            machine.job.seed = boot;
            MachineBegins {
                pauses: std::mem::take(&mut machine.pauses),
                failures: std::mem::take(&mut machine.failures),
                guest_faults: std::mem::take(&mut machine.guest_faults),
                drives: machine.drives.iter_mut().map(take_faults).collect(),
            }
        };
        Self {
            seed,
            interleaving: plan.interleaving.take(),
            virtual_limit: plan.virtual_limit.take(),
            machines: plan.machines.iter_mut().map(machine).collect(),
            triggers: std::mem::take(&mut plan.triggers),
            network_faults: plan.network_faults.iter_mut().map(std::mem::take).collect(),
        }
    }

    /// The plan of the run that has booted as `boot`.
    pub fn complete(self, boot: &RunPlan) -> RunPlan {
        let mut plan = boot.clone();
        (plan.seed, plan.interleaving) = (self.seed, self.interleaving);
        plan.virtual_limit = self.virtual_limit;
        plan.triggers = self.triggers;
        plan.network_faults = self.network_faults;
        for (machine, its) in plan.machines.iter_mut().zip(self.machines) {
            machine.job.seed = self.seed;
            (machine.pauses, machine.failures) = (its.pauses, its.failures);
            machine.guest_faults = its.guest_faults;
            for (drive, faults) in machine.drives.iter_mut().zip(its.drives) {
                drive.faults = faults;
            }
        }
        plan
    }
}

/// Returns whether the seed decides the state of something before the commands begin: of a drive,
/// or of a host's workload.
fn boots_by_seed(plan: &RunPlan) -> bool {
    let begins = |drive: &PlannedDrive| drive.spec.model.kind().begins_by_seed();
    !plan.workloads.is_empty() || plan.media().any(begins)
}

/// Takes a drive's faults, where nothing of the boot depends on them; else they stay as well.
fn take_faults(drive: &mut PlannedDrive) -> Vec<DriveFault> {
    let is_early = |fault: &DriveFault| {
        // Bytes taken and earlier contents are counted from the start, and a slot that a
        // drive can leave is another one.
        matches!(fault.kind, DriveFaultKind::Full | DriveFaultKind::StaleRead)
            || path_fault(fault).is_some()
    };
    // Below an image nobody else has the drive.
    if drive.on.is_some() || !drive.links.is_empty() || drive.faults.iter().any(is_early) {
        return drive.faults.clone();
    }
    drive.faulty = !drive.faults.is_empty();
    std::mem::take(&mut drive.faults)
}
