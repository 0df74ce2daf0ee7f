//! Time by which a completion is begun early, so that the guest sees it on time.

use stasis_block::clock::Nanos;

/// Limit on the compensation for a way by shared memory (ns). Making a completion visible takes a
/// microsecond or so.
pub(crate) const MAX_BY_MEMORY: Nanos = 5_000;
/// Limit for a way by a socket (ns). On the loopback a send runs through the receiver's side of the
/// network as well, some 20 us.
pub(crate) const MAX_BY_SOCKET: Nanos = 60_000;
/// Change by one completion (ns).
const STEP: Nanos = 8;

/// The way from a completion whose time has come to the guest's memory takes time as well. A
/// completion begun that much earlier is seen on time: as often too early as too late, which is the
/// median, and which an occasional interruption of the thread does not move.
#[derive(Debug)]
pub(crate) struct LatencyCompensation {
    nanos: Nanos,
    max: Nanos,
}

impl LatencyCompensation {
    /// At most `max` ns: [`MAX_BY_MEMORY`] or [`MAX_BY_SOCKET`].
    pub(crate) fn new(max: Nanos) -> Self {
        Self { nanos: 0, max }
    }

    /// Time by which to begin early (ns).
    pub(crate) fn nanos(&self) -> Nanos {
        self.nanos
    }

    /// Learns from a completion that was due at `due` and delivered at `delivered`.
    pub(crate) fn learn(&mut self, due: Nanos, delivered: Nanos) {
        // A completion later than that was held up by something else: a slow medium, or other work
        // on the core.
        if delivered < due {
            self.nanos = self.nanos.saturating_sub(STEP);
        } else if delivered - due <= self.max {
            self.nanos = (self.nanos + STEP).min(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_becomes_the_median_of_the_way_whatever_interrupts() {
        let mut compensation = LatencyCompensation::new(MAX_BY_MEMORY);
        let mut early = 0;
        for round in 0..20_000u64 {
            let due = 1_000_000 * round + 100_000;
            // A way of 600 to 1,000 ns, and a stop of 60 us at times.
            let way = 600 + round * 7919 % 401 + if round % 50 == 0 { 60_000 } else { 0 };
            let delivered = due - compensation.nanos() + way;
            if round >= 10_000 {
                early += u32::from(delivered < due);
            }
            compensation.learn(due, delivered);
        }
        assert!((780..=820).contains(&compensation.nanos()), "{compensation:?}");
        assert!((4_500..=5_500).contains(&early), "{early}");
    }

    #[test]
    fn a_slow_medium_teaches_nothing() {
        let mut compensation = LatencyCompensation::new(MAX_BY_MEMORY);
        (0..10_000).for_each(|round| compensation.learn(round, round + 1_000_000));
        assert_eq!(compensation.nanos(), 0);
        (0..10_000).for_each(|round| compensation.learn(round, round + 4_000));
        assert_eq!(compensation.nanos(), MAX_BY_MEMORY);
    }
}
