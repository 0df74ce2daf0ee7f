//! A growing collection of latencies, exact up to a bound.

use crate::latency::{Latency, Method, PERCENTILES};
use hdrhistogram::Histogram;

/// Latencies that are kept exactly per drive, operation and kind (target,
/// delivered): 8 bytes each, so at most 64 MB. Beyond it a histogram takes over.
pub const EXACT_BOUND: usize = 8_000_000;

/// Significant decimal digits of the histogram: values are off by at most
/// 0.1 %.
const DIGITS: u8 = 3;

/// Largest value of the histogram (ns): 146 years, far beyond any run, and low
/// enough that its bucket bounds cannot overflow.
const MAX_VALUE: u64 = 1 << 62;

#[derive(Clone)]
enum Values {
    Exact(Vec<u64>),
    Counted(Box<Counted>),
}

/// Values in a histogram, beside the figures of theirs that stay exact.
#[derive(Clone)]
struct Counted {
    histogram: Histogram<u64>,
    totals: Totals,
}

/// Exact figures of values.
#[derive(Clone, Copy)]
struct Totals {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Totals {
    const NONE: Self = Self { count: 0, sum: 0, min: u64::MAX, max: 0 };

    fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

impl Counted {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_VALUE, DIGITS)
            .expect("the bounds are constants that it takes");
        Self { histogram, totals: Totals::NONE }
    }

    fn add(&mut self, value: u64) {
        self.totals.add(value);
        self.histogram.saturating_record(value.min(MAX_VALUE));
    }
}

/// Latencies in ns.
#[derive(Clone)]
pub struct Distribution {
    values: Values,
    bound: usize,
}

impl Distribution {
    /// Exact up to `bound` values.
    pub fn new(bound: usize) -> Self {
        Self { values: Values::Exact(Vec::new()), bound }
    }

    // The way of every I/O: figures of values that are all kept are computed at the end.
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        match &mut self.values {
            Values::Exact(values) if values.len() < self.bound => values.push(value),
            _ => self.count(value),
        }
    }

    #[cold]
    fn count(&mut self, value: u64) {
        if let Values::Exact(values) = &self.values {
            let mut counted = Box::new(Counted::new());
            values.iter().for_each(|&value| counted.add(value));
            self.values = Values::Counted(counted);
        }
        if let Values::Counted(counted) = &mut self.values {
            counted.add(value);
        }
    }

    fn totals(&self) -> Totals {
        match &self.values {
            Values::Exact(values) => {
                let mut totals = Totals::NONE;
                values.iter().for_each(|&value| totals.add(value));
                totals
            }
            Values::Counted(counted) => counted.totals,
        }
    }

    /// All values together.
    pub fn sum(&self) -> u128 {
        self.totals().sum
    }

    /// Computation of its percentiles.
    pub fn method(&self) -> Method {
        match self.values {
            Values::Exact(_) => Method::Exact,
            Values::Counted(_) => Method::Histogram,
        }
    }

    /// Brings the values in order, as [`Self::at_ranks`] wants them.
    pub fn sort(&mut self) {
        if let Values::Exact(values) = &mut self.values {
            values.sort_unstable();
        }
    }

    /// The values at `ranks` (1 to the count, rising), after [`Self::sort`].
    fn at_ranks(&self, ranks: &[u64]) -> Vec<u64> {
        match &self.values {
            Values::Exact(values) => ranks.iter().map(|&rank| values[rank as usize - 1]).collect(),
            Values::Counted(counted) => {
                let Totals { min, max, .. } = counted.totals;
                let mut found = Vec::with_capacity(ranks.len());
                let mut passed = 0;
                for step in counted.histogram.iter_recorded() {
                    passed += step.count_since_last_iteration();
                    while ranks.get(found.len()).is_some_and(|&rank| rank <= passed) {
                        // A bucket's bound may lie outside what was recorded.
                        found.push(step.value_iterated_to().clamp(min, max));
                    }
                }
                found.resize(ranks.len(), max);
                found
            }
        }
    }

    /// The figures, after [`Self::sort`].
    pub fn latency(&self) -> Latency {
        let Totals { count, sum, min, max } = self.totals();
        if count == 0 {
            return Latency::default();
        }
        let ranks = PERCENTILES.map(|(_, share)| nearest_rank(count, share));
        let values = self.at_ranks(&ranks);
        let mean = sum as f64 / count as f64;
        Latency::new(
            (mean * 1000.0).round() / 1000.0,
            min,
            std::array::from_fn(|index| values[index]),
            max,
        )
    }

    /// The distribution function as (value, share of values not above it), at
    /// a few hundred places, dense towards the upper end. After [`Self::sort`].
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let Totals { count, .. } = self.totals();
        let ranks = curve_ranks(count);
        let values = self.at_ranks(&ranks);
        let count = count as f64;
        values.iter().zip(&ranks).map(|(&v, &rank)| (v as f64, rank as f64 / count)).collect()
    }
}

