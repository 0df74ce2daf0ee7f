//! One slice of one processor: into guest mode, out of it, and when that was.

use super::line::Line;
use super::one::{After, Machine};
use crate::clock::Way;
use crate::error::Error;
use crate::exit::Exit;
use crate::time::host_tsc;
use crate::vcpu::State;

/// A slice that would leave the host's quiet time within so many ticks is not
/// begun.
const SHORTEST_STAY: u64 = 40_000;
/// An event so little ahead (ticks) is not worth an entry.
const GRAIN: u64 = 400;
/// By how much a kick's handling may differ from the calibrated cost before the
/// host counts as having been away (ticks).
const KICK_TOLERANCE: u64 = 20_000;

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
        if until <= now.saturating_add(line.clock.costs.slack as u64 + GRAIN) {
            // Too little to enter for: the clock is set forward to the event.
            processor.time = until.max(now);
            return Ok(After::Continue);
        }
        self.settle(line, index)?;
        let injecting = self.inject(line, index)?;
        if self.processors.len() > 1 {
            self.show_clock(line, index, until - now);
        }
        self.arm(line, index, until - now);
        let entered = line.clock.now();
        let (exit, after) = self.vcpus[index].run(&mut line.clock, injecting)?;
        let late = match exit {
            Exit::Interrupted => self.kicked(line, index, (entered, until), after),
            _ => {
                self.left(line, index, exit.way(), after);
                line.statistics.exits.total += 1;
                line.clock.now() > until
            }
        };
        let (left, ran) = (line.clock.now(), line.clock.now() - entered);
        self.clock.end(ran);
        let processor = &mut self.processors[index];
        (processor.time, processor.late) = (left, late);
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

    /// Sleeps across the host's tick where it is near, and makes up for any sleep.
    fn settle(&mut self, line: &mut Line, index: usize) -> Result<(), Error> {
        if let Some(quiet) = &mut line.quiet {
            if host_tsc().saturating_add(SHORTEST_STAY) >= quiet.end() {
                quiet.wait();
                line.slept = true;
            }
        }
        if std::mem::take(&mut line.slept) {
            self.vcpus[index].settle()?;
        }
        Ok(())
    }

    /// Sets the timer that ends a slice of `ticks`, if it is not set to an
    /// earlier time.
    fn arm(&mut self, line: &mut Line, index: usize, ticks: u64) {
        let aim = self.vcpus[index].immediate_exit();
        line.kick.aim(aim);
        if line.kick.take_fired(host_tsc()).is_some() {
            // It fired while the host was at work: it has nothing to end.
            // SAFETY: a byte of a vCPU that is not running.
            unsafe { aim.write_volatile(0) };
        }
        let entry = host_tsc();
        let costs = &line.clock.costs;
        let mut due = entry
            .saturating_add(ticks)
            .saturating_add_signed(costs.arm + costs.enter - costs.slack)
            .min(entry + line.longest_slice);
        if let Some(quiet) = &line.quiet {
            due = due.min(quiet.end());
        }
        // An earlier time that is still armed does no harm; it is cheaper to
        // be kicked early now and then than to set the timer for each entry.
        if line.kick.armed().is_none_or(|armed| armed > due || armed < entry) {
            line.kick.arm(due);
        }
    }

    /// The guest left by itself: sets the clock to when that was.
    fn left(&mut self, line: &mut Line, index: usize, way: Way, after: u64) {
        line.clock.leave(way, after);
        if let Some(due) = line.kick.take_fired(after) {
            // SAFETY: a byte of a vCPU that is not running.
            unsafe { self.vcpus[index].immediate_exit().write_volatile(0) };
            line.clock.cap(due);
        }
    }

    /// The slice was ended from outside: sets the clock to when that was.
    /// Whether it was later than planned.
    fn kicked(
        &mut self,
        line: &mut Line,
        index: usize,
        (entered, until): (u64, u64),
        after: u64,
    ) -> bool {
        let slack = line.clock.costs.slack as u64;
        line.clock.leave(Way::Kick, after);
        let Some(due) = line.kick.take_fired(after) else {
            // Another signal: the stop flag, most likely.
            return false;
        };
        // SAFETY: a byte of a vCPU that is not running.
        unsafe { self.vcpus[index].immediate_exit().write_volatile(0) };
        let measured = line.clock.now();
        line.clock.leave_at(due);
        // Much later than due: the host was away while the guest ran on. Or an
        // earlier setting's signal.
        let late = measured.saturating_sub(line.clock.now());
        let astray = due >= after;
        if late > KICK_TOLERANCE.max(slack) || line.quiet.is_none() || astray {
            line.clock.set(measured.max(entered));
        }
        let stopped = line.clock.now();
        if stopped + slack + GRAIN < until {
            return false;
        }
        line.statistics.exits.kick += 1;
        line.statistics.exits.total += 1;
        let over = stopped.saturating_sub(until);
        line.statistics.overshoot.add(line.clock.scale().to_ns(over));
        line.clock.set(stopped.max(until));
        over > 0
    }
}
