//! The state of a run: machines on one timeline.

use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_drive::SharedDrive;
use stasis_run_events::SharedOutcome;

use super::alike::Shared;
use super::branch::Branching;
use super::changes::{BeginSource, ChangeSource, Changes};
use super::config::{ProfileSource, Stop};
use super::debug::{Debug, DebugSource};
use super::limits::Limits;
use super::program_source::ProgramSource;
use super::sampling::sampler::Sampler;
use super::slice::{Begun, Slice};
use super::snapshots::{SnapshotSource, Snapshots};
use super::timeline::Timeline;
use super::triggers::TriggerConfig;
use super::vm::Machine;
use crate::error::Error;
use crate::vcpu_pool::{ThreadSlice, VcpuPool};

/// The files that every machine boots.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelFiles<'j> {
    pub(super) vmlinux: &'j [u8],
    pub(super) initramfs: &'j [u8],
}

pub(super) struct Run<'j> {
    // Dropped in this order: the parts that point into the vCPUs, then the machines.
    pub(super) timeline: Timeline<'j>,
    pub(super) machines: Vec<Machine>,
    /// The memory that they have alike.
    pub(super) alike: Shared,
    pub(super) kernel: KernelFiles<'j>,
    pub(super) shared: Vec<SharedDrive>,
    /// Reports of the shared drives at the moment when the last command that is waited for ended.
    pub(super) shares: Vec<SharedOutcome>,
    /// Every processor: its machine, and its number there.
    pub(super) processors: Vec<(usize, usize)>,
    /// The place of the processor that ran last.
    pub(super) current: usize,
    /// The virtual time that everything has reached (ticks).
    pub(super) instant: u64,
    /// The turn, counted since the commands have begun; 0 before.
    pub(super) turn: u64,
    pub(super) virtual_limit: Option<Nanos>,
    pub(super) stop: Stop,
    /// Threads for several processors at once; None: they run in turn.
    pub(super) pool: Option<VcpuPool>,
    /// Tells before the commands begin what begins with them, if anything does.
    pub(super) begin_source: Option<BeginSource>,
    /// Makes the debugger when the commands begin, if there is to be one.
    pub(super) debug_source: Option<DebugSource>,
    /// The debugger, while there is one.
    pub(super) debug: Option<Box<Debug>>,
    /// The branches of machines, where they have begun.
    pub(super) branching: Vec<Branching>,
    /// Tells when the commands begin which snapshots are taken, if any are.
    pub(super) snapshot_source: Option<SnapshotSource>,
    /// The snapshots, while they are taken.
    pub(super) snapshots: Option<Box<Snapshots>>,
    /// Tells when the commands begin how the run becomes another, if it does.
    pub(super) change_source: Option<ChangeSource>,
    /// The changes that are to come.
    pub(super) changes: Option<Box<Changes>>,
    /// True if the run has become another.
    pub(super) has_changed: bool,
    /// Tells when the commands begin what is sampled, if anything is to be.
    pub(super) profile_source: Option<ProfileSource>,
    /// Tells of the files of guests' programs, for their stacks.
    pub(super) program_source: Option<ProgramSource>,
    /// The samples, while the commands run.
    pub(super) sampler: Option<Box<Sampler>>,
    // Kept between turns, so that these do not allocate.
    pub(super) limits: Limits,
    pub(super) slices: Vec<Slice>,
    pub(super) begun: Vec<Begun>,
    pub(super) thread_slices: Vec<ThreadSlice>,
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
        self.timeline.triggers.add(trigger)
    }

    /// Returns the time at which the last processor became idle.
    pub(super) fn last_idle(&self) -> u64 {
        let times = self.machines.iter().flat_map(|machine| &machine.processors);
        times.map(|processor| processor.time).max().unwrap_or(0)
    }

    /// The next event of any machine (ticks).
    pub(super) fn next_event(&self) -> Option<u64> {
        let machines = self.machines.iter().filter(|machine| !machine.finished);
        let machines = machines.filter_map(|machine| machine.next_event(&self.timeline));
        machines.chain(self.timeline.next_crossing()).min()
    }

    /// Returns the time for which the machines have stood still so far.
    pub(super) fn frozen(&mut self) -> Duration {
        self.machines.iter_mut().map(Machine::frozen).sum()
    }
}
