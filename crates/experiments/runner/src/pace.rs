//! Virtual time that passes no faster than the wall clock.

use std::time::{Duration, Instant};

/// Limit on the lateness (wall clock) that an idle guest can make up for.
const CREDIT: Duration = Duration::from_millis(50);
/// The longest wait: the waiting thread has other work to do.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// The wall clock, by which virtual time is waited for.
#[derive(Debug)]
pub struct Pace {
    /// Until when virtual time that was waited for takes by the wall clock.
    due: Instant,
}

impl Pace {
    /// The pace of a run that begins at `now`.
    pub fn from(now: Instant) -> Self {
        Self { due: now }
    }

    /// Returns the wall-clock time that a wait of `limit` (ns) still takes at `now`.
    pub fn wait(&mut self, limit: u64, now: Instant) -> Duration {
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_nanos(limit).min(MAX_WAIT);
        self.due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_is_no_faster_than_the_wall_clock() {
        let start = Instant::now() + Duration::from_secs(1);
        let mut pace = Pace::from(start);
        let ms = |count: u64| Duration::from_millis(count);
        assert_eq!(pace.wait(5_000_000, start), ms(5));
        // 2 ms late: the next wait is shorter by that.
        assert_eq!(pace.wait(5_000_000, start + ms(7)), ms(3));
        // Late by long: no more than the credit is made up for.
        let late = start + Duration::from_secs(100);
        assert_eq!(pace.wait(5_000_000, late), Duration::ZERO);
        assert_eq!(pace.wait(45_000_000, late), Duration::ZERO);
        assert_eq!(pace.wait(5_000_000, late), ms(5));
        assert_eq!(pace.wait(u64::MAX, late), ms(55), "the longest wait");
    }
}
