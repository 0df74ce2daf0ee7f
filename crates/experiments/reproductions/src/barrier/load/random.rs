//! Numbers by a seed, and sizes as filebench draws them.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A thread's stream of numbers.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a uniform number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// By a gamma distribution of shape 1.5, filebench's for sizes of files: that
    /// of an exponential plus half the square of a normal variable.
    pub fn gamma(&mut self, mean: f64) -> f64 {
        let exponential = -(1.0 - self.unit()).ln();
        // Box and Muller.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.unit()).cos();
        mean / 1.5 * (exponential + normal * normal / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_and_spread_of_their_distribution() {
        let mut random = Random::new(1);
        let sizes: Vec<f64> = (0..100_000).map(|_| random.gamma(16_384.0)).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean / 16_384.0 - 1.0).abs() < 0.02, "{mean}");
        // The square of the mean by the shape.
        assert!((variance / (16_384.0f64.powi(2) / 1.5) - 1.0).abs() < 0.05, "{variance}");
        assert!(sizes.iter().all(|size| *size >= 0.0));
    }
}
