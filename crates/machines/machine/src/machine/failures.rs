//! Failures of a machine: when it fails, and when it comes back. Owns those to come, and the one that it
//! has not come back from.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::{splitmix, Random};
use stasis_drive::CutState;

/// A machine's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The power of the machine and of its drives is cut.
    PowerCut,
    /// A reset: drives keep their power, and all acknowledged data.
    Reset,
    /// The processors stop for good, while devices go on until the machine is reset.
    Hang,
    /// A non-maskable interrupt makes its kernel panic.
    Panic,
}

/// A failure of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Number among the experiment's faults.
    pub number: u16,
    /// Kind of its failure.
    pub kind: FailureKind,
    /// When, counted from the commands' start or its trigger (ns).
    pub at: Nanos,
    /// Limit on how much later than its trigger it happens (ns); `at` has the first draw.
    pub within: Nanos,
    /// After what time it boots again (ns), if it does.
    pub restart: Option<Nanos>,
    /// The state that a power cut leaves of its drives.
    pub leaves: CutState,
    /// Seed of what a power cut leaves.
    pub seed: u64,
    /// True if something else than time brings it about.
    pub triggered: bool,
}

/// The failures of a machine.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Failures to come, in the order of time.
    coming: VecDeque<Failure>,
    /// Failures that wait for their trigger.
    waiting: Vec<Failure>,
    /// Time at which the commands began (ns).
    begun: Option<Nanos>,
    /// The failure that it has not come back from, and when it does (ns): the greatest number for
    /// never.
    present: Option<(Failure, Nanos)>,
}

impl Failures {
    pub(super) fn new(failures: Vec<Failure>) -> Self {
        let (waiting, mut coming): (Vec<_>, Vec<_>) =
            failures.into_iter().partition(|failure| failure.triggered);
        coming.sort_by_key(|failure| failure.at);
        Self { coming: coming.into(), waiting, begun: None, present: None }
    }

    /// Replaces the failures that come from `now` (ns) on; a machine that is off comes back as
    /// planned. Of those that lie before, returns the first whose fault is not one of `known`.
    pub(super) fn change(
        &mut self,
        failures: Vec<Failure>,
        known: &[u16],
        now: Nanos,
    ) -> Option<Failure> {
        let since = self.begun.map_or(0, |begun| now.saturating_sub(begun));
        let Self { coming, waiting, .. } = Self::new(failures);
        let (late, coming): (Vec<_>, Vec<_>) =
            coming.into_iter().partition(|failure| failure.at < since);
        // A failure of those that stay comes if its trigger has brought it about.
        let stays = |failure: &Failure| waiting.iter().any(|other| other.number == failure.number);
        let brought = self.coming.iter().filter(|failure| failure.triggered && stays(failure));
        let mut all: Vec<_> = brought.copied().chain(coming).collect();
        all.sort_by_key(|failure| failure.at);
        (self.coming, self.waiting) = (all.into(), waiting);
        late.into_iter().find(|failure| !known.contains(&failure.number))
    }

    /// Starts fault `number` at `now` (ns) if it is one of these.
    pub(super) fn trigger(&mut self, number: u16, now: Nanos) {
        let Some(begun) = self.begun else { return };
        let its = self.waiting.iter_mut().find(|failure| failure.number == number);
        if let Some(its) = its {
            let failure = *its;
            // Each failure draws a new seed for the state that it leaves, and a new delay.
            its.seed = splitmix::nth(its.seed, 1);
            if its.within > 0 {
                its.at = Random::new(its.seed).up_to(its.within);
            }
            let at = now.saturating_sub(begun).saturating_add(failure.at);
            let place = self.coming.partition_point(|other| other.at <= at);
            self.coming.insert(place, Failure { at, ..failure });
        }
    }

    /// Returns whether its kernel is to panic, or may be.
    pub(super) fn can_panic(&self) -> bool {
        self.coming.iter().chain(&self.waiting).any(|failure| failure.kind == FailureKind::Panic)
    }

    /// Forgets all failures to come.
    pub(super) fn forget(&mut self) {
        self.coming.clear();
        self.waiting.clear();
    }

    /// The commands begin.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.begun.get_or_insert(now);
    }

    /// Returns whether it is off, so that nothing reaches it.
    pub(super) fn is_off(&self) -> bool {
        self.present.is_some_and(|(failure, back)| {
            // Until its kernel has panicked it goes on.
            failure.kind != FailureKind::Panic || back != PANICKING
        })
    }

    /// Returns whether its kernel is about to panic, as it was told to.
    pub(super) fn is_panic(&self) -> bool {
        self.present
            .is_some_and(|(failure, back)| failure.kind == FailureKind::Panic && back == PANICKING)
    }

    /// Returns the time at which it next fails, or comes back (ns).
    pub(super) fn next_event(&self) -> Option<Nanos> {
        match self.present {
            Some((_, back)) => Some(back).filter(|back| *back < PANICKING),
            None => self.next_failure(),
        }
    }

    fn next_failure(&self) -> Option<Nanos> {
        Some(self.begun?.saturating_add(self.coming.front()?.at))
    }

    /// The failure that is due at `now` (ns), with when it was.
    pub(super) fn fail(&mut self, now: Nanos) -> Option<(Failure, Nanos)> {
        let at = self.next_failure().filter(|at| *at <= now)?;
        let failure = self.coming.pop_front()?;
        // One that is off cannot fail.
        if self.present.is_some() {
            return None;
        }
        let back = match failure.kind {
            FailureKind::Panic => PANICKING,
            _ => failure.restart.map_or(NEVER, |after| at.saturating_add(after).min(PANICKING - 1)),
        };
        self.present = Some((failure, back));
        Some((failure, at))
    }

    /// Notes that the kernel has panicked at `now` (ns).
    pub(super) fn panicked(&mut self, now: Nanos) {
        if let Some((failure, back)) = &mut self.present {
            let after = failure.restart;
            *back = after.map_or(NEVER, |after| now.saturating_add(after).min(PANICKING - 1));
        }
    }

    /// Comes back if it is time at `now` (ns). Returns whether the machine comes back.
    pub(super) fn come_back(&mut self, now: Nanos) -> bool {
        let back = self.next_event().is_some_and(|back| self.present.is_some() && back <= now);
        if back {
            self.present = None;
        }
        back
    }
}

