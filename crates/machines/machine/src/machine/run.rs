//! The state of a run: machines on one timeline. Each part owns its own and says so in its file; the run
//! itself owns the machines, the instant, and whose turn it is.

use std::time::Duration;

use super::alike::Shared;
use super::bounds::Bounds;
use super::branch::Branching;
use super::changes::Changes;
use super::common::Common;
use super::debug::Debug;
use super::interleaving::Interleaving;
use super::limits::Limits;
use super::looks::Looks;
use super::rounds::Rounds;
use super::sampling::sampler::Sampler;
use super::shared_drives::SharedDrives;
use super::slice::Slice;
use super::snapshots::Snapshots;
use super::sources::Sources;
use super::triggers::TriggerConfig;
use super::vm::Machine;
use crate::error::Error;

/// The files that every machine boots.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelFiles<'j> {
    pub(super) vmlinux: &'j [u8],
    pub(super) initramfs: &'j [u8],
}

pub(super) struct Run<'j> {
    // Dropped in this order: the parts that point into the vCPUs, then the machines.
    pub(super) common: Common<'j>,
    pub(super) machines: Vec<Machine>,
    /// The memory that they have alike.
    pub(super) alike: Shared,
    pub(super) kernel: KernelFiles<'j>,
    pub(super) shared: SharedDrives,
    /// Every processor: its machine, and its number there.
    pub(super) processors: Vec<(usize, usize)>,
    /// The place of the processor that ran last.
    pub(super) current: usize,
    /// The virtual time that everything has reached (ticks).
    pub(super) instant: u64,
    /// The turn, counted since the commands have begun; 0 before.
    pub(super) turn: u64,
    pub(super) bounds: Bounds,
    pub(super) looks: Looks,
    pub(super) rounds: Rounds,
    pub(super) sources: Sources,
    /// The debugger, while there is one.
    pub(super) debug: Option<Box<Debug>>,
    /// The branches of machines, where they have begun.
    pub(super) branching: Vec<Branching>,
    /// The snapshots, while they are taken.
    pub(super) snapshots: Option<Box<Snapshots>>,
    pub(super) changes: Changes,
    /// The schedule of the processors, where it is one on purpose.
    pub(super) interleaving: Option<Interleaving>,
    /// The samples, while the commands run.
    pub(super) sampler: Option<Box<Sampler>>,
    // Kept between turns, so that these do not allocate.
    pub(super) limits: Limits,
    pub(super) slices: Vec<Slice>,
}

impl<'j> Run<'j> {
    /// Busy processors: their places and times.
    pub(super) fn busy(&self) -> impl Iterator<Item = (usize, u64)> + use<'_, 'j> {
        self.processors.iter().enumerate().filter_map(|(place, &(machine, index))| {
            let machine = &self.machines[machine];
            machine.is_busy(index).then(|| (place, machine.processors[index].time))
        })
    }

    /// Adds a trigger to those of the experiment.
    ///
    /// # Errors
    /// If its expression is none.
    pub(super) fn add_trigger(&mut self, trigger: TriggerConfig) -> Result<(), Error> {
        for machine in &mut self.machines {
            if trigger.listens_to(machine.number) {
                machine.channel.listen();
            }
        }
        self.common.triggers.add(trigger)
    }

    /// Returns the time at which the last processor became idle.
    pub(super) fn last_idle(&self) -> u64 {
        let times = self.machines.iter().flat_map(|machine| &machine.processors);
        times.map(|processor| processor.time).max().unwrap_or(0)
    }

    /// The next event of any machine (ticks).
    pub(super) fn next_event(&self) -> Option<u64> {
        let machines = self.machines.iter().filter(|machine| !machine.progress.is_finished());
        let machines = machines.filter_map(|machine| machine.next_event(&self.common));
        machines.chain(self.common.next_crossing()).min()
    }

    /// Returns the time for which the machines have stood still so far.
    pub(super) fn frozen(&mut self) -> Duration {
        self.machines.iter_mut().map(|machine| machine.drives.frozen()).sum()
    }
}
