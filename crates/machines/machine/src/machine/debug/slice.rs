//! A slice that a debugger may stop within.

use stasis_run_events::Ending;

use super::super::run::Run;
use super::super::slice::Slice;
use super::Cause;
use crate::error::Error;
use crate::exit::{DebugEvent, Exit};
use crate::vcpu::SliceEnd;

impl Run<'_> {
    /// Runs a processor until the slice's end or an exit of the processor, as a run without a
    /// debugger does; how the run ended, if it did.
    pub(in super::super) fn debugged_slice(
        &mut self,
        place: usize,
        slice: Slice,
    ) -> Result<Option<Ending>, Error> {
        let (number, index) = self.processors[place];
        // What was to be one step has left the guest: its effect is there.
        if self.timeline.debug.as_ref().is_some_and(|debug| debug.debuggee.stepped == Some(place)) {
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
            let debug = self.timeline.debug.as_ref();
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
        if let Some(debug) = &mut self.timeline.debug {
            debug.debuggee.left(place, &end.exit);
        }
        let after = self.machines[number].left(&mut self.timeline, begun, end)?;
        self.follow(number, after)
    }

    /// Why the run stops, if it does, for a processor's `event`.
    fn cause(&mut self, place: usize, event: DebugEvent) -> Option<Cause> {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let debuggee = self.timeline.debug.as_mut().map(|debug| &mut debug.debuggee);
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
        let (_, range) = self.timeline.debug.as_ref()?.debuggee.step.clone()?;
        let rip = self.machines[number].vcpus[index].debug()?.registers().rip;
        (!range.contains(&rip)).then_some(Cause::Step)
    }
}
