//! The publication's statistics (chapters 7 and 8): least, greatest, mean,
//! deviation and the 95 % confidence interval of the mean.

use serde::{Deserialize, Serialize};

use crate::statistics::{deviation, mean};

/// The five.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Number of values.
    pub count: usize,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// Standard deviation, of a sample; none for one value.
    pub deviation: Option<f64>,
    /// Half the width of the mean's 95 % confidence interval; none for one value.
    pub confidence: Option<f64>,
}

impl Statistics {
    /// Returns the statistics of `values`; None without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        let (count, mean) = (values.len(), mean(values));
        let deviation = deviation(values);
        let confidence =
            deviation.map(|deviation| quantile(count - 1) * deviation / (count as f64).sqrt());
        Some(Self { count, min, max, mean, deviation, confidence })
    }
}

/// Student's t distribution: the 0.975 quantile for 1, 2, ... degrees of freedom
/// (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
const QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// Quantiles for more degrees of freedom; degrees between two take the greater quantile.
const FURTHER: [(usize, f64); 4] = [(40, 2.021), (60, 2.000), (100, 1.984), (1000, 1.962)];

fn quantile(freedom: usize) -> f64 {
    let last = QUANTILES[QUANTILES.len() - 1];
    QUANTILES.get(freedom.saturating_sub(1)).copied().unwrap_or_else(|| {
        let reached = FURTHER.iter().take_while(|(least, _)| *least <= freedom);
        reached.last().map_or(last, |(_, quantile)| *quantile)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_are_the_usual_ones() {
        let found = Statistics::of(&[4.0, 2.0, 6.0, 8.0]).unwrap();
        assert_eq!((found.count, found.min, found.max, found.mean), (4, 2.0, 8.0, 5.0));
        let deviation = (20.0f64 / 3.0).sqrt();
        assert!((found.deviation.unwrap() - deviation).abs() < 1e-12);
        // Three degrees of freedom.
        assert!((found.confidence.unwrap() - 3.182 * deviation / 2.0).abs() < 1e-12);
        let one = Statistics::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.deviation, one.confidence), (3.0, None, None));
        assert_eq!(Statistics::of(&[]), None);
    }

    #[test]
    fn quantiles_fall_towards_the_normal_distribution() {
        let all: Vec<f64> = (1..2000).map(quantile).collect();
        assert!(all.windows(2).all(|pair| pair[0] >= pair[1]));
        assert_eq!([all[0], all[29], all[30], all[39]], [12.706, 2.042, 2.042, 2.021]);
        assert_eq!(all[1998], 1.962);
    }
}
