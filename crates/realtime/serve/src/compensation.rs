//! Time by which a completion is begun early, so that the guest sees it on time.

use stasis_block::clock::Nanos;

/// Longest compensation (ns). Making a completion visible takes a microsecond or so.
const MAX_COMPENSATION: Nanos = 5_000;
/// Change by one completion (ns).
const STEP: Nanos = 8;

/// The way from a completion whose time has come to the guest's memory takes time as well. A
/// completion begun that much earlier is seen on time: as often too early as too late, which is the
/// median, and which an occasional interruption of the thread does not move.
#[derive(Debug, Default)]
pub(crate) struct LatencyCompensation(Nanos);

impl LatencyCompensation {
    /// Time by which to begin early (ns).
    pub(crate) fn nanos(&self) -> Nanos {
        self.0
    }

    /// A completion that was due at `due` was seen at `seen`.
    pub(crate) fn learn(&mut self, due: Nanos, seen: Nanos) {
        // A completion later than that was held up by something else: a slow medium, or other work
        // on the core.
        if seen < due {
            self.0 = self.0.saturating_sub(STEP);
        } else if seen - due <= MAX_COMPENSATION {
            self.0 = (self.0 + STEP).min(MAX_COMPENSATION);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_becomes_the_median_of_the_way_whatever_interrupts() {
        let mut compensation = LatencyCompensation::default();
        let mut early = 0;
        for round in 0..20_000u64 {
            let due = 1_000_000 * round + 100_000;
            // A way of 600 to 1,000 ns, and a stop of 60 us at times.
            let way = 600 + round * 7919 % 401 + if round % 50 == 0 { 60_000 } else { 0 };
            let seen = due - compensation.nanos() + way;
            if round >= 10_000 {
                early += u32::from(seen < due);
            }
            compensation.learn(due, seen);
        }
        assert!((780..=820).contains(&compensation.nanos()), "{compensation:?}");
        assert!((4_500..=5_500).contains(&early), "{early}");
    }

    #[test]
    fn a_slow_medium_teaches_nothing() {
        let mut compensation = LatencyCompensation::default();
        (0..10_000).for_each(|round| compensation.learn(round, round + 1_000_000));
        assert_eq!(compensation.nanos(), 0);
        (0..10_000).for_each(|round| compensation.learn(round, round + 4_000));
        assert_eq!(compensation.nanos(), MAX_COMPENSATION);
    }
}
