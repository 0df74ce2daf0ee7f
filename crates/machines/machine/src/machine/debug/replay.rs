//! Stops that a run which repeats one has passed.

use stasis_bare::svm::WATCHES;

use super::super::vm::Machine;
use super::plan::{Back, Breakpoint, Goal, Part, Plan, Position, WatchedBy, Why};
use super::target::Debuggee;
use super::written::Lines;
use crate::error::Error;
use crate::exit::DebugEvent;

/// A run that repeats one.
pub(in super::super) struct Replay {
    pub(in super::super) plan: Plan,
    /// The last of what is looked for.
    found: Option<(Position, Why)>,
    /// The watched bytes as they were seen last.
    values: [Option<u64>; WATCHES],
    /// The turn of the snapshot from which the run has begun; 0, if from none.
    begun: u64,
    /// Lines that programs write, and the instruction by which one has written what is looked for.
    lines: Lines,
    instruction: Option<Breakpoint>,
}

/// The effect of a processor's event on a run that repeats one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Passed {
    /// The run is where it is to come to.
    Arrived,
    /// The run goes on over a breakpoint.
    Breakpoint,
    /// None: the run goes on.
    On,
}

impl Replay {
    /// # Errors
    /// If the plan cannot be read.
    pub(in super::super) fn new(bytes: &[u8], begun: u64) -> Result<Self, Error> {
        let plan = serde_json::from_slice(bytes).map_err(|error| {
            Error::Limit(format!("the plan of a repetition cannot be read: {error}"))
        })?;
        Ok(Self {
            plan,
            found: None,
            values: [None; WATCHES],
            begun,
            lines: Lines::default(),
            instruction: None,
        })
    }

    /// The processor at `place` was in guest mode in this turn, between these times (ticks).
    pub(in super::super) fn ran(
        &mut self,
        (turn, place): (u64, usize),
        (entered, exited): (u64, u64),
    ) {
        if !matches!(self.plan.goal, Goal::Find(Back::Step(stepped), _) if stepped == place) {
            return;
        }
        if exited > entered {
            // Each instruction takes a tick, one that leaves guest mode too.
            let before = Position { turn, part: Part::Within, tick: exited - 1, place, rip: None };
            self.found = Some((before, Why::Step));
        }
    }

    /// The processor at `place` has left guest mode by `event`, in a slice that began at `entered`
    /// (ticks); now is `here`.
    pub(in super::super) fn pass(
        &mut self,
        debuggee: &Debuggee,
        machine: &mut Machine,
        event: DebugEvent,
        (here, entered): (Position, u64),
    ) -> Passed {
        let looks = matches!(self.plan.goal, Goal::Find(Back::Continue, _));
        if let DebugEvent::Watch(slots) = event {
            let slot = slots.trailing_zeros() as usize;
            if looks && self.changed(debuggee, machine, here.place, slot) {
                // gdb stops before the access, so that it is undone.
                let tick = here.tick.saturating_sub(1).max(entered);
                let before = Position { tick, rip: None, ..here };
                self.found = Some((before, Why::Watch(slot)));
            }
            return Passed::On;
        }
        let end = self.plan.goal.end();
        if (end.turn, end.part, end.tick, end.rip) == (here.turn, here.part, here.tick, here.rip) {
            return Passed::Arrived;
        }
        if looks {
            self.found = Some((here, Why::Breakpoint));
        } else if let Some(written) = &self.plan.written {
            let call = debuggee.call(machine, here.place, &written.entries);
            if let Some(((file, process), call)) = call {
                if self.lines.ends(file, &call.bytes, &written.line) {
                    self.found = Some((here, Why::Breakpoint));
                    let (linear, process) = (call.instruction, Some(process));
                    self.instruction = Some(Breakpoint { linear, process });
                }
            }
        }
        Passed::Breakpoint
    }

    /// The run begins with the watched bytes as they are in their processes, or else at the processor at
    /// `place`.
    pub(in super::super) fn look(
        &mut self,
        debuggee: &Debuggee,
        machine: &mut Machine,
        place: usize,
    ) {
        let values = self.plan.watchpoints.iter().zip(&mut self.values);
        for (watched, value) in values {
            *value = watched.and_then(|watched| debuggee.value(machine, place, &watched));
        }
    }

    /// Returns whether a watched store has changed anything; gdb takes one that has not for none.
    fn changed(
        &mut self,
        debuggee: &Debuggee,
        machine: &mut Machine,
        place: usize,
        slot: usize,
    ) -> bool {
        let Some(watched) = self.plan.watchpoints[slot] else { return true };
        if watched.kind != WatchedBy::Write {
            return true;
        }
        let value = debuggee.value(machine, place, &watched);
        let before = std::mem::replace(&mut self.values[slot], value);
        before.is_none() || before != value
    }

    /// The plan of the next run: it goes to what this one has found, or looks before the snapshot
    /// from which this one has begun.
    pub(in super::super) fn next(mut self) -> Plan {
        let (otherwise, begun) = (self.plan.otherwise, self.begun);
        self.plan.goal = match (self.found, begun, &self.plan.goal) {
            // The program's own instruction, before the kernel's.
            (Some((there, _)), _, Goal::Find(Back::Written, _)) => {
                self.plan.breakpoints = self.instruction.into_iter().collect();
                (self.plan.written, self.plan.otherwise) = (None, Some(there));
                Goal::Find(Back::Continue, there)
            }
            (Some((there, why)), ..) => Goal::Go(there, why),
            // A program may call the kernel by code that is not where the call returns.
            (None, _, Goal::Find(Back::Continue, there)) if otherwise.is_some() => {
                Goal::Go(*there, Why::Moment)
            }
            (None, turn, Goal::Find(back, present)) if turn > 0 => {
                Goal::Find(*back, Position::after(turn, present.place))
            }
            (None, ..) => match otherwise {
                Some(there) => Goal::Go(there, Why::Moment),
                None => Goal::Go(Position::BEGIN, Why::Begin),
            },
        };
        self.plan
    }
}
