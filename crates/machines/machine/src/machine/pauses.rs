//! Pauses of a machine: its processors stand still, while its devices and all other machines go on. Owns
//! those to come, and the present one.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_run_events::FaultRecord;

use crate::freeze::Scale;

/// A pause of a machine's processors, or an absence of one of its drives; times count from the
/// commands' start, or from its trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Number among the experiment's faults.
    pub number: u16,
    /// Time at which it begins (ns).
    pub begin: Nanos,
    /// Time at which it ends (ns), if it does.
    pub end: Option<Nanos>,
    /// True if something else than time brings it about.
    pub triggered: bool,
}

/// The pauses of a machine.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Pauses to come, in the order of time.
    coming: VecDeque<Pause>,
    /// Pauses that wait for their trigger.
    waiting: Vec<Pause>,
    /// Time at which the commands began (ns).
    begun: Option<Nanos>,
    /// The end of the present pause (ns since the machines' start): the greatest number for none.
    until: Option<Nanos>,
}

impl Pauses {
    pub(super) fn new(pauses: Vec<Pause>) -> Self {
        let (waiting, mut coming): (Vec<_>, Vec<_>) =
            pauses.into_iter().partition(|pause| pause.triggered);
        coming.sort_by_key(|pause| pause.begin);
        Self { coming: coming.into(), waiting, begun: None, until: None }
    }

    /// Replaces the pauses that come from `now` (ns) on; a present one goes on. Of those that lie
    /// before, returns the first whose fault is not one of `known`.
    pub(super) fn change(
        &mut self,
        pauses: Vec<Pause>,
        known: &[u16],
        now: Nanos,
    ) -> Option<Pause> {
        let since = self.begun.map_or(0, |begun| now.saturating_sub(begun));
        let Self { coming, waiting, .. } = Self::new(pauses);
        let (late, coming): (Vec<_>, Vec<_>) =
            coming.into_iter().partition(|pause| pause.begin < since);
        // A failure of those that stay comes if its trigger has brought it about.
        let stays = |pause: &Pause| waiting.iter().any(|other| other.number == pause.number);
        let brought = self.coming.iter().filter(|pause| pause.triggered && stays(pause));
        let mut all: Vec<_> = brought.copied().chain(coming).collect();
        all.sort_by_key(|pause| pause.begin);
        (self.coming, self.waiting) = (all.into(), waiting);
        late.into_iter().find(|pause| !known.contains(&pause.number))
    }

    /// Starts pause `number` at `now` (ns) if it is one of these.
    pub(super) fn trigger(&mut self, number: u16, now: Nanos) {
        let Some(begun) = self.begun else { return };
        if let Some(&pause) = self.waiting.iter().find(|pause| pause.number == number) {
            let since = now.saturating_sub(begun);
            let begin = since.saturating_add(pause.begin);
            let end = pause.end.map(|end| since.saturating_add(end));
            let place = self.coming.partition_point(|other| other.begin <= begin);
            self.coming.insert(place, Pause { begin, end, ..pause });
        }
    }

