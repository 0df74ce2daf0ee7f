//! One slice of one processor: into guest mode, out of it, and when that was.

use super::line::Line;
use super::one::{After, Machine};
use crate::error::Error;
use crate::exit::Exit;
use crate::vcpu::{State, Stay};

/// A slice, as the run has planned it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    /// Its processor's place among all, and its number in its machine.
    pub(super) place: usize,
    pub(super) index: usize,
    /// When it ends at the latest (ticks of that processor's time).
    pub(super) until: u64,
    /// Where the busy processor that is furthest behind is, of all others.
    pub(super) others: Option<u64>,
}

impl Machine {
    /// Runs a processor until the slice's end or an exit of its own.
    pub(super) fn slice(&mut self, line: &mut Line, slice: Slice) -> Result<After, Error> {
        let Slice { place, index, until, others } = slice;
        let processor = &mut self.processors[index];
        processor.yields = false;
        processor.late = false;
        let now = processor.time;
        line.clock.set(now);
        if until <= now.saturating_add(self.vcpus[index].shortest()) {
            // Too little to enter for: the clock is set forward to the event.
            processor.time = until.max(now);
            return Ok(After::Continue);
        }
        let injecting = self.inject(line, index)?;
        let processor = &mut self.processors[index];
        processor.eoi.offer(&processor.apic, &self.memory);
        if self.processors.len() > 1 {
            self.show_clock(line, index, until - now);
        }
        let entered = line.clock.now();
        let Stay { exit, overshoot } = self.vcpus[index].stay(&mut line.clock, until, injecting)?;
        let exits = &mut line.statistics.exits;
        exits.total += u64::from(exit != Exit::Interrupted);
        if let Some(over) = overshoot {
            exits.kick += 1;
            exits.total += 1;
            line.statistics.overshoot.add(line.clock.scale().to_ns(over));
        }
        let late = match exit {
            Exit::Interrupted => overshoot.is_some_and(|over| over > 0),
            _ => line.clock.now() > until,
        };
        let (left, ran) = (line.clock.now(), line.clock.now() - entered);
        self.clock.end(ran);
        let processor = &mut self.processors[index];
        (processor.time, processor.late) = (left, late);
        processor.eoi.take(&mut processor.apic, &self.memory);
        let ahead = left.saturating_sub(others.unwrap_or(left));
        line.statistics.slice(place, (entered, left), ahead);
        match exit {
            Exit::Interrupted => Ok(After::Continue),
            Exit::Halt => {
                line.statistics.exits.halt += 1;
                processor.state = State::Halted;
                Ok(After::Continue)
            }
            exit if exit.is_local() || others.is_none_or(|others| others >= left) => {
                self.act(line, index, exit)
            }
            exit => {
                processor.waiting = Some(exit);
                Ok(After::Continue)
            }
        }
    }
}
