//! gdb at a run: it stops the run at a moment, and its stops take no time of the run's.
//!
//! A stop lies between two slices of a processor's, or within one: then the slice goes on to the end
//! that it had, so that a run with stops is the run without any. gdb's remote protocol is
//! the library `gdbstub`'s; its bytes cross the run's border by a [`Debugger`]. gdb goes back in time
//! by runs that repeat this one (`plan.rs`).
//!
//! [`Debugger`]: stasis_run_events::Debugger

mod arch;
mod asked;
mod config;
mod modules;
mod monitor;
mod plan;
mod replay;
mod session;
mod target;
mod tasks;
mod written;

use stasis_channel::Branch;
use stasis_run_events::{Moment, WriteEntry};

pub(super) use config::trigger;
pub use config::{DebugConfig, DebugSource};
use plan::Breakpoint;
pub(super) use plan::{Back, Goal, Part, Plan, Position, Why};
pub(super) use replay::{Passed, Replay};
use session::Session;
pub(super) use session::Step;
use target::Debuggee;
use written::Written;

use crate::error::Error;

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
    /// There is nothing further back.
    Begin,
}

/// The debugger's hold on a run.
pub(super) struct Debug {
    pub(super) debuggee: Debuggee,
    pub(super) session: Session,
    /// The moment that has not come.
    pub(super) moment: Option<Moment>,
    /// Time at which it comes (ticks), where that is known.
    pub(super) due: Option<u64>,
    /// True if the run is to stop before its next turn.
    pub(super) wanted: bool,
    /// The turn, counted since the commands have begun.
    pub(super) turn: u64,
    /// Time at which the turn's processor was entered (ticks).
    pub(super) entered: u64,
    /// Position of another run that this one repeats.
    pub(super) replay: Option<Replay>,
    /// The branch that begins at the moment, in place of a debugger.
    pub(super) branch: Option<Branch>,
    /// The kernel's entries by which programs write, while the moment is that of a line of theirs.
    writes: Vec<WriteEntry>,
}

impl Debug {
    /// The hold on a run that has come to this turn.
    ///
    /// # Errors
    /// If the run is to repeat one by a plan that cannot be read.
    pub(super) fn new(config: DebugConfig, turn: u64) -> Result<Self, Error> {
        let DebugConfig { job, branch, wire } = config;
        let replay = job.again.as_deref().map(|plan| Replay::new(plan, turn)).transpose()?;
        let hello = replay.as_ref().map(|replay| replay.plan.hello.clone());
        Ok(Self {
            debuggee: Debuggee::new(job.tasks, job.modules),
            session: Session::new(wire, hello.unwrap_or_default()),
            moment: replay.is_none().then_some(job.moment),
            due: None,
            wanted: false,
            turn,
            entered: 0,
            replay,
            branch,
            writes: job.writes,
        })
    }

    /// The branch that begins as the command of machine `number` ends, if one does.
    pub(super) fn take_branch_at_end(&mut self, number: usize) -> Option<Branch> {
        let its = |branch: &Branch| branch.machine == number;
        let is_end = self.moment == Some(Moment::End) && self.branch.as_ref().is_some_and(its);
        is_end.then(|| self.branch.take()).flatten()
    }

    /// The moment is this line's arrival, at `here`: has another run go to the program that has written it.
    /// Returns if no run does.
    pub(super) fn go_to_writer(&mut self, line: Vec<u8>, here: Position) {
        let entries = std::mem::take(&mut self.writes);
        if entries.is_empty() {
            return;
        }
        let any = |entry: &WriteEntry| Breakpoint { linear: entry.address, process: None };
        let breakpoints = entries.iter().map(any).collect();
        let goal = Goal::Find(Back::Written, here);
        self.session.again(Plan {
            written: Some(Written { entries, line }),
            otherwise: Some(here),
            ..Plan::new(goal, (breakpoints, Default::default()))
        });
    }

    /// The moment has come: the run stops before its next turn.
    pub(super) fn come(&mut self) {
        (self.moment, self.due, self.wanted) = (None, None, true);
    }

    /// The time (ticks) at which the repeated run stood within this turn, at the processor at
    /// `place`; at any, where none is given.
    pub(super) fn ends_within(&self, place: Option<usize>) -> Option<u64> {
        let end = self.replay.as_ref()?.plan.goal.end();
        let here = end.turn == self.turn && end.part == Part::Within;
        (here && place.is_none_or(|place| place == end.place)).then_some(end.tick)
    }
}