    /// The commands begin.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.begun.get_or_insert(now);
    }

    /// Returns whether the processors stand still.
    pub(super) fn is_paused(&self) -> bool {
        self.until.is_some()
    }

    /// Returns whether there is a pause now, or can be one later.
    pub(super) fn any(&self) -> bool {
        self.is_paused() || !self.coming.is_empty() || !self.waiting.is_empty()
    }

    /// Returns the time at which the next pause begins, or the present one ends (ticks).
    pub(super) fn next_event(&self, scale: Scale) -> Option<u64> {
        let at = match self.until {
            Some(until) => Some(until).filter(|until| *until != Nanos::MAX),
            None => self.next_begin(),
        };
        at.map(|at| scale.to_ticks(at))
    }

    fn next_begin(&self) -> Option<Nanos> {
        Some(self.begun?.saturating_add(self.coming.front()?.begin))
    }

    /// Ends the present pause if it is over at `now` (ns). Returns whether the pause is over.
    pub(super) fn end(&mut self, now: Nanos) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
        }
        over
    }

    /// Begins the next pause if it is time at `now` (ns).
    pub(super) fn start(&mut self, now: Nanos) -> Option<FaultRecord> {
        let at = self.next_begin().filter(|at| *at <= now && self.until.is_none())?;
        let (begun, pause) = (self.begun?, self.coming.pop_front()?);
        let until = pause.end.map_or(Nanos::MAX, |end| begun.saturating_add(end));
        // One that a trigger has brought about may be over before the one in whose time it lies.
        self.until = Some(until.max(at));
        Some(FaultRecord { fault: pause.number, at, order: None, offset: 0, length: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_come_one_after_the_other() {
        let pause = |number, begin, end| Pause { number, begin, end, triggered: false };
        let mut pauses = Pauses::new(vec![pause(1, 500, None), pause(0, 100, Some(300))]);
        let scale = Scale::new(1_000_000);
        assert_eq!((pauses.next_event(scale), pauses.start(1_000)), (None, None));
        pauses.begin(1_000);
        pauses.begin(9_000);
        assert_eq!(pauses.next_event(scale), Some(1_100));
        assert_eq!(pauses.start(1_099), None);
        assert_eq!(pauses.start(1_100).map(|record| (record.fault, record.at)), Some((0, 1_100)));
        assert!(pauses.is_paused() && !pauses.end(1_299));
        assert_eq!(pauses.next_event(scale), Some(1_300));
        assert!(pauses.end(1_300) && !pauses.is_paused());
        assert_eq!(pauses.start(1_700).map(|record| (record.fault, record.at)), Some((1, 1_500)));
        assert_eq!((pauses.next_event(scale), pauses.end(u64::MAX - 1)), (None, false));
    }

    #[test]
    fn others_come_from_a_moment_on() {
        let pause = |number, begin, end| Pause { number, begin, end, triggered: false };
        let asked = Pause { triggered: true, ..pause(9, 5, Some(8)) };
        let mut pauses = Pauses::new(vec![pause(0, 100, Some(300)), pause(1, 500, None), asked]);
        pauses.begin(1_000);
        pauses.trigger(9, 1_190);
        assert!(pauses.start(1_100).is_some());
        // The present one goes on, what a trigger has brought about comes, one that was is no more.
        let others = vec![pause(0, 100, Some(300)), pause(2, 400, Some(450)), asked];
        assert_eq!(pauses.change(others, &[0, 1], 1_180), None);
        assert!(pauses.is_paused() && !pauses.end(1_299) && pauses.end(1_300));
        assert_eq!(pauses.start(1_300).map(|record| record.fault), Some(9));
        assert!(pauses.end(1_300));
        assert_eq!(pauses.start(1_400).map(|record| record.fault), Some(2));
        assert!(pauses.end(1_450));
        assert_eq!(pauses.next_event(Scale::new(1_000_000)), None, "one was left out");
        let early = pauses.change(vec![pause(3, 100, Some(200))], &[0, 1], 1_500);
        assert_eq!(early.map(|pause| pause.number), Some(3));
    }

    #[test]
    fn a_triggered_pause_counts_from_its_trigger() {
        let pause = Pause { number: 2, begin: 10, end: Some(30), triggered: true };
        let mut pauses = Pauses::new(vec![pause]);
        let scale = Scale::new(1_000_000);
        pauses.begin(1_000);
        assert_eq!(pauses.next_event(scale), None);
        for at in [1_500, 1_700] {
            pauses.trigger(1, at);
            pauses.trigger(2, at);
            assert_eq!(pauses.next_event(scale), Some(at + 10));
            let begun = pauses.start(at + 15).map(|record| (record.fault, record.at));
            assert_eq!(begun, Some((2, at + 10)));
            assert_eq!(pauses.next_event(scale), Some(at + 30));
            assert!(pauses.end(at + 30));
        }
    }
}