/// Place of a percentile (ten thousandths) among `count` sorted values, from 1.
fn nearest_rank(count: u64, share: u64) -> u64 {
    let place = (u128::from(count) * u128::from(share)).div_ceil(10_000);
    (place as u64).max(1)
}

/// Ranks for a curve: 200 evenly spaced, then 20 for each further factor of ten
/// towards the maximum.
fn curve_ranks(count: u64) -> Vec<u64> {
    const EVEN: u64 = 200;
    const PER_DECADE: i32 = 20;
    if count == 0 {
        return Vec::new();
    }
    let mut ranks: Vec<u64> = (1..=EVEN).map(|step| nearest_rank(count, step * 50)).collect();
    let mut step = 0;
    loop {
        let above = count as f64 * 10f64.powf(-f64::from(step) / f64::from(PER_DECADE));
        if above < 1.0 {
            break;
        }
        ranks.push(count.saturating_sub(above as u64).max(1));
        step += 1;
    }
    ranks.extend([1, count]);
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, word by word: the smallest value that at least
    /// `share`/10000 of the values do not exceed.
    fn naive(values: &[u64], share: u64) -> u64 {
        let mut candidates = values.to_vec();
        candidates.sort();
        for &candidate in &candidates {
            let below = values.iter().filter(|&&v| v <= candidate).count() as u128;
            if below * 10_000 >= u128::from(share) * values.len() as u128 {
                return candidate;
            }
        }
        unreachable!("the maximum is not exceeded by any value")
    }

    fn filled(values: &[u64], bound: usize) -> Distribution {
        let mut distribution = Distribution::new(bound);
        values.iter().for_each(|&value| distribution.record(value));
        distribution.sort();
        distribution
    }

    proptest! {
        #[test]
        fn percentiles_are_by_nearest_rank(values in prop::collection::vec(0u64..1000, 1..300)) {
            let latency = filled(&values, 1000).latency();
            for ((name, share), (_, found)) in PERCENTILES.into_iter().zip(latency.percentiles()) {
                prop_assert_eq!(found, naive(&values, share), "{}", name);
            }
            prop_assert_eq!(latency.min, *values.iter().min().unwrap());
            prop_assert_eq!(latency.max, *values.iter().max().unwrap());
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((latency.mean - mean).abs() < 0.001);
        }

        #[test]
        fn a_histogram_stays_within_its_digits(
            values in prop::collection::vec(prop_oneof![0u64..2_000_000, any::<u64>()], 2..200),
            bound in 0usize..100,
        ) {
            let distribution = filled(&values, bound);
            let expected = if values.len() > bound { Method::Histogram } else { Method::Exact };
            prop_assert_eq!(distribution.method(), expected);
            let latency = distribution.latency();
            for ((name, share), (_, found)) in PERCENTILES.into_iter().zip(latency.percentiles()) {
                let wanted = naive(&values, share);
                if wanted <= MAX_VALUE {
                    let off = found.abs_diff(wanted);
                    prop_assert!(off as f64 <= wanted as f64 * 0.001, "{} {} {}", name, found, wanted);
                }
            }
            prop_assert_eq!(latency.min, *values.iter().min().unwrap());
            prop_assert_eq!(latency.max, *values.iter().max().unwrap());
        }

        #[test]
        fn curves_rise_from_the_minimum_to_the_maximum(
            values in prop::collection::vec(0u64..1_000_000, 1..2000),
            bound in prop_oneof![Just(0usize), Just(5000)],
        ) {
            let curve = filled(&values, bound).curve();
            prop_assert!(curve.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 < w[1].1));
            prop_assert_eq!(curve[curve.len() - 1], (*values.iter().max().unwrap() as f64, 1.0));
            prop_assert!(curve.len() <= 300);
        }
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        let empty = filled(&[], 10);
        assert_eq!(empty.latency(), Latency::default());
        assert!(empty.curve().is_empty());
    }

    #[test]
    fn curves_of_very_many_values_stay_small() {
        assert!(curve_ranks(u64::MAX).len() < 800);
        assert!(curve_ranks(10_000_000).len() < 400);
    }
}
