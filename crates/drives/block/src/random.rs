//! The random numbers of a simulation: a seeded stream.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers (xoshiro256++); the same seed gives the same ones.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform in [0, 1), with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..=last`. The bias is below 2^-64 times `last`.
    pub fn up_to(&mut self, last: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * (u128::from(last) + 1);
        (wide >> 64) as u64
    }

    /// Uniform in `0..count`; the bias is below 2^-64 times `count`.
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(count)) >> 64) as u64
    }
}