/// Time of the return of a machine that does not come back.
const NEVER: Nanos = Nanos::MAX;
/// The time at which it comes back follows from that at which its kernel has panicked.
const PANICKING: Nanos = Nanos::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(number: u16, kind: FailureKind, at: Nanos, restart: Option<Nanos>) -> Failure {
        let leaves = CutState::default();
        Failure { number, kind, at, within: 0, restart, leaves, seed: 0, triggered: false }
    }

    #[test]
    fn a_triggered_failure_comes_as_often_as_its_trigger() {
        let cut = failure(3, FailureKind::PowerCut, 50, Some(10));
        let late = failure(4, FailureKind::Reset, 2_000, Some(0));
        let mut failures = Failures::new(vec![Failure { triggered: true, ..cut }, late]);
        failures.trigger(3, 900);
        failures.begin(1_000);
        assert_eq!(failures.next_event(), Some(3_000), "its trigger came before the commands");
        for at in [1_200, 1_500] {
            failures.trigger(3, at);
            failures.trigger(4, at);
            assert_eq!(failures.next_event(), Some(at + 50));
            assert_eq!(
                failures.fail(at + 70).map(|(one, at)| (one.number, at)),
                Some((3, at + 50))
            );
            assert!(failures.come_back(at + 60));
        }
        assert_eq!(failures.next_event(), Some(3_000));
        failures.forget();
        assert_eq!(failures.next_event(), None);
    }

    #[test]
    fn each_time_of_a_trigger_has_a_delay_of_its_own() {
        let cut = Failure {
            within: 1_000,
            triggered: true,
            ..failure(0, FailureKind::PowerCut, 400, Some(0))
        };
        let delays = |seed: u64| {
            let mut failures = Failures::new(vec![Failure { seed, ..cut }]);
            failures.begin(0);
            let mut delay = |round: u64| {
                let now = round * 10_000;
                failures.trigger(0, now);
                let (failed, at) = failures.fail(now + 1_000).unwrap();
                assert!(failures.come_back(at));
                (at - now, failed.seed)
            };
            [0, 1, 2, 3].map(&mut delay)
        };
        let some = delays(7);
        assert_eq!(some[0], (400, 7), "the first is as it was drawn");
        assert!(some.iter().all(|(delay, _)| *delay <= 1_000));
        assert!(some.windows(2).all(|pair| pair[0].0 != pair[1].0 && pair[0].1 != pair[1].1));
        assert!(delays(7) == some && delays(8) != some);
    }

    #[test]
    fn a_machine_comes_back_and_fails_again() {
        use FailureKind::{PowerCut, Reset};
        let mut failures = Failures::new(vec![
            failure(2, PowerCut, 900, None),
            failure(0, PowerCut, 100, Some(300)),
            failure(1, Reset, 200, Some(1)),
        ]);
        assert_eq!((failures.next_event(), failures.fail(u64::MAX)), (None, None));
        failures.begin(1_000);
        assert_eq!(failures.next_event(), Some(1_100));
        assert_eq!(failures.fail(1_099), None);
        assert_eq!(failures.fail(1_100).map(|(one, at)| (one.number, at)), Some((0, 1_100)));
        assert!(failures.is_off() && !failures.come_back(1_399));
        assert_eq!(failures.next_event(), Some(1_400));
        assert_eq!(failures.fail(1_250), None, "one that is off cannot fail");
        assert!(failures.come_back(1_400) && !failures.is_off());
        assert_eq!(failures.fail(1_900).map(|(one, at)| (one.number, at)), Some((2, 1_900)));
        assert_eq!((failures.next_event(), failures.come_back(u64::MAX)), (None, false));
        assert!(failures.is_off(), "it never comes back");
    }

    #[test]
    fn others_come_from_a_moment_on() {
        use FailureKind::{PowerCut, Reset};
        let early = failure(0, PowerCut, 100, Some(300));
        let mut failures = Failures::new(vec![early, failure(1, Reset, 900, Some(1))]);
        failures.begin(1_000);
        assert!(failures.fail(1_100).is_some());
        let others = vec![early, failure(2, PowerCut, 700, Some(5))];
        assert_eq!(failures.change(others, &[0, 1], 1_200), None);
        assert!(failures.is_off() && failures.come_back(1_400), "it comes back as it was to");
        assert_eq!(failures.next_event(), Some(1_700));
        let found = failures.change(vec![failure(3, Reset, 150, None)], &[0, 1], 1_500);
        assert_eq!((found.map(|one| one.number), failures.next_event()), (Some(3), None));
    }

    #[test]
    fn a_panic_goes_on_until_the_kernel_has_panicked() {
        let mut failures = Failures::new(vec![failure(0, FailureKind::Panic, 0, Some(5))]);
        failures.begin(10);
        assert!(failures.fail(10).is_some());
        assert!(failures.is_panic() && !failures.is_off());
        assert_eq!((failures.next_event(), failures.come_back(1_000)), (None, false));
        failures.panicked(20);
        assert!(!failures.is_panic() && failures.is_off() && failures.come_back(25));
    }
}
