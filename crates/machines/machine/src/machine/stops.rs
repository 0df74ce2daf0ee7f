//! Stops of a run: where a debugger wants them, between slices and within. Steps of the run: `debug`
//! owns what the debugger wants, and where the run stands.

use std::ops::ControlFlow;

use stasis_run_events::{Ending, Moment};

use super::debug::{self, Cause, Debug, Goal, Part, Passed, Position, Step, Why};
use super::run::Run;
use super::slice::Slice;
use super::triggers;
use super::vm::After;
use crate::error::Error;
use crate::exit::{DebugEvent, Exit};
use crate::vcpu::{SliceEnd, MAX_SLICE};

const NO_DEBUGGER: &str = "a debugger needs the engine exact: use --engine exact";
const ANOTHER: &str = "the run has not repeated itself: this is another moment than the one before";

impl Run<'_> {
    /// The commands have begun, or go on from a snapshot: a debugger may take hold of the run.
    pub(super) fn debug_begins(&mut self) -> Result<(), Error> {
        let Some(config) = self.sources.debugger() else { return Ok(()) };
        let mut vcpus = self.machines.iter_mut().flat_map(|machine| &mut machine.vcpus);
        if self.rounds.are_used() || vcpus.any(|vcpu| vcpu.debug().is_none()) {
            return Err(Error::Limit(NO_DEBUGGER.into()));
        }
        let mut debug = Box::new(Debug::new(config, self.turn)?);
        if let Some(trigger) =
            debug.moment.as_ref().and_then(|moment| debug::trigger(moment, triggers::MOMENT))
        {
            self.add_trigger(trigger)?;
        }
        match debug.moment {
            Some(Moment::Begin) => debug.come(),
            Some(Moment::At(time)) => {
                let at = self.common.statistics.started_virtual.saturating_add(time);
                debug.due = Some(self.common.clock.scale().to_ticks(at));
            }
            Some(Moment::Instruction(address)) => {
                debug.debuggee.wait_for(&mut self.machines, &self.processors, address);
            }
            _ => {}
        }
        if let (Some(replay), true) = (&mut debug.replay, self.turn > 0) {
            let machine = self.processors[self.current].0;
            replay.look(&debug.debuggee, &mut self.machines[machine], self.current);
        }
        if let Some(replay) = &debug.replay {
            debug.session.came(&replay.plan.incoming);
            if matches!(replay.plan.goal, Goal::Find(..)) {
                debug.debuggee.with(&mut self.machines, &self.processors, |debuggee| {
                    debuggee.set_as(&replay.plan);
                });
            }
        }
        self.debug = Some(debug);
        Ok(())
    }

    /// Stops where a debugger wants it, before the next turn. Returns the run's ending, if it has
    /// ended.
    pub(super) fn debug_turn(&mut self) -> Result<Option<Ending>, Error> {
        let Some(debug) = &mut self.debug else { return Ok(None) };
        debug.turn = self.turn;
        if let Some(replay) = &debug.replay {
            let end = replay.plan.goal.end();
            return match end.turn.cmp(&debug.turn) {
                std::cmp::Ordering::Equal if end.part == Part::Before => {
                    self.arrive(self.current, Part::Before, None)
                }
                std::cmp::Ordering::Less if end.part != Part::End => self.miss(self.current, None),
                _ => Ok(None),
            };
        }
        match debug.wanted {
            true => {
                if let Some(line) = self.common.triggers.take_moment() {
                    let (turn, place, tick) = (self.turn, self.current, self.time_of(self.current));
                    let here = Position { turn, tick, place, ..Position::BEGIN };
                    self.debug.iter_mut().for_each(|debug| debug.go_to_writer(line.clone(), here));
                }
                self.stop(self.current, Cause::Moment, Part::Before)
            }
            false => Ok(None),
        }
    }

    /// Stops where the moment comes before `next`, until which all processors are idle. Returns the
    /// run's ending, if it has ended.
    pub(super) fn debug_idle(&mut self, next: u64) -> Result<Option<Ending>, Error> {
        let Some(debug) = &mut self.debug else { return Ok(None) };
        if let Some(tick) = debug.ends_within(None) {
            return self.arrive(self.current, Part::Within, Some(tick));
        }
        match debug.due {
            Some(due) if due <= next => {
                let now = due.max(self.instant);
                debug.come();
                let ending = self.stop_at(self.current, Cause::Moment, (Part::Within, now))?;
                if !self.branching.is_empty() {
                    self.instant = now;
                }
                Ok(ending)
            }
            _ => Ok(None),
        }
    }

    /// The run has ended: stops where that is the moment, and tells the debugger.
    pub(super) fn debug_end(&mut self, ending: Ending) -> Result<Ending, Error> {
        let stopped = match self.debug.as_deref() {
            Some(debug) if debug.replay.is_some() => self.arrive(self.current, Part::End, None)?,
            Some(debug) if debug.moment == Some(Moment::End) && debug.branch.is_none() => {
                self.stop(self.current, Cause::Moment, Part::End)?
            }
            _ => None,
        };
        if let Some(ending) = stopped {
            return Ok(ending);
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

    /// Returns whether a debugger is there.
    pub(super) fn is_debugged(&self) -> bool {
        self.debug.as_ref().is_some_and(|debug| !debug.session.is_away())
    }

    /// Looks whether the debugger has said something while the run goes on.
    pub(super) fn debug_poll(&mut self) {
        let Some(debug) = &mut self.debug else { return };
        if debug.session.poll(&mut debug.debuggee) {
            debug.wanted = true;
        }
    }

    /// The time (ticks) of the processor at `place`, between turns.
    fn time_of(&self, place: usize) -> u64 {
        let (machine, index) = self.processors[place];
        self.machines[machine].processors[index].time.max(self.instant)
    }

    /// Stops at the processor at `place`, until the debugger lets the run go on. Returns the run's
    /// ending, if it has ended.
    fn stop(&mut self, place: usize, cause: Cause, part: Part) -> Result<Option<Ending>, Error> {
        self.stop_at(place, cause, (part, self.time_of(place)))
    }

    /// Like `stop`, but at `now` (ticks).
    fn stop_at(
        &mut self,
        place: usize,
        mut cause: Cause,
        (part, now): (Part, u64),
    ) -> Result<Option<Ending>, Error> {
        // The user sees all that has happened so far.
        self.common.flush_records()?;
        let Some(mut debug) = self.debug.take() else { return Ok(None) };
        (debug.moment, debug.due, debug.wanted) = (None, None, false);
        let scale = self.common.clock.scale();
        debug.debuggee.begin(&mut self.machines, &self.processors, place);
        if let Some(branch) = debug.branch.take() {
            debug.debuggee.release();
            debug.debuggee.end(&mut self.machines);
            self.become_branch(branch, false)?;
            return Ok(None);
        }
        debug.debuggee.times(scale.to_ns(now), self.common.statistics.started_virtual);
        debug.debuggee.lay_out_events(&self.common);
        for line in debug.debuggee.take_notes() {
            debug.session.say(line);
        }
        loop {
            let step = debug.session.stop(&mut debug.debuggee, cause);
            match step {
                Step::Back(back) => {
                    let rip = debug.debuggee.rip(place);
                    let here = Position { turn: debug.turn, part, tick: now, place, rip };
                    let why = debug.back(back, here);
                    debug.session.say(format!("cannot go back: {why}"));
                    cause = Cause::Begin;
                    continue;
                }
                // Another debugger may come.
                Step::Continue | Step::Detached => self.debug = Some(debug),
                Step::Killed => {
                    debug.debuggee.end(&mut self.machines);
                    return Ok(Some(Ending::Cancelled));
                }
            }
            break;
        }
        if let Some(debug) = &mut self.debug {
            debug.debuggee.end(&mut self.machines);
        }
        Ok(None)
    }

    /// Arrives at the moment that the run goes to, at the processor at `place` and `now` (ticks),
    /// by default the processor's own time. Returns the run's ending, if it has ended.
    fn arrive(
        &mut self,
        place: usize,
        part: Part,
        now: Option<u64>,
    ) -> Result<Option<Ending>, Error> {
        let now = now.unwrap_or_else(|| self.time_of(place));
        let Some(debug) = &mut self.debug else { return Ok(None) };
        let Some(replay) = debug.replay.take() else { return Ok(None) };
        let (place, cause) = match &replay.plan.goal {
            // Between turns the run stands at the processor that ran last.
            Goal::Go(there, why) if there.part == Part::Before => (self.current, why.into()),
            Goal::Go(there, why) => (there.place, why.into()),
            Goal::Find(_, present) => {
                let place = present.place;
                let plan = replay.next();
                // The repetition that looked was granted, and so is this one; else it stays here.
                let why = debug.session.again(plan);
                debug.session.say(format!("cannot go back: {why}"));
                return self.stop_at(place, Cause::Begin, (part, now));
            }
        };
        debug.debuggee.with(&mut self.machines, &self.processors, |debuggee| {
            debuggee.release();
            if replay.plan.otherwise.is_none() {
                debuggee.set_as(&replay.plan);
            }
        });
        self.stop_at(place, cause, (part, now))
    }

    /// Handles a run that has passed the moment that it goes to. Returns the run's ending, if it
    /// has ended.
    fn miss(&mut self, place: usize, now: Option<u64>) -> Result<Option<Ending>, Error> {
        let Some(debug) = &mut self.debug else { return Ok(None) };
        debug.session.say(ANOTHER.into());
        if let Some(replay) = &mut debug.replay {
            replay.plan.goal = Goal::Go(Position { place, ..replay.plan.goal.end() }, Why::Step);
        }
        self.arrive(place, Part::Before, now)
    }
}

impl Debug {
    /// Has another run go back from `here`. Returns the reason if no run does.
    fn back(&mut self, back: debug::Back, here: Position) -> String {
        // The instruction before is known where it is of the same slice.
        let goal = match back {
            debug::Back::Step(place)
                if place == here.place && here.part == Part::Within && here.tick > self.entered =>
            {
                Goal::Go(Position { tick: here.tick - 1, rip: None, ..here }, Why::Step)
            }
            back => Goal::Find(back, here),
        };
        self.session.again(debug::Plan::new(goal, self.debuggee.set_by_gdb()))
    }
}

impl From<&Why> for Cause {
    fn from(why: &Why) -> Self {
        match why {
            Why::Begin => Self::Begin,
            Why::Breakpoint => Self::Breakpoint,
            Why::Step => Self::Step,
            &Why::Watch(slot) => Self::Watch(slot),
            Why::Moment => Self::Moment,
        }
    }
}

impl Run<'_> {
    /// Stops before a slice of the processor at `place`, if a debugger wants it. Returns the run's
    /// ending, if it has ended.
    fn debug_entry(&mut self, place: usize) -> Result<Option<Ending>, Error> {
        let Some(debug) = &mut self.debug else { return Ok(None) };
        let end = debug.replay.as_ref().map(|replay| replay.plan.goal.end());
        if end.is_some_and(|end| (end.turn, end.part) == (debug.turn, Part::Entry)) {
            return self.arrive(place, Part::Entry, None);
        }
        // The instruction of a step has left the guest: its effect is there.
        match debug.debuggee.stepped == Some(place) {
            true => self.stop(place, Cause::Step, Part::Entry),
            false => Ok(None),
        }
    }

    /// Runs a processor until the slice's end or an exit of the processor, as a run without a
    /// debugger does. Breaks with the run's ending, if it has ended.
    pub(super) fn debugged_slice(
        &mut self,
        place: usize,
        slice: Slice,
    ) -> Result<ControlFlow<Ending, After>, Error> {
        let (number, index) = self.processors[place];
        if let Some(ending) = self.debug_entry(place)? {
            return Ok(ControlFlow::Break(ending));
        }
        let machine = &mut self.machines[number];
        let Some(begun) = machine.enter(&mut self.common, slice)? else {
            return Ok(ControlFlow::Continue(After::Continue));
        };
        let entered = self.common.clock.now();
        if let Some(debug) = &mut self.debug {
            debug.entered = entered;
        }
        let until = slice.until.min(entered.saturating_add(MAX_SLICE));
        let mut injecting = begun.injecting;
        // The time at which the repeated run stood has come, and the instruction has not.
        let mut is_near = false;
        let end = loop {
            let now = self.common.clock.now();
            let debug = self.debug.as_ref();
            let moment = debug.and_then(|debug| debug.due);
            let moment = moment.filter(|due| (now..until).contains(due));
            let ends = debug.and_then(|debug| debug.ends_within(Some(place)));
            let ends = ends.filter(|end| (now..=until).contains(end) && !is_near);
            let due = moment.or(ends);
            let steps = debug.is_some_and(|debug| debug.debuggee.steps(place));
            let mut end = match due {
                Some(due) if due == now => SliceEnd { exit: Exit::Interrupted, overshoot: Some(0) },
                due => {
                    let until = due.unwrap_or(until);
                    // An instruction takes a tick.
                    let until = if steps { until.min(now + 1) } else { until };
                    let vcpu = &mut self.machines[number].vcpus[index];
                    vcpu.run_slice(&mut self.common.clock, until, injecting)?
                }
            };
            injecting = false;
            let (before, now) = (now, self.common.clock.now());
            let reached = due.is_some_and(|due| now >= due);
            let mut arrived = false;
            if let Exit::Debug(event) = end.exit {
                end.exit = self.of_its_process(place, event);
            }
            let cause = match end.exit {
                Exit::Interrupted if reached && ends.is_some() => {
                    arrived = self.is_there(place);
                    is_near = !arrived;
                    None
                }
                Exit::Interrupted if reached => Some(Cause::Moment),
                Exit::Interrupted if steps && now > before => self.stepped(place),
                Exit::Debug(event) if self.replays() => {
                    match self.pass(place, event, (entered, now)) {
                        Passed::Arrived => arrived = true,
                        Passed::Breakpoint => {
                            if let Some(vcpu) = self.machines[number].vcpus[index].debug() {
                                vcpu.pass_breakpoint();
                            }
                        }
                        Passed::On => {}
                    }
                    None
                }
                Exit::Debug(DebugEvent::Breakpoint) => Some(Cause::Breakpoint),
                Exit::Debug(DebugEvent::Watch(watches)) => {
                    Some(Cause::Watch(watches.trailing_zeros() as usize))
                }
                Exit::Interrupted => None,
                _ => break end,
            };
            let ending = match cause {
                _ if arrived => self.arrive(place, Part::Within, Some(now))?,
                Some(cause) => self.stop_at(place, cause, (Part::Within, now))?,
                None => None,
            };
            if let Some(ending) = ending {
                return Ok(ControlFlow::Break(ending));
            }
            // The processor's own time is that of its last entry.
            self.common.clock.set(now);
            if now >= until && !is_near {
                let overshoot = (now >= slice.until).then(|| now - slice.until);
                break SliceEnd { exit: Exit::Interrupted, overshoot };
            }
            let passed = self.debug.as_ref().and_then(|debug| debug.ends_within(Some(place)));
            if is_near && passed.is_none_or(|end| now > end) {
                is_near = false;
            }
        };
        let exited = self.common.clock.now();
        if let Some(debug) = &mut self.debug {
            debug.debuggee.left(place, &end.exit);
            if let Some(replay) = &mut debug.replay {
                replay.ran((debug.turn, place), (entered, exited));
            }
        }
        let after = self.machines[number].left(&mut self.common, begun, end)?;
        Ok(ControlFlow::Continue(after))
    }

    /// An event of the processor at `place`, as far as it is of the process whose breakpoint or watchpoint it
    /// has met; else the processor goes on.
    fn of_its_process(&mut self, place: usize, event: DebugEvent) -> Exit {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let Some(debug) = &self.debug else { return Exit::Debug(event) };
        if let Some(event) = debug.debuggee.of_its_process(machine, place, event) {
            return Exit::Debug(event);
        }
        if let (DebugEvent::Breakpoint, Some(vcpu)) = (event, machine.vcpus[index].debug()) {
            vcpu.pass_breakpoint();
        }
        Exit::Interrupted
    }

    /// Returns whether the run repeats one, and has not come to where that stood.
    fn replays(&self) -> bool {
        self.debug.as_ref().is_some_and(|debug| debug.replay.is_some())
    }

    /// Returns whether the processor at `place`, at the time at which the repeated run stood, is at
    /// its instruction. Where not, the run waits for that.
    fn is_there(&mut self, place: usize) -> bool {
        let (number, index) = self.processors[place];
        let Some(debug) = &mut self.debug else { return true };
        let Some(replay) = &debug.replay else { return true };
        let Some(rip) = replay.plan.goal.end().rip else { return true };
        let vcpu = self.machines[number].vcpus[index].debug();
        if vcpu.is_none_or(|vcpu| vcpu.registers().rip == rip) {
            return true;
        }
        debug.debuggee.with(&mut self.machines, &self.processors, |debuggee| debuggee.set_own(rip));
        false
    }

    /// An `event` of the processor at `place` in a run that repeats one, at `now` in a slice that
    /// began at `entered` (ticks).
    fn pass(&mut self, place: usize, event: DebugEvent, (entered, now): (u64, u64)) -> Passed {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let Some(debug) = &mut self.debug else { return Passed::On };
        let rip = machine.vcpus[index].debug().map(|vcpu| vcpu.registers().rip);
        let here = Position { turn: debug.turn, part: Part::Within, tick: now, place, rip };
        let Some(replay) = &mut debug.replay else { return Passed::On };
        replay.pass(&debug.debuggee, machine, event, (here, entered))
    }

    /// An instruction of the processor at `place` has run: why the run stops, if it does.
    fn stepped(&mut self, place: usize) -> Option<Cause> {
        let (number, index) = self.processors[place];
        let debug = self.debug.as_ref()?;
        let (_, range) = debug.debuggee.step.clone().filter(|(stepping, _)| *stepping == place)?;
        let rip = self.machines[number].vcpus[index].registers().ok()?.rip;
        (!range.contains(&rip)).then_some(Cause::Step)
    }
}
