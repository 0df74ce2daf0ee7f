//! A power cut: nothing that is under way ever ends.

use stasis_block::clock::Nanos;

use super::bus::Channel;
use super::slots::{List, Slots, NONE};
use super::unit::{Unit, UnitState};
use super::{Array, Op};

impl Array {
    /// The power fails at `now`, to which everything was popped, and comes back:
    /// no operation under way ever ends, and nothing is held any more. Tells each
    /// of them in the order of submission, and whether the cells that it was to
    /// change are neither as before nor as after.
    pub fn power_cut(&mut self, now: Nanos, mut dropped: impl FnMut(Op, bool)) {
        self.settle(now);
        let mut changing = Vec::new();
        for unit in &self.units {
            let at_work = matches!(
                unit.state,
                UnitState::Program
                    | UnitState::Erase
                    | UnitState::Suspending
                    | UnitState::Suspended
                    | UnitState::Resuming
            );
            for first in [unit.suspended, if at_work { unit.current } else { NONE }] {
                let mut index = first;
                while index != NONE {
                    changing.push(index);
                    index = self.slots[index].mate;
                }
            }
        }
        let mut ended = self.finished.head;
        while ended != NONE {
            changing.push(ended);
            ended = self.slots[ended].next;
        }
        for index in self.slots.by_number().into_iter().filter(|&index| !self.slots[index].fine) {
            // Pages held between two passes can no more be read.
            let held = self.word_lines.as_ref().is_some_and(|lines| lines.holds(index));
            dropped(self.slots[index].op, held || changing.contains(&index));
        }
        if let Some(lines) = &mut self.word_lines {
            lines.clear();
        }
        for (lun, (planes, since)) in self.busy.iter_mut().enumerate() {
            if *planes > 0 {
                self.lun_usage.add(lun as u32, *since, now);
            }
            (*planes, *since) = (0, now);
        }
        for unit in &mut self.units {
            *unit = Unit::new(unit.channel, unit.lun);
        }
        self.channels.iter_mut().for_each(|channel| *channel = Channel::new());
        self.dirty_units.clear();
        self.dirty_channels.clear();
        self.due.clear();
        self.finished = List::EMPTY;
        self.slots = Slots::new();
        self.now = now;
    }
}
