//! Differences between cells: between chips, blocks and pages, with wear, and with the time since
//! they were written.
//!
//! The properties of a place follow from the seed and its address by a hash, so no page has a
//! state.

use stasis_block::clock::Nanos;

use crate::hash::{bits, normal, unit};

/// A time is never scaled below this: the hash's tail must not make it vanish.
const MIN_SCALE: f64 = 0.1;
/// Streams of the seed, one for each thing that is drawn.
const CHIP: u64 = 0x6368_6970;
const BLOCK: u64 = 0x626c_6f63;
const PAGE: u64 = 0x7061_6765;
const TIME: u64 = 0x7469_6d65;
const RETRY: u64 = 0x7265_7472;

/// How cell times are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CellTimes {
    /// Each operation takes its place's time.
    #[default]
    Fixed,
    /// Each operation draws from an exponential distribution around its place's
    /// time, for which queueing theory has closed forms.
    Exponential,
}

/// Conditions under which reads must be repeated with other thresholds.
///
/// The mean number of repetitions of a read is
/// `wear * erases / rated_erases + retention * age / rated_age`, times what the
/// page's hash gives (0.5 to 1.5). Each takes the page's read time once more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// Repetitions at the rated number of erases.
    pub wear: f64,
    /// Erases that a block is rated for.
    pub rated_erases: u32,
    /// Repetitions at the rated age.
    pub retention: f64,
    /// The time that data is rated to stay readable (ns).
    pub rated_age: Nanos,
    /// The age (ns), when the run begins, of the contents of blocks that have not been erased
    /// since.
    pub age: Nanos,
    /// Repetitions after which a read is given up as uncorrectable.
    pub limit: u8,
}

/// Differences of the array's parts from their times. Spreads are standard deviations, as a
/// fraction of the time; they add up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Variation {
    /// Between LUNs.
    pub chip: f64,
    /// Between blocks of a LUN.
    pub block: f64,
    /// Between pages of a block.
    pub page: f64,
    /// From one operation to the next.
    pub times: CellTimes,
    /// Repeated reads.
    pub retry: Option<Retry>,
}

/// A value that no variation can have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "`variation.{key}` = {value} cannot work: it is {least} to {most}; the nearest that works is {nearest}"
)]
pub struct VariationError {
    /// The key of the value.
    pub key: &'static str,
    /// The value given.
    pub value: f64,
    /// The least value that works.
    pub least: f64,
    /// The greatest value that works.
    pub most: f64,
    /// The nearer of the two.
    pub nearest: f64,
}

/// The place that an operation works on, as the hash wants it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellAddress {
    /// The LUN, counted through the array.
    pub lun: u32,
    /// The block, counted through the array.
    pub block: u64,
    /// The page in the block; `None` for the whole block.
    pub page: Option<u32>,
}

/// By which numbers are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds {
    /// The properties of chips, blocks and pages.
    pub places: u64,
    /// The numbers that each operation draws.
    pub draws: u64,
}

/// The state of a block that reads depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub erases: u32,
    pub age: Nanos,
}

/// `time` scaled, rounded to the nearest ns.
fn scaled(time: Nanos, scale: f64) -> Nanos {
    (time as f64 * scale).round() as Nanos
}

impl Variation {
    /// Checks that an array can vary so.
    ///
    /// # Errors
    /// [`VariationError`] names the first value that cannot work, and the
    /// nearest that does.
    pub fn check(&self) -> Result<(), VariationError> {
        let retry = self.retry.map_or((0.0, 0.0), |retry| (retry.wear, retry.retention));
        for (key, value, most) in [
            ("chip", self.chip, 0.25),
            ("block", self.block, 0.25),
            ("page", self.page, 0.25),
            ("retry.wear", retry.0, 255.0),
            ("retry.retention", retry.1, 255.0),
        ] {
            if !(0.0..=most).contains(&value) {
                let nearest = if value > most { most } else { 0.0 };
                return Err(VariationError { key, value, least: 0.0, most, nearest });
            }
        }
        Ok(())
    }

    /// Returns whether every place has the same times.
    pub(crate) fn is_uniform(&self) -> bool {
        self.chip == 0.0 && self.block == 0.0 && self.page == 0.0 && self.times == CellTimes::Fixed
    }

    /// The time (ns) of operation number `number` at a place whose type takes
    /// `time`.
    pub(crate) fn time(&self, seeds: Seeds, place: CellAddress, number: u64, time: Nanos) -> Nanos {
        if self.is_uniform() {
            return time;
        }
        let (seed, mut scale) = (seeds.places, 1.0);
        if self.chip > 0.0 {
            scale += self.chip * normal(bits(seed ^ CHIP, u64::from(place.lun)));
        }
        if self.block > 0.0 {
            scale += self.block * normal(bits(seed ^ BLOCK, place.block));
        }
        if let (Some(page), true) = (place.page, self.page > 0.0) {
            let index = (place.block << 16) | u64::from(page);
            scale += self.page * normal(bits(seed ^ PAGE, index));
        }
        scale = scale.max(MIN_SCALE);
        if self.times == CellTimes::Exponential {
            scale *= -(1.0 - unit(bits(seeds.draws ^ TIME, number))).ln();
        }
        scaled(time, scale)
    }

