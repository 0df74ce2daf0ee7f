//! Virtual time that passes no faster than the wall clock.

use std::time::{Duration, Instant};

/// Limit on the lateness (wall clock) that an idle guest can make up for.
const CREDIT: Duration = Duration::from_millis(50);
/// The longest wait: the waiting thread has other work to do.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// The longest virtual time between two waits that is made up for.
const MAX_PASSED: Duration = Duration::from_secs(1);

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

    /// Returns the wall-clock time to wait for at `now`, as virtual time has passed by `passed` (ns)
    /// since the last wait, computed or idle. A rest that is left is waited for later.
    pub fn wait(&mut self, passed: u64, now: Instant) -> Duration {
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        self.due = (self.due + Duration::from_nanos(passed).min(MAX_PASSED)).max(earliest);
        self.due.saturating_duration_since(now).min(MAX_WAIT)
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
        assert_eq!(pace.wait(50_000_000, late), Duration::ZERO);
        assert_eq!(pace.wait(5_000_000, late), ms(5));
        // 70 ms were computed in 70 ms, and 20 are idle.
        assert_eq!(pace.wait(90_000_000, late + ms(75)), ms(20));
        // 70 ms were computed in 10 ms: of 80 that are too early, 50 are waited for at once.
        assert_eq!(pace.wait(90_000_000, late + ms(105)), ms(50));
        assert_eq!(pace.wait(0, late + ms(155)), ms(30));
        assert_eq!(pace.wait(u64::MAX, late + ms(185)), ms(50), "the longest wait");
        assert_eq!(pace.wait(0, late + ms(1185)), Duration::ZERO, "what is made up for is bounded");
    }
}
