//! One slice of one processor: into guest mode, out of it, and when that was. The slice and its
//! beginning are values; the processor's place in virtual time is the machine's.
//!
//! Invariants: a processor that enters guest mode is busy, and none of its exits waits; its time does
//! not go back in a slice; one exit of it waits at most.

use super::common::Common;
use super::vm::{After, Machine};
use crate::error::Error;
use crate::exit::{self, Exit};
use crate::pvclock::Reads;
use crate::vcpu::{ProcessorState, SliceEnd};

/// A slice, as the run has planned it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    /// Its processor's place among all, and its number in its machine.
    pub(super) place: usize,
    pub(super) index: usize,
    /// Time at which it ends at the latest (ticks of that processor's time).
    pub(super) until: u64,
    /// Place of the busy processor that is furthest behind, of all others.
    pub(super) others: Option<u64>,
}

/// A slice whose processor is about to enter guest mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) slice: Slice,
    /// Time at which it begins (ticks).
    entered: u64,
    /// True if an interrupt goes in.
    pub(super) injecting: bool,
}

impl Machine {
    /// Runs a processor until the slice's end or an exit of the processor.
    pub(super) fn slice(&mut self, common: &mut Common, slice: Slice) -> Result<After, Error> {
        let Some(begun) = self.enter(common, slice)? else { return Ok(After::Continue) };
        let vcpu = &mut self.vcpus[slice.index];
        let end = vcpu.run_slice(&mut common.clock, slice.until, begun.injecting)?;
        self.left(common, begun, end)
    }

    /// Prepares a processor's entry into guest mode; None where the slice is too short.
    pub(super) fn enter(
        &mut self,
        common: &mut Common,
        slice: Slice,
    ) -> Result<Option<Begun>, Error> {
        let Slice { index, until, .. } = slice;
        let processor = &mut self.processors[index];
        debug_assert!(processor.is_busy() && processor.waiting.is_none(), "it has no turn");
        processor.yields = false;
        processor.late = false;
        let now = processor.time;
        common.clock.set(now);
        if until <= now.saturating_add(self.vcpus[index].shortest()) {
            // The clock is set forward to the event.
            processor.time = until.max(now);
            if let (Some(watch), true) = (&mut common.watch, until > now) {
                watch.ran(slice.place, (now, until));
            }
            return Ok(None);
        }
        if let Some(watch) = &mut common.watch {
            let frozen = self.drives.frozen();
            watch.froze(usize::from(self.number), frozen, common.clock.now_ns());
        }
        let injecting = self.inject(common, index)?;
        let processor = &mut self.processors[index];
        processor.eoi.offer(&processor.apic, &self.memory);
        if self.processors.len() > 1 && self.clock.reads() == Reads::Mean {
            self.show_clock(common, index, until - now, injecting);
            common.statistics.lead(self.clock.lead());
        }
        Ok(Some(Begun { slice, entered: now, injecting }))
    }

    /// Everything after a processor's exit, which was at the clock's time.
    pub(super) fn left(
        &mut self,
        common: &mut Common,
        begun: Begun,
        end: SliceEnd,
    ) -> Result<After, Error> {
        let Begun { slice: Slice { place, index, until, others }, entered, .. } = begun;
        let SliceEnd { exit, overshoot } = end;
        let exits = &mut common.statistics.exits;
        exit::count(exits, &exit);
        if let Some(over) = overshoot {
            exits.kick += 1;
            exits.total += 1;
            common.statistics.overshoot.add(common.clock.scale().to_ns(over));
        }
        let is_late = match exit {
            Exit::Interrupted => overshoot.is_some_and(|over| over > 0),
            _ => common.clock.now() > until,
        };
        let exited = common.clock.now();
        debug_assert!(exited >= entered, "its time has gone back");
        let ran = exited - entered;
        // A slice that overruns left guest mode by a path whose cost was not calibrated: the guest
        // may have read a little more.
        let late = if is_late { common.pace.lateness() } else { 0 };
        self.clock.end(ran + late.max(common.clock.unsure_exit()));
        // A machine that shares nothing but networks sees its own processors only.
        let hindmost = match common.pace.is_free() {
            true => self.furthest_behind(Some(index)),
            false => others,
        };
        let processor = &mut self.processors[index];
        (processor.time, processor.late) = (exited, is_late);
        processor.eoi.take(&mut processor.apic, &self.memory);
        let ahead = exited.saturating_sub(hindmost.unwrap_or(exited));
        common.statistics.slice(place, (entered, exited), ahead);
        if let Some(watch) = &mut common.watch {
            watch.ran(place, (entered, exited));
        }
        match exit {
            Exit::Interrupted | Exit::Debug(_) => Ok(After::Continue),
            Exit::Halt => {
                processor.state = ProcessorState::Halted;
                self.kept_boot.halted(exited - self.origin);
                Ok(After::Continue)
            }
            exit if exit::is_local(&exit) || others.is_none_or(|others| others >= exited) => {
                self.act(common, index, exit)
            }
            exit => {
                debug_assert!(processor.waiting.is_none(), "one exit waits at most");
                processor.waiting = Some(exit);
                Ok(After::Continue)
            }
        }
    }
}
