//! gdb at a run: it stops the run at a moment, and its stops take no time of the run's.
//!
//! A stop lies between two slices of a processor's, or within one: then the slice goes on to the end
//! that it had, so that a run with stops is the run without any. gdb's remote protocol is
//! the library `gdbstub`'s; its bytes cross the run's border by a [`Debugger`].

mod arch;
mod monitor;
mod session;
mod slice;
mod target;

use stasis_run_events::{Debugger, Ending, IoRecord, Moment};

use super::run::Run;
use super::triggers::{Trigger, TriggerConfig};
use crate::error::Error;
use session::{Session, Step};
use target::Debuggee;

/// A debugger that takes hold of the run at a moment.
#[derive(Debug)]
pub struct DebugConfig {
    /// When the run stops for the first time.
    pub moment: Moment,
    /// The wire to the debugger.
    pub wire: Box<dyn Debugger>,
}

/// The number of the trigger that brings the moment about: there are fewer faults.
pub(super) const MOMENT: u16 = u16::MAX;

/// Why the run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its moment, or the user, has come.
    Moment,
    /// The instruction at RIP is a breakpoint.
    Breakpoint,
    /// The instruction that was asked for has run.
    Step,
    /// This watchpoint.
    Watch(usize),
}

/// The debugger's hold on a run.
pub(super) struct Debug {
    debuggee: Debuggee,
    session: Session,
    /// The moment that has not come.
    moment: Option<Moment>,
    /// When it comes (ticks), where that is known.
    due: Option<u64>,
    /// Whether the run is to stop before its next turn.
    wanted: bool,
}

impl Debug {
    pub(super) fn new(config: DebugConfig) -> Self {
        Self {
            debuggee: Debuggee::default(),
            session: Session::new(config.wire),
            moment: Some(config.moment),
            due: None,
            wanted: false,
        }
    }

    /// The moment has come: the run stops before its next turn.
    pub(super) fn come(&mut self) {
        (self.moment, self.due, self.wanted) = (None, None, true);
    }

    /// Looks at I/Os that were delivered for the moment.
    pub(super) fn see(&mut self, ios: &[IoRecord]) {
        let Some(Moment::Io { drive, order }) = self.moment else { return };
        if ios.iter().any(|io| io.drive == drive && io.order == order) {
            self.come();
        }
    }
}

impl DebugConfig {
    /// What brings the moment about, where that is a trigger.
    pub(super) fn trigger(&self) -> Option<TriggerConfig> {
        let Moment::Output(pattern) = &self.moment else { return None };
        let on = Trigger::Output { machine: None, pattern: pattern.clone() };
        Some(TriggerConfig { number: MOMENT, on, times: 1 })
    }
}

impl Run<'_> {
    /// The commands have begun.
    pub(super) fn debug_begins(&mut self) {
        let Some(debug) = &mut self.timeline.debug else { return };
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
        match &self.timeline.debug {
            Some(debug) if debug.wanted => self.stop(self.current, Cause::Moment),
            _ => Ok(None),
        }
    }

    /// All processors are idle until `next`: stops where the moment comes before. How the run
    /// ended, if it did.
    pub(super) fn debug_idle(&mut self, next: u64) -> Result<Option<Ending>, Error> {
        match &mut self.timeline.debug {
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
        if self.timeline.debug.as_deref().is_some_and(waits) {
            if let Some(ending) = self.stop(self.current, Cause::Moment)? {
                return Ok(ending);
            }
        }
        if let Some(mut debug) = self.timeline.debug.take() {
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
        let Some(debug) = &mut self.timeline.debug else { return };
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
        // What has happened so far is told before.
        self.timeline.flush_records()?;
        let Some(mut debug) = self.timeline.debug.take() else { return Ok(None) };
        (debug.moment, debug.due, debug.wanted) = (None, None, false);
        let scale = self.timeline.clock.scale();
        debug.debuggee.begin(&mut self.machines, &self.processors, place);
        debug.debuggee.times(scale.to_ns(now), self.timeline.statistics.started_virtual);
        debug.debuggee.lay_out_events(&self.timeline);
        let step = debug.session.stop(&mut debug.debuggee, cause);
        debug.debuggee.end(&mut self.machines);
        match step {
            Step::Continue => self.timeline.debug = Some(debug),
            Step::Detached => {}
            Step::Killed => return Ok(Some(Ending::Cancelled)),
        }
        Ok(None)
    }
}
