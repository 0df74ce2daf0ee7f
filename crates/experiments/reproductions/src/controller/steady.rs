//! Criteria for a valid rate.
//!
//! A rate is taken in rounds, one after another. It counts where both of these hold, and neither
//! depends on the publication's figures:
//!
//! - **The rounds agree.** A thread that shares its processor with one other gets half of
//!   it: a rate that falls by a factor of two between rounds was taken beside other work,
//!   and not one that changes by less than half of that way. So the largest round may be
//!   [`SPREAD`] times the smallest.
//! - **A polling processor is not left to wait.** A polled I/O takes no exit from guest mode; the
//!   remaining exits come from timers, at a constant rate. So the number of exits for each I/O
//!   shows the time that the guest waited for one: where there is [`POLLED_EXITS`] or more for each
//!   I/O, the guest's processor, or the server's, was shared with other work. A machine that stalls
//!   evenly through all rounds is found by this.

use serde::{Deserialize, Serialize};

/// Rounds of each rate.
pub const ROUNDS: usize = 3;

/// Limit on the ratio of the largest round to the smallest: between 1, no other work, and 2, a
/// processor shared with one thread.
const SPREAD: f64 = 1.5;

/// Exits from guest mode for each I/O from which on the I/Os were not polled. Sound runs had 0.08
/// and 0.09 polled, and 3.6 to 4 by trap and interrupt (docs/reference/publications/controller.md).
const POLLED_EXITS: f64 = 1.0;

/// Results of the rounds of a rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    /// I/Os a second in each.
    pub rates: Vec<f64>,
    /// Exits from guest mode for each I/O, over all rounds; absent if they are not counted.
    pub exits: Option<f64>,
}

impl Rounds {
    /// The median of the rounds.
    ///
    /// # Errors
    /// Returns the reason why the rounds are no valid measurement.
    pub fn rate(&self, polled: bool) -> Result<f64, String> {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (rates.first(), rates.last()) else {
            return Err("there is no round".into());
        };
        if least <= 0.0 || !most.is_finite() {
            return Err("a round did nothing".into());
        }
        if most / least > SPREAD {
            let spread = most / least;
            return Err(format!(
                "its rounds differ {spread:.1} times ({least:.0} to {most:.0} I/Os a second), more than {SPREAD}: \
                 other work had the processors"
            ));
        }
        match self.exits {
            Some(exits) if polled && exits >= POLLED_EXITS => Err(format!(
                "{exits:.1} exits from guest mode for each polled I/O, where polling takes next to none: the guest or the \
                 server waited for a processor"
            )),
            _ => Ok(rates[rates.len() / 2]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rates: &[f64], exits: f64) -> Rounds {
        Rounds { rates: rates.to_vec(), exits: Some(exits) }
    }

    #[test]
    fn sound_rates_are_their_median() {
        // 4 KiB writes of four threads by trap and interrupt, and 8.3 times as many polled
        // (docs/reference/publications/controller.md, first run): exits as recorded.
        assert_eq!(rounds(&[771.0, 760.0, 790.0], 3.99).rate(false), Ok(771.0));
        assert_eq!(rounds(&[6399.0, 6410.0, 6202.0], 0.09).rate(true), Ok(6399.0));
    }

    #[test]
    fn a_stalled_machine_is_no_measurement() {
        // A wrong result that was once printed: 345 writes a second polled, against 771. A guest
        // that polls had 0.09 exits for each of 11,111 writes a second (90 us each), 1000 a second
        // whatever it does: 2.9 for each of 345.
        let exits = 0.09 / 90e-6 / 345.0;
        let error = rounds(&[345.0, 350.0, 340.0], exits).rate(true).unwrap_err();
        assert!(error.contains("2.9 exits"), "{error}");
        // The same rate without polling is valid.
        assert_eq!(rounds(&[345.0, 350.0, 340.0], exits).rate(false), Ok(345.0));
        // If other work disturbs one round only, the spread of the rounds shows it.
        let error = rounds(&[6399.0, 345.0, 6202.0], 0.3).rate(true).unwrap_err();
        assert!(error.contains("18.5 times"), "{error}");
        assert!(rounds(&[771.0, 400.0, 770.0], 4.0).rate(false).is_err());
        assert!(rounds(&[771.0, 0.0, 770.0], 4.0).rate(false).is_err());
        assert!(Rounds::default().rate(false).is_err());
    }
}
