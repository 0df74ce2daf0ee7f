//! Distributions of latency, drawn from by inversion.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

/// Way of filling in the latencies between two percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// Evenly.
    #[default]
    Linear,
    /// Evenly in the logarithm: long tails stay thin.
    Log,
}

/// An inverse cumulative distribution function, piecewise linear.
///
/// Points are (share of the commands, latency), both non-decreasing; two
/// points of one share are a jump.
#[derive(Debug, Clone)]
pub(crate) struct Distribution {
    shares: Vec<f64>,
    // In ns, or their logarithms.
    values: Vec<f64>,
    log: bool,
}

impl Distribution {
    /// Makes one of (percentile, ns) pairs that ascend, at least one. Below
    /// the first and above the last the latency is constant.
    pub(crate) fn of_percentiles(points: &[(f64, f64)], interpolation: Interpolation) -> Self {
        let log = interpolation == Interpolation::Log;
        // 0 has no logarithm; 1 ns is the finest time there is.
        let value = |ns: f64| if log { ns.max(1.0).ln() } else { ns };
        Self {
            shares: points.iter().map(|(percentile, _)| percentile / 100.0).collect(),
            values: points.iter().map(|&(_, ns)| value(ns)).collect(),
            log,
        }
    }

    /// Makes one of ascending samples (ns), at least one.
    pub(crate) fn of_samples(sorted: &[Nanos], interpolation: Interpolation) -> Self {
        let last = sorted.len().saturating_sub(1).max(1) as f64;
        let points: Vec<_> = sorted
            .iter()
            .enumerate()
            .map(|(i, &ns)| (i as f64 / last * 100.0, ns as f64))
            .collect();
        Self::of_percentiles(&points, interpolation)
    }

    /// The latency (ns) below which `share` (0 to 1) of the commands stay.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let after = self.shares.partition_point(|&at| at <= share);
        let value = if after == 0 {
            self.values.first().copied().unwrap_or(0.0)
        } else if after == self.shares.len() {
            self.values[after - 1]
        } else {
            let (s0, s1) = (self.shares[after - 1], self.shares[after]);
            let (v0, v1) = (self.values[after - 1], self.values[after]);
            v0 + (v1 - v0) * ((share - s0) / (s1 - s0))
        };
        if self.log {
            value.exp()
        } else {
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_met_and_the_space_between_is_filled() {
        let points = [(10.0, 100.0), (50.0, 200.0), (50.0, 400.0), (90.0, 1600.0)];
        let linear = Distribution::of_percentiles(&points, Interpolation::Linear);
        for (share, ns) in [(0.0, 100.0), (0.1, 100.0), (0.3, 150.0), (0.7, 1000.0), (0.9, 1600.0)]
        {
            assert!((linear.quantile(share) - ns).abs() < 1e-6, "{share}");
        }
        assert!(linear.quantile(0.499_999) < 200.1 && linear.quantile(0.5) >= 400.0);
        assert_eq!(linear.quantile(0.999), 1600.0);
        let log = Distribution::of_percentiles(&points, Interpolation::Log);
        assert!((log.quantile(0.7) - 800.0).abs() < 1e-6);
    }

    #[test]
    fn samples_of_any_number() {
        for n in [1u64, 2, 3, 1000] {
            let sorted: Vec<_> = (0..n).map(|i| 10 * i + 5).collect();
            let d = Distribution::of_samples(&sorted, Interpolation::Linear);
            assert_eq!(d.quantile(0.0), 5.0);
            assert!((d.quantile(1.0 - 1e-12) - sorted[sorted.len() - 1] as f64).abs() < 1e-6);
            let median = (5.0 + sorted[sorted.len() - 1] as f64) / 2.0;
            assert!((d.quantile(0.5) - median).abs() < 1e-6 || n == 1);
        }
    }
}
