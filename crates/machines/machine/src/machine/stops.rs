//! Stops of a run: where a debugger wants them, between slices and within.

use stasis_run_events::{Ending, Moment};

use super::debug::{Cause, Debug, Step};
use super::run::Run;
use super::slice::Slice;
use crate::error::Error;
use crate::exit::{DebugEvent, Exit};
use crate::vcpu::SliceEnd;

impl Run<'_> {
    /// The commands have begun.
    pub(super) fn debug_begins(&mut self) {
        let Some(debug) = &mut self.debug else { return };
        match debug.moment {
            Some(Moment::Begin) => debug.come(),
            Some(Moment::At(time)) => {
                let at = self.timeline.statistics.started_virtual.saturating_add(time);
                debug.due = Some(self.timeline.clock.scale().to_ticks(at));
            }
            Some(Moment::Instruction(address)) => {
                debug.debuggee.wait_for(&mut self.machines, &self.processors, address);
            }
            _ => {}
        }
    }

    /// Stops where a debugger wants it, before the next turn. How the run ended, if it did.
    pub(super) fn debug_turn(&mut self) -> Result<Option<Ending>, Error> {
        match &self.debug {
            Some(debug) if debug.wanted => self.stop(self.current, Cause::Moment),
            _ => Ok(None),
        }
    }

    /// All processors are idle until `next`: stops where the moment comes before. How the run
    /// ended, if it did.
    pub(super) fn debug_idle(&mut self, next: u64) -> Result<Option<Ending>, Error> {
        match &mut self.debug {
            Some(debug) if debug.due.is_some_and(|due| due <= next) => {
                let now = debug.due.unwrap_or(next).max(self.instant);
                debug.come();
                self.stop_at(self.current, Cause::Moment, now)
            }
            _ => Ok(None),
        }
    }

    /// The run has ended: stops where that is the moment, and tells the debugger.
    pub(super) fn debug_end(&mut self, ending: Ending) -> Result<Ending, Error> {
        let waits = |debug: &Debug| debug.moment == Some(Moment::End);
        if self.debug.as_deref().is_some_and(waits) {
            if let Some(ending) = self.stop(self.current, Cause::Moment)? {
                return Ok(ending);
            }
        }
        if let Some(mut debug) = self.debug.take() {
            let status = match ending {
                Ending::Exited(status) => status as u8,
                _ => 1,
            };
            debug.session.ended(&mut debug.debuggee, status);
        }
        Ok(ending)
    }

    /// Looks whether the debugger has said something while the run goes on.
    pub(super) fn debug_poll(&mut self) {
        let Some(debug) = &mut self.debug else { return };
        if debug.session.poll(&mut debug.debuggee) {
            debug.wanted = true;
        }
    }

    /// Stops at the processor at `place`, until the debugger lets the run go on. How the run ended,
    /// if it did.
    fn stop(&mut self, place: usize, cause: Cause) -> Result<Option<Ending>, Error> {
        let (machine, index) = self.processors[place];
        let now = self.machines[machine].processors[index].time.max(self.instant);
        self.stop_at(place, cause, now)
    }

    /// The same, where the time is `now` (ticks).
    fn stop_at(&mut self, place: usize, cause: Cause, now: u64) -> Result<Option<Ending>, Error> {
        // The user sees all that has happened so far.
        self.timeline.flush_records()?;
        let Some(mut debug) = self.debug.take() else { return Ok(None) };
        (debug.moment, debug.due, debug.wanted) = (None, None, false);
        let scale = self.timeline.clock.scale();
        debug.debuggee.begin(&mut self.machines, &self.processors, place);
        debug.debuggee.times(scale.to_ns(now), self.timeline.statistics.started_virtual);
        debug.debuggee.lay_out_events(&self.timeline);
        let step = debug.session.stop(&mut debug.debuggee, cause);
        debug.debuggee.end(&mut self.machines);
        match step {
            Step::Continue => self.debug = Some(debug),
            Step::Detached => {}
            Step::Killed => return Ok(Some(Ending::Cancelled)),
        }
        Ok(None)
    }
}

