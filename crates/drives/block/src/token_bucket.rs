//! A token bucket as a virtual schedule, which bounds a rate and lets bursts through.
//!
//! It is the generic cell rate algorithm (ITU-T I.371, annex A.1): a request may go when its
//! scheduled time is not after the present by more than the bucket's tolerance, and moves the time
//! of the next one by its cost over the rate. Rates are kept exactly, without rounding.

use crate::clock::{Nanos, SECOND};

/// A token bucket, full at its start.
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    /// Units a second.
    rate: u64,
    /// Time by which requests may be early (ns).
    tolerance: Nanos,
    /// Scheduled time of the next request (ns), and its fraction (of a ns, over `rate`).
    next: Nanos,
    fraction: u64,
}

impl TokenBucket {
    /// A bucket that fills at `rate` units a second, at least 1, and lets requests be early by
    /// `tolerance` (ns).
    pub fn new(rate: u64, tolerance: Nanos) -> Self {
        Self { rate: rate.max(1), tolerance, next: 0, fraction: 0 }
    }

    /// A bucket that fills at `rate` units a second, at least 1, and holds `units` at most.
    pub fn holding(rate: u64, units: u64) -> Self {
        let rate = rate.max(1);
        let tolerance = u128::from(units) * u128::from(SECOND) / u128::from(rate);
        Self::new(rate, Nanos::try_from(tolerance).unwrap_or(Nanos::MAX))
    }

    /// The buckets of a rate with a burst of a length (ns): it is used up at the rates' difference.
    pub fn pair(rate: u64, burst: Option<u64>, length: Nanos) -> [Option<Self>; 2] {
        let Some(burst) = burst else { return [Some(Self::new(rate, 0)), None] };
        let early = u128::from(length) * u128::from(burst.saturating_sub(rate));
        let early = Nanos::try_from(early / u128::from(rate.max(1))).unwrap_or(Nanos::MAX);
        [Some(Self::new(rate, early)), Some(Self::new(burst, 0))]
    }

    /// Returns the time (ns) at which a request may go.
    pub fn ready_at(&self) -> Nanos {
        let next = self.next.saturating_add(u64::from(self.fraction > 0));
        next.saturating_sub(self.tolerance)
    }

    /// A request of `units` goes at `now` (ns).
    pub fn take(&mut self, now: Nanos, units: u64) {
        if now > self.next {
            (self.next, self.fraction) = (now, 0);
        }
        let rate = u128::from(self.rate);
        let scaled = u128::from(units) * u128::from(SECOND) + u128::from(self.fraction);
        self.next = self.next.saturating_add(Nanos::try_from(scaled / rate).unwrap_or(Nanos::MAX));
        self.fraction = (scaled % rate) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_at_the_difference_of_the_rates() {
        let (mut bucket, mut now) = (TokenBucket::holding(100, 1_000), 0);
        // 300 units a second are taken: 1,000 units last for 5 s.
        while bucket.ready_at() <= now {
            bucket.take(now, 30);
            now += SECOND / 10;
        }
        assert_eq!(now, 5 * SECOND + SECOND / 10, "the last request takes more than there is");
        assert_eq!(bucket.ready_at(), 5 * SECOND + 3 * SECOND / 10);
        let full = TokenBucket::holding(100, 1_000);
        bucket.take(60 * SECOND, 0);
        assert_eq!(60 * SECOND - bucket.ready_at(), full.tolerance, "it is full again");
    }

    #[test]
    fn no_value_overflows() {
        let mut bucket = TokenBucket::holding(0, u64::MAX);
        bucket.take(Nanos::MAX, u64::MAX);
        bucket.take(0, u64::MAX);
        assert_eq!(bucket.ready_at(), 0, "it holds more than was taken");
    }
}