    /// Returns the number of times that read number `number` is repeated, and whether it then
    /// succeeds.
    pub(crate) fn retries(
        &self,
        seeds: Seeds,
        place: CellAddress,
        number: u64,
        condition: Condition,
    ) -> (u8, bool) {
        let Some(retry) = self.retry else { return (0, true) };
        let wear = f64::from(condition.erases) / f64::from(retry.rated_erases.max(1));
        let age = condition.age as f64 / retry.rated_age.max(1) as f64;
        let index = (place.block << 16) | u64::from(place.page.unwrap_or(0));
        let weakness = 0.5 + unit(bits(seeds.places ^ RETRY, index));
        let mean = (retry.wear * wear + retry.retention * age) * weakness;
        // Rounded up with the probability of the fraction: the mean is kept.
        let drawn = (mean + unit(bits(seeds.draws ^ TIME ^ RETRY, number))).floor();
        if drawn > f64::from(retry.limit) {
            return (retry.limit, false);
        }
        (drawn as u8, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: CellAddress = CellAddress { lun: 1, block: 77, page: Some(3) };

    fn seeds(seed: u64) -> Seeds {
        Seeds { places: seed, draws: seed }
    }

    fn deviation(values: &[f64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        (mean, square.sqrt())
    }

    #[test]
    fn spreads_are_those_asked_for_and_stay_with_their_place() {
        let time = 100_000;
        let time_of =
            |variation: Variation, place, number| variation.time(seeds(9), place, number, time);
        let page = Variation { page: 0.1, ..Variation::default() };
        let drawn: Vec<_> = (0..20_000)
            .map(|page_number| {
                time_of(page, CellAddress { page: Some(page_number), ..PLACE }, 1) as f64
            })
            .collect();
        let (mean, spread) = deviation(&drawn);
        assert!((mean / 1e5 - 1.0).abs() < 5.0 * 0.1 / 20_000f64.sqrt(), "{mean}");
        assert!((spread / 1e4 - 1.0).abs() < 5.0 / (2.0 * 20_000f64).sqrt() * 1.0, "{spread}");
        assert_eq!(time_of(page, PLACE, 1), time_of(page, PLACE, 2));

        // All pages of a chip share the chip's part, all of a block the block's.
        let chip = Variation { chip: 0.1, ..Variation::default() };
        let block = Variation { block: 0.1, ..Variation::default() };
        let other_page = CellAddress { page: Some(4), ..PLACE };
        let other_block = CellAddress { block: 78, ..PLACE };
        let other_chip = CellAddress { lun: 2, ..PLACE };
        assert_eq!(time_of(chip, PLACE, 0), time_of(chip, other_block, 0));
        assert_ne!(time_of(chip, PLACE, 0), time_of(chip, other_chip, 0));
        assert_eq!(time_of(block, PLACE, 0), time_of(block, other_page, 0));
        assert_ne!(time_of(block, PLACE, 0), time_of(block, other_block, 0));
        assert_ne!(time_of(page, PLACE, 0), time_of(page, other_page, 0));
        assert_eq!(Variation::default().time(seeds(9), PLACE, 3, time), time);
    }

    #[test]
    fn exponential_times_have_their_mean_and_deviation() {
        let variation = Variation { times: CellTimes::Exponential, ..Variation::default() };
        let drawn: Vec<_> = (0..100_000)
            .map(|number| variation.time(seeds(1), PLACE, number, 50_000) as f64)
            .collect();
        let (mean, spread) = deviation(&drawn);
        // Five standard errors; an exponential's deviation is its mean.
        assert!((mean / 5e4 - 1.0).abs() < 5.0 / 1e5f64.sqrt(), "{mean}");
        assert!((spread / 5e4 - 1.0).abs() < 5.0 * 2f64.sqrt() / 1e5f64.sqrt(), "{spread}");
    }

    #[test]
    fn retries_grow_with_wear_and_age_up_to_the_limit() {
        let retry = Retry {
            wear: 2.0,
            rated_erases: 3_000,
            retention: 3.0,
            rated_age: 1_000,
            age: 0,
            limit: 7,
        };
        let variation = Variation { retry: Some(retry), ..Variation::default() };
        let mean = |erases, age| {
            let drawn: Vec<_> = (0..20_000)
                .map(|number| {
                    let place =
                        CellAddress { page: Some(number % 64), block: u64::from(number), lun: 0 };
                    let condition = Condition { erases, age };
                    let (retries, ok) =
                        variation.retries(seeds(3), place, u64::from(number), condition);
                    assert!(ok);
                    f64::from(retries)
                })
                .collect();
            deviation(&drawn).0
        };
        assert_eq!(mean(0, 0), 0.0);
        // Mean of the weakness is 1; its spread and the rounding's are below 1.
        for (erases, age, expected) in [(3_000, 0, 2.0), (0, 1_000, 3.0), (1_500, 500, 2.5)] {
            let got = mean(erases, age);
            assert!((got - expected).abs() < 5.0 * 1.5 / 20_000f64.sqrt(), "{got} {expected}");
        }
        let worn = Condition { erases: 300_000, age: 0 };
        assert_eq!(variation.retries(seeds(3), PLACE, 0, worn), (7, false));
        assert_eq!(Variation::default().retries(seeds(3), PLACE, 0, worn), (0, true));
    }

    #[test]
    fn impossible_spreads_are_refused() {
        let error = Variation { page: 0.5, ..Variation::default() }.check().unwrap_err();
        assert_eq!((error.key, error.nearest), ("page", 0.25));
        let error = Variation { chip: f64::NAN, ..Variation::default() }.check().unwrap_err();
        assert_eq!((error.key, error.nearest), ("chip", 0.0));
        assert_eq!(Variation { block: 0.25, ..Variation::default() }.check(), Ok(()));
    }
}
