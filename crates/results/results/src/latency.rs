//! A latency distribution in the figures that results give of it.

use serde::{Deserialize, Serialize};

/// Computation of percentiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// From every value.
    #[default]
    Exact,
    /// From a histogram with 3 significant digits, as there were more values
    /// than [`crate::EXACT_BOUND`]. Mean, minimum and maximum stay exact.
    Histogram,
}

/// The percentiles that results give: name, and rank in ten thousandths.
pub const PERCENTILES: [(&str, u64); 11] = [
    ("p1", 100),
    ("p5", 500),
    ("p10", 1_000),
    ("p25", 2_500),
    ("p50", 5_000),
    ("p75", 7_500),
    ("p90", 9_000),
    ("p95", 9_500),
    ("p99", 9_900),
    ("p99.9", 9_990),
    ("p99.99", 9_999),
];

/// Returns whether `count` values carry the percentile of that rank (in ten thousandths): at least
/// one of them lies beyond it, on the side of the nearer end. One value has a median.
pub fn carried(count: u64, rank: u64) -> bool {
    rank == 5_000 || count.saturating_mul(rank.min(10_000 - rank)) >= 10_000
}

/// Number of [`PERCENTILES`], from the first, up to p99.9: those by which delivered latency is
/// judged.
pub const JUDGED: usize = 10;

/// A latency distribution, in ns.
///
/// Percentiles are by nearest rank: p*x* is the smallest recorded value that at
/// least *x* % of the values do not exceed, the one at place ⌈*x*/100 · *n*⌉ of
/// the *n* sorted values. No value is ever made up by interpolation. Without
/// values every figure is 0, as in fio's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the fields are what their names say
pub struct Latency {
    /// Arithmetic mean, rounded to 0.001 ns.
    pub mean: f64,
    pub min: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p25: u64,
    pub p50: u64,
    pub p75: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    #[serde(rename = "p99.99")]
    pub p99_99: u64,
    pub max: u64,
}

impl Latency {
    /// From its figures; `values` in the order of [`PERCENTILES`].
    pub fn new(mean: f64, min: u64, values: [u64; 11], max: u64) -> Self {
        let [p1, p5, p10, p25, p50, p75, p90, p95, p99, p99_9, p99_99] = values;
        Self { mean, min, p1, p5, p10, p25, p50, p75, p90, p95, p99, p99_9, p99_99, max }
    }

    /// The percentiles with their names, in rising order.
    pub fn percentiles(&self) -> [(&'static str, u64); 11] {
        let values = [
            self.p1,
            self.p5,
            self.p10,
            self.p25,
            self.p50,
            self.p75,
            self.p90,
            self.p95,
            self.p99,
            self.p99_9,
            self.p99_99,
        ];
        std::array::from_fn(|index| (PERCENTILES[index].0, values[index]))
    }

    /// The largest relative deviation from `target` over the percentiles p1 to
    /// p99.9, in percent, with its sign; `None` where a target of 0 ns makes it
    /// meaningless.
    pub fn largest_error_percent(&self, target: &Latency) -> Option<f64> {
        let pairs = self.percentiles().into_iter().zip(target.percentiles()).take(JUDGED);
        let mut largest = 0.0f64;
        for ((_, delivered), (_, target)) in pairs {
            let error = error_percent(delivered as f64, target as f64)?;
            if error.abs() > largest.abs() {
                largest = error;
            }
        }
        Some(largest)
    }
}

/// Deviation of `measured` from `wanted` in percent; `None` if it has none.
pub fn error_percent(measured: f64, wanted: f64) -> Option<f64> {
    if measured == wanted {
        return Some(0.0);
    }
    (wanted != 0.0).then(|| (measured - wanted) / wanted * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_carry_few_percentiles() {
        let names = |count| {
            let carried = PERCENTILES.iter().filter(|(_, rank)| carried(count, *rank));
            carried.map(|(name, _)| *name).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["p50"]);
        assert_eq!(names(2), ["p50"]);
        assert_eq!(names(4), ["p25", "p50", "p75"]);
        assert_eq!(names(100), ["p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"]);
        assert!(names(9_999).contains(&"p99.9") && !names(9_999).contains(&"p99.99"));
        assert_eq!(names(10_000).len(), PERCENTILES.len());
    }
}
