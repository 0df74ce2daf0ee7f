//! Rewinding time: for a drive that is faster than the guest's own path of an I/O.
//!
//! After a doorbell, completions are held back for a window. If every processor
//! becomes idle within it, time is set back to the completion that is past, as if the
//! guest had been idle sooner. Nothing that the guest has seen is ever undone: time is not set
//! back before the last exit or interrupt ([`RewindState::floor`]). Owns the window, its end, and that
//! bound.

/// State of a machine that rewinds.
#[derive(Debug)]
pub(super) struct RewindState {
    window: u64,
    /// Until when completions wait for the guest to become idle (ticks).
    hold_until: u64,
    /// Time is never set back before this (ticks).
    floor: u64,
}

impl RewindState {
    /// Completions are held back for `window` (ticks) after a doorbell.
    pub(super) fn new(window: u64) -> Self {
        Self { window, hold_until: 0, floor: 0 }
    }

    /// A doorbell at `now`: its requests may complete in the past.
    pub(super) fn doorbell(&mut self, now: u64) {
        self.floor = now;
        self.hold_until = now + self.window;
    }

    /// The guest has seen something at `now`, which stays so.
    pub(super) fn seen(&mut self, now: u64) {
        self.floor = self.floor.max(now);
    }

    /// Until when completions are held back at `now`, if they are (ticks).
    pub(super) fn holds(&self, now: u64) -> Option<u64> {
        (now < self.hold_until).then_some(self.hold_until)
    }

    /// Every processor is idle at `now`, and the first completion is at `first`: completions are no
    /// longer held back. To when time goes back, if that completion is past (ticks).
    pub(super) fn release(&mut self, now: u64, first: Option<u64>) -> Option<u64> {
        self.hold_until = 0;
        first.map(|at| at.max(self.floor)).filter(|&at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_back_to_a_completion_that_is_past_but_never_before_what_was_seen() {
        let mut rewind = RewindState::new(1_000);
        assert_eq!(rewind.holds(0), None);
        rewind.doorbell(5_000);
        assert_eq!((rewind.holds(5_999), rewind.holds(6_000)), (Some(6_000), None));
        assert_eq!(rewind.release(5_800, Some(5_300)), Some(5_300));
        assert_eq!(rewind.holds(5_300), None, "released");

        rewind.doorbell(7_000);
        rewind.seen(7_400);
        rewind.seen(7_100);
        assert_eq!(rewind.release(7_800, Some(7_200)), Some(7_400), "an exit was seen");
        rewind.doorbell(9_000);
        assert_eq!(rewind.release(9_100, Some(9_500)), None, "a slower drive completes later");
        assert_eq!(rewind.release(9_100, None), None);
    }
}
