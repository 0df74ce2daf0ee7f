//! Looks of the loop at the world outside: the user, the wall clock, and the receiver of events.
//! Owns the times of the last looks.

use std::time::{Duration, Instant};

/// Limit on the interval between two checks of the user and the limits (ticks of virtual time).
const LOOKED_AFTER: u64 = 10_000_000;
/// Turns between two checks of the user and the limits, at most.
const LOOKED_IN: u32 = 64;
/// Interval at whose multiples all records are sent (ticks of virtual time): the order of events
/// must not depend on the wall clock.
const SENT_AFTER: u64 = 100_000_000;
/// Interval of progress events (wall clock).
const PROGRESS: Duration = Duration::from_millis(200);

/// The looks.
#[derive(Debug)]
pub(super) struct Looks {
    turns: u32,
    /// Virtual time (ticks) at the last look.
    looked: u64,
    /// The interval of virtual time in which records were last sent.
    sent: u64,
    /// Time at which progress was last reported.
    reported: Instant,
}

impl Looks {
    /// Creates the state of a run that was made at `born`.
    pub(super) fn new(born: Instant) -> Self {
        Self { turns: 0, looked: 0, sent: 0, reported: born }
    }

    /// Returns whether it is time at `now` (ticks) to send what was recorded.
    pub(super) fn send(&mut self, now: u64) -> bool {
        let interval = now / SENT_AFTER;
        std::mem::replace(&mut self.sent, interval) != interval
    }

    /// Counts a turn at `now` (ticks). Returns whether to check the user and the limits: not each
    /// turn, as the wall clock costs a call. Turns alone do not suffice, as one of a guest that only
    /// computes takes long.
    pub(super) fn turn(&mut self, now: u64) -> bool {
        self.turns = self.turns.wrapping_add(1);
        let is_long = now.saturating_sub(self.looked) >= LOOKED_AFTER;
        let looks = is_long || self.turns.is_multiple_of(LOOKED_IN);
        if looks {
            self.looked = now;
        }
        looks
    }

    /// Returns whether it is time by the wall clock to report progress.
    pub(super) fn report(&mut self, wall: Instant) -> bool {
        let reports = wall - self.reported >= PROGRESS;
        if reports {
            self.reported = wall;
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_virtual_time_bring_looks() {
        let mut looks = Looks::new(Instant::now());
        let turns = (1..=LOOKED_IN).filter(|_| looks.turn(1)).count();
        assert_eq!(turns, 1, "in the last of them");
        assert!(looks.turn(1 + LOOKED_AFTER) && !looks.turn(LOOKED_AFTER));
        assert!(!looks.send(SENT_AFTER - 1) && looks.send(SENT_AFTER) && !looks.send(SENT_AFTER));
    }

    #[test]
    fn progress_is_reported_now_and_then() {
        let born = Instant::now();
        let mut looks = Looks::new(born);
        let all = [PROGRESS / 2, PROGRESS, PROGRESS, PROGRESS * 2];
        let reports = all.map(|after| looks.report(born + after));
        assert_eq!(reports, [false, true, false, true]);
    }
}