impl Run<'_> {
    /// Runs a processor until the slice's end or an exit of the processor, as a run without a
    /// debugger does; how the run ended, if it did.
    pub(super) fn debugged_slice(
        &mut self,
        place: usize,
        slice: Slice,
    ) -> Result<Option<Ending>, Error> {
        let (number, index) = self.processors[place];
        // The instruction of a step has left the guest: its effect is there.
        if self.debug.as_ref().is_some_and(|debug| debug.debuggee.stepped == Some(place)) {
            if let Some(ending) = self.stop(place, Cause::Step)? {
                return Ok(Some(ending));
            }
        }
        let machine = &mut self.machines[number];
        let Some(begun) = machine.enter(&mut self.timeline, slice)? else { return Ok(None) };
        let mut injecting = begun.injecting;
        let end = loop {
            let vcpu = &mut self.machines[number].vcpus[index];
            let now = self.timeline.clock.now();
            let debug = self.debug.as_ref();
            let due = debug.and_then(|debug| debug.due);
            let due = due.filter(|due| (now..slice.until).contains(due));
            let steps = debug.is_some_and(|debug| debug.debuggee.steps(place));
            let end = match due {
                Some(due) if due == now => SliceEnd { exit: Exit::Interrupted, overshoot: Some(0) },
                due => {
                    let until = due.unwrap_or(slice.until);
                    // An instruction takes a tick.
                    let until = if steps { until.min(now + 1) } else { until };
                    vcpu.run_slice(&mut self.timeline.clock, until, injecting)?
                }
            };
            injecting = false;
            let reached = due.is_some_and(|due| self.timeline.clock.now() >= due);
            let cause = match end.exit {
                Exit::Interrupted if reached => Some(Cause::Moment),
                Exit::Interrupted if steps && self.timeline.clock.now() > now => {
                    self.stepped(place)
                }
                Exit::Debug(event) => self.cause(place, event),
                _ => break end,
            };
            // The processor's own time is that of its last entry.
            let now = self.timeline.clock.now();
            if let Some(cause) = cause {
                if let Some(ending) = self.stop_at(place, cause, now)? {
                    return Ok(Some(ending));
                }
                self.timeline.clock.set(now);
            }
            if now >= slice.until {
                break SliceEnd { exit: Exit::Interrupted, overshoot: Some(now - slice.until) };
            }
        };
        if let Some(debug) = &mut self.debug {
            debug.debuggee.left(place, &end.exit);
        }
        let after = self.machines[number].left(&mut self.timeline, begun, end)?;
        self.follow(number, after)
    }

    /// Why the run stops, if it does, for a processor's `event`.
    fn cause(&mut self, place: usize, event: DebugEvent) -> Option<Cause> {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let debuggee = self.debug.as_mut().map(|debug| &mut debug.debuggee);
        match event {
            DebugEvent::Breakpoint => {
                let own = debuggee.is_some_and(|all| all.is_at_breakpoint(machine, number, index));
                if !own {
                    if let Some(vcpu) = machine.vcpus[index].debug() {
                        vcpu.pass_breakpoint();
                    }
                }
                own.then_some(Cause::Breakpoint)
            }
            DebugEvent::Watch(watches) => Some(Cause::Watch(watches.trailing_zeros() as usize)),
        }
    }

    /// An instruction of the processor at `place` has run: why the run stops, if it does.
    fn stepped(&mut self, place: usize) -> Option<Cause> {
        let (number, index) = self.processors[place];
        let (_, range) = self.debug.as_ref()?.debuggee.step.clone()?;
        let rip = self.machines[number].vcpus[index].registers().ok()?.rip;
        (!range.contains(&rip)).then_some(Cause::Step)
    }
}
