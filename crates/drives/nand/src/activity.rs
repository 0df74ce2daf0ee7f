//! Activities of an array's parts with their times, kept on demand until they are taken.

use stasis_clock::Nanos;

use super::slots::{Phase, Slot};
use super::unit::State;
use super::{Array, OpKind, Priority};
use crate::PageAddress;

/// Maximum number of activities that wait to be taken; further ones are only counted.
const LIMIT: usize = 1 << 16;

/// A step of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Its command is on the channel.
    Command,
    /// Its command and its data are on the channel, to the plane.
    DataIn,
    /// Its data is on the channel, from the plane.
    DataOut,
    /// The cells are at work.
    Cells,
    /// Data moves between the data register and the cache register.
    Register,
    /// The cells suspend a program or erase for a read.
    Suspend,
    /// The cells resume the suspended program or erase.
    Resume,
}

/// The part of the array that a step occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// A channel, by its number.
    Channel(u32),
    /// A plane, or a LUN whose planes work in lockstep; see [`Array::units`].
    Unit(u32),
}

/// Part of an operation's time, in which it had a part of the array to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The part that the operation occupied.
    pub part: Part,
    /// The step.
    pub step: Step,
    /// The operation.
    pub kind: OpKind,
    /// On whose behalf.
    pub priority: Priority,
    /// Its number in the order of submission. Of a multi-plane operation, the first of its planes'.
    pub number: u64,
    /// Its page; of an erase, the block. Of a copyback the page that is written.
    pub at: PageAddress,
    /// Bytes that cross the channel.
    pub bytes: u32,
    /// When it begins (ns).
    pub begin: Nanos,
    /// When it ends (ns).
    pub end: Nanos,
}

/// Activities that wait to be taken.
#[derive(Debug)]
pub(super) struct Log {
    kept: Vec<Activity>,
    lost: u64,
    /// Start of the current step of each unit (ns).
    began: Vec<Nanos>,
}

impl Log {
    pub(super) fn begin(&mut self, unit: u32, now: Nanos) {
        self.began[unit as usize] = now;
    }

    fn push(&mut self, activity: Activity) {
        if self.kept.len() < LIMIT {
            self.kept.push(activity);
        } else {
            self.lost += 1;
        }
    }
}

impl Activity {
    fn of(slot: &Slot, part: Part, step: Step, (begin, end): (Nanos, Nanos)) -> Self {
        let (kind, priority, at) = (slot.op.kind, slot.op.priority, slot.op.at);
        Self { part, step, kind, priority, number: slot.number, at, bytes: 0, begin, end }
    }
}

impl Array {
    /// From now on its activities are kept for [`Array::take_activities`].
    pub fn watch(&mut self) {
        let began = vec![self.now; self.units.len()];
        let log = Log { kept: Vec::new(), lost: 0, began };
        self.log.get_or_insert_with(|| Box::new(log));
    }

    /// How many parts there are that do one thing at a time: planes, or where planes work in
    /// lockstep LUNs.
    pub fn units(&self) -> u32 {
        self.units.len() as u32
    }

    /// How many planes each of [`Array::units`] has.
    pub fn planes_of_unit(&self) -> u32 {
        self.parts
    }

    /// Hands over the activities that ended since this was last called, those of each part in the
    /// order of time, and forgets them. Returns how many more there were than it could keep.
    pub fn take_activities(&mut self, take: impl FnMut(Activity)) -> u64 {
        let Some(log) = &mut self.log else { return 0 };
        log.kept.drain(..).for_each(take);
        std::mem::take(&mut log.lost)
    }

    /// The transfer that a channel has ends now.
    pub(super) fn note_transfer(&mut self, channel: u32, index: u32) {
        let Some(log) = &mut self.log else { return };
        let slot = &self.slots[index];
        let step = match slot.phase {
            Phase::Command => Step::Command,
            Phase::DataIn => Step::DataIn,
            Phase::DataOut | Phase::DataOutHolding => Step::DataOut,
        };
        let bytes = if step == Step::Command { 0 } else { slot.op.bytes };
        let times = (slot.since, self.now);
        log.push(Activity { bytes, ..Activity::of(slot, Part::Channel(channel), step, times) });
    }

    /// The step of a unit ends now: it is over, or the cells stop for a read.
    pub(super) fn note_step(&mut self, unit: u32) {
        let Some(log) = &mut self.log else { return };
        let this = &self.units[unit as usize];
        let (step, leader) = match this.state {
            State::Suspending => (Step::Suspend, this.suspended),
            State::Resuming => (Step::Resume, this.suspended),
            State::ReadCopy | State::ProgramCopy => (Step::Register, this.current),
            _ => (Step::Cells, this.current),
        };
        let times = (log.began[unit as usize], self.now);
        if times.0 < times.1 {
            log.push(Activity::of(&self.slots[leader], Part::Unit(unit), step, times));
        }
    }
}
