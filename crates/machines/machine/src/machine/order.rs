//! Which processor runs next, and how far: many processors in turn on the
//! host, at once in virtual time.
//!
//! Each processor has its own local time. The run's *instant* is the time that everything has
//! reached: all busy processors and all events. A processor's request to a device takes place when
//! the instant has come to that processor's time, so that the order of virtual time is kept
//! whichever runs first. No processor goes beyond the next event that is known, nor further than a
//! quantum beyond the instant while others are busy: that bounds how late one processor sees what
//! another has written to memory. It is the conservative synchronization of parallel discrete-event
//! simulation (Chandy and Misra, IEEE Transactions on Software Engineering SE-5, 1979), with a
//! quantum where memory gives no lookahead. Machines that share nothing but networks have a lookahead:
//! the shortest time that a frame needs. Then an event of one machine does not hold up another.
//!
//! Invariants: the instant never goes back, but where time is rewound; after it has moved, no busy
//! processor is behind it; an exit that waits has its turn with no busy processor behind it; a
//! processor that waits for that turn is given no slice; the run is idle only while no processor is
//! busy.

use super::limits::{Limit, Limits};
use super::run::Run;
use super::slice::Slice;

/// The next step of the run.
pub(super) enum Turn {
    /// An exit of the processor at this place has its turn.
    Exit(usize),
    /// The processor at this place runs.
    Slice(usize, Slice),
    /// The slices of [`Run::slices`] run at once, each on its thread of the pool.
    Round,
    /// The instant is behind: no processor can run before it moves.
    Later,
    /// Every processor is idle.
    Idle,
}

impl Run<'_> {
    /// Moves the instant as far as everything has come.
    pub(super) fn advance(&mut self) {
        let reached = match self.processors[..] {
            // One processor alone is the timeline, its lateness too.
            [(machine, index)] => Some(self.machines[machine].processors[index].time),
            _ => {
                let mut busy = self.busy();
                match (busy.next(), busy.next()) {
                    (None, _) => self.next_event().map(|event| event.min(self.last_idle())),
                    (Some((place, time)), None) if self.is_late(place) => Some(time),
                    (Some((_, first)), second) => {
                        let least = busy.chain(second).map(|(_, time)| time).fold(first, u64::min);
                        Some(self.next_event().map_or(least, |event| event.min(least)))
                    }
                }
            }
        };
        self.instant = self.instant.max(reached.unwrap_or(0));
        debug_assert!(self.busy().all(|(_, time)| time >= self.instant), "one is behind");
        self.common.clock.set(self.instant);
    }

    fn is_late(&self, place: usize) -> bool {
        let (machine, index) = self.processors[place];
        self.machines[machine].processors[index].late
    }

    /// The turn that comes at the instant, after its events.
    pub(super) fn turn(&mut self) -> Turn {
        let instant = self.instant;
        if let Some(window) = self.interleaving.as_mut().and_then(|one| one.window(instant)) {
            self.common.pace.set_quantum(Some(window));
        }
        self.slices.clear();
        let mut slices = std::mem::take(&mut self.slices);
        let mut limits = std::mem::take(&mut self.limits);
        self.limit(instant, &mut limits);
        let turn = self.turn_with(instant, &limits, &mut slices);
        (self.slices, self.limits) = (slices, limits);
        turn
    }

    fn turn_with(&mut self, instant: u64, limits: &Limits, slices: &mut Vec<Slice>) -> Turn {
        let waits = |place: usize| {
            let (machine, index) = self.processors[place];
            self.machines[machine].processors[index].waiting.is_some()
        };
        if let Some((place, _)) = self.busy().find(|&(place, time)| time <= instant && waits(place))
        {
            return Turn::Exit(place);
        }
        // One that has hardly anything left of its quantum runs when it has more.
        let enough = |place: usize, time: u64| {
            let Limit { until, is_event } = limits.of(self.processors[place].0);
            time < until && (is_event || time.saturating_add(self.common.pace.lateness()) < until)
        };
        let able = self
            .busy()
            .filter(|&(place, time)| !waits(place) && (enough(place, time) || time <= instant));
        if self.rounds.are_used() {
            // One alone too: it stays on its thread.
            let slice = |(place, _)| self.plan(place, limits.of(self.processors[place].0).until);
            slices.extend(able.map(slice));
            return if slices.is_empty() { self.nobody() } else { Turn::Round };
        }
        let next = able.min_by_key(|&(place, time)| {
            let (machine, index) = self.processors[place];
            let rank = match &self.interleaving {
                Some(interleaving) => interleaving.rank(place),
                None => i64::from(place != self.current),
            };
            (self.machines[machine].processors[index].yields, rank, time)
        });
        let Some((place, time)) = next else { return self.nobody() };
        self.current = place;
        let limit = limits.of(self.processors[place].0).until;
        let limit = match &mut self.interleaving {
            Some(interleaving) => interleaving.cut(place, time, limit),
            None => limit,
        };
        Turn::Slice(place, self.plan(place, limit))
    }

    /// Sets the limits of processors from the instant on.
    fn limit(&self, instant: u64, limits: &mut Limits) {
        limits.each.clear();
        // Whatever another machine does from the instant on reaches this one that much later.
        let Some(others) = self.common.pace.lookahead_after(instant) else {
            let event = self.next_event().unwrap_or(u64::MAX);
            let several = self.busy().nth(1).is_some();
            let quantum = self.common.pace.quantum_after(instant);
            let until = if several { event.min(quantum) } else { event };
            limits.same = Limit { until, is_event: until == event };
            return;
        };
        let machines = self.machines.iter().map(|machine| {
            let event = machine.next_event(&self.common).unwrap_or(u64::MAX);
            let quantum = match machine.furthest_behind(None) {
                Some(behind) if machine.busy().count > 1 => self.common.pace.quantum_after(behind),
                _ => u64::MAX,
            };
            let until = event.min(others).min(quantum);
            Limit { until, is_event: until == event }
        });
        limits.each.extend(machines);
    }

    /// The turn where no processor is able to run.
    fn nobody(&self) -> Turn {
        match self.busy().all(|(_, time)| time <= self.instant) {
            true => {
                debug_assert_eq!(self.busy().count(), 0, "a busy one has a turn, or is ahead");
                Turn::Idle
            }
            false => Turn::Later,
        }
    }

    /// A slice of the processor at `place` until `limit`, or its own timer.
    fn plan(&self, place: usize, limit: u64) -> Slice {
        let (number, index) = self.processors[place];
        let machine = &self.machines[number];
        debug_assert!(machine.processors[index].waiting.is_none(), "its exit has its turn first");
        let mut until = limit.min(machine.timer(&self.common, index).unwrap_or(u64::MAX));
        let reached = match self.common.pace.is_free() {
            true => machine.furthest_behind(None).unwrap_or(self.instant),
            false => self.instant,
        };
        // A processor whose guest's clock is ahead of it goes slower for a quantum.
        let ahead = machine.processors.len() > 1 && machine.clock.now() > reached;
        if machine.drives.is_lazy() || ahead {
            until = until.min(self.common.pace.quantum_after(reached));
        }
        let others = self.busy().filter(|&(other, _)| other != place).map(|(_, time)| time).min();
        Slice { place, index, until, others }
    }
}
