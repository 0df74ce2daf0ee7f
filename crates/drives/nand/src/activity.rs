//! Activities of an array's parts with their times, kept on demand until they are taken.

use stasis_block::clock::Nanos;
use stasis_block::timeline::Step;

use super::slots::{Phase, Slot, Slots};
use super::unit::{Unit, UnitState};
use super::{OpKind, Priority};
use crate::PageAddress;

/// Maximum number of activities that wait to be taken; further ones are only counted.
const MAX_WAITING: usize = 1 << 16;

/// The part of the array that a step occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// A channel, by its number.
    Channel(u32),
    /// A plane, or a LUN whose planes work in lockstep; see [`Array::units`](crate::Array::units).
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
    /// Time at which it begins (ns).
    pub begin: Nanos,
    /// Time at which it ends (ns).
    pub end: Nanos,
}

/// Activities that wait to be taken.
///
/// Invariant: those of one part are in the order of time, and no two of them overlap.
#[derive(Debug)]
pub(super) struct Log {
    kept: Vec<Activity>,
    lost: u64,
    /// Operations that run as a part of another: its number, and theirs.
    joined: Vec<(u64, u64)>,
    /// Start of the current step of each unit (ns).
    began: Vec<Nanos>,
}

impl Log {
    /// Makes one of so many units, whose current steps count from `now` on.
    pub(super) fn new(units: usize, now: Nanos) -> Self {
        let (kept, joined, began) = (Vec::new(), Vec::new(), vec![now; units]);
        Self { kept, lost: 0, joined, began }
    }

    /// Hands over what is kept, and forgets it. Returns how many more there were.
    pub(super) fn take(&mut self, take: impl FnMut(Activity)) -> u64 {
        self.kept.drain(..).for_each(take);
        std::mem::take(&mut self.lost)
    }

    /// An operation of the number `mate` runs as a part of that of the number `leader`.
    pub(super) fn join(&mut self, leader: u64, mate: u64) {
        if self.joined.len() < MAX_WAITING {
            self.joined.push((leader, mate));
        }
    }

    /// Hands over which operations run as a part of another, and forgets them.
    pub(super) fn take_joined(&mut self, mut take: impl FnMut(u64, u64)) {
        self.joined.drain(..).for_each(|(leader, mate)| take(leader, mate));
    }

    /// The transfer of an operation on a channel ends now.
    pub(super) fn transfer(&mut self, channel: u32, slot: &Slot, now: Nanos) {
        let step = match slot.phase {
            Phase::Command => Step::Command,
            Phase::DataIn => Step::DataIn,
            Phase::DataOut | Phase::DataOutHolding => Step::DataOut,
        };
        let bytes = if step == Step::Command { 0 } else { slot.op.bytes };
        let part = Part::Channel(channel);
        self.push(Activity { bytes, ..Activity::of(slot, part, step, (slot.since, now)) });
    }

    /// The step of a unit ends now: it is over, or the cells stop for a read.
    pub(super) fn step(&mut self, number: u32, unit: &Unit, slots: &Slots, now: Nanos) {
        let (step, leader) = match unit.state {
            UnitState::Suspending => (Step::Suspend, unit.suspended),
            UnitState::Resuming => (Step::Resume, unit.suspended),
            UnitState::ReadCopy | UnitState::ProgramCopy => (Step::Register, unit.current),
            _ => (Step::Cells, unit.current),
        };
        let times = (self.began[number as usize], now);
        if times.0 < times.1 {
            self.push(Activity::of(&slots[leader], Part::Unit(number), step, times));
        }
    }

    /// A step of a unit begins.
    pub(super) fn begin(&mut self, unit: u32, now: Nanos) {
        self.began[unit as usize] = now;
    }

    fn push(&mut self, activity: Activity) {
        if self.kept.len() < MAX_WAITING {
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

#[cfg(test)]
mod tests {
    use super::super::holders::Held;
    use super::super::Op;
    use super::*;

    #[test]
    fn steps_count_from_their_begin_and_what_is_too_much_is_counted() {
        let mut slots = Slots::new();
        let (at, priority) = (PageAddress::default(), Priority::Gc);
        let op = Op { kind: OpKind::Erase, at, source: at, bytes: 8, priority, token: 0, group: 0 };
        let index = slots.insert(3, 0, Held::default(), op);
        let mut unit = Unit::new(0, 0);
        (unit.state, unit.current) = (UnitState::Erase, index);
        let mut log = Log::new(1, 5);
        log.step(0, &unit, &slots, 5);
        log.step(0, &unit, &slots, 9);
        log.begin(0, 9);
        slots[index].phase = Phase::DataOut;
        log.transfer(2, &slots[index], 12);
        let mut all = Vec::new();
        assert_eq!(log.take(|activity| all.push(activity)), 0);
        let shown = |a: &Activity| (a.part, a.step, a.begin, a.end, a.bytes);
        let cells = (Part::Unit(0), Step::Cells, 5, 9, 0);
        let data = (Part::Channel(2), Step::DataOut, 3, 12, 8);
        assert_eq!(all.iter().map(shown).collect::<Vec<_>>(), [cells, data]);
        (0..MAX_WAITING + 3).for_each(|_| log.transfer(2, &slots[index], 12));
        assert_eq!(log.take(|_| ()), 3);
    }
}
