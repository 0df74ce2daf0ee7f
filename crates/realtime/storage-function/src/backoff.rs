//! The time at which a function that has failed is started again.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Time for which a function has to be well before its failures are forgotten.
const SOUND: Duration = Duration::from_secs(60);
/// Number of attempts for a function that never was well.
const ATTEMPTS: u32 = 3;

/// Decision about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Start it again after this pause.
    Wait(Duration),
    /// The function has never been well, and will not be.
    GiveUp,
}

/// The pauses: doubled with each failure, from half a second to half a minute.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    failures: u32,
    ever_well: bool,
    /// Failures in all.
    pub restarts: u64,
}

impl Backoff {
    /// The function has failed after being well for `well`, if it was at all.
    pub fn failed(&mut self, well: Option<Duration>) -> Decision {
        self.restarts += 1;
        self.ever_well |= well.is_some();
        if well.is_some_and(|well| well >= SOUND) {
            self.failures = 0;
        }
        self.failures += 1;
        if !self.ever_well && self.failures >= ATTEMPTS {
            return Decision::GiveUp;
        }
        let doubled = FIRST.saturating_mul(1 << (self.failures - 1).min(16));
        Decision::Wait(doubled.min(MAX_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHORT: Option<Duration> = Some(Duration::from_secs(1));

    #[test]
    fn pauses_grow_and_start_over_after_a_sound_time() {
        let mut backoff = Backoff::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let Decision::Wait(pause) = backoff.failed(SHORT) else { panic!() };
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        assert_eq!(backoff.failed(Some(SOUND)), Decision::Wait(FIRST));
        assert_eq!(backoff.restarts, 9);
    }

    #[test]
    fn one_that_never_was_well_is_given_up() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.failed(None), Decision::Wait(FIRST));
        assert_eq!(backoff.failed(None), Decision::Wait(2 * FIRST));
        assert_eq!(backoff.failed(None), Decision::GiveUp);
    }

    proptest! {
        #[test]
        fn one_that_was_well_once_is_never_given_up(
            wells in prop::collection::vec(prop::option::of(0u64..200), 0..60),
        ) {
            let mut backoff = Backoff::default();
            backoff.failed(SHORT);
            for well in wells {
                match backoff.failed(well.map(Duration::from_secs)) {
                    Decision::Wait(pause) => prop_assert!((FIRST..=MAX_PAUSE).contains(&pause)),
                    Decision::GiveUp => prop_assert!(false),
                }
            }
        }
    }
}
