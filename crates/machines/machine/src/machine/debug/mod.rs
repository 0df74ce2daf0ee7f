//! gdb at a run: it stops the run at a moment, and its stops take no time of the run's.
//!
//! A stop lies between two slices of a processor's, or within one: then the slice goes on to the end
//! that it had, so that a run with stops is the run without any. gdb's remote protocol is
//! the library `gdbstub`'s; its bytes cross the run's border by a [`Debugger`].

mod arch;
mod config;
mod monitor;
mod session;
mod target;

use stasis_run_events::Moment;

pub use config::DebugConfig;
pub(super) use config::MOMENT;
use session::Session;
pub(super) use session::Step;
use target::Debuggee;

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
    pub(super) debuggee: Debuggee,
    pub(super) session: Session,
    /// The moment that has not come.
    pub(super) moment: Option<Moment>,
    /// When it comes (ticks), where that is known.
    pub(super) due: Option<u64>,
    /// Whether the run is to stop before its next turn.
    pub(super) wanted: bool,
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
}
