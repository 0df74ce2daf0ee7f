//! A seeded permutation.

use stasis_block::splitmix;

/// A mixing of two words into a seed.
pub(crate) fn mix(one: u64, other: u64) -> u64 {
    splitmix::nth(one, other.wrapping_add(1))
}

/// A permutation of `0..count` in constant memory: a Feistel network over the
/// next even number of bits, walked until it lands within (Black and Rogaway,
/// "Ciphers with arbitrary finite domains", 2002).
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    count: u64,
    /// Bits of each half, and the mask of one.
    half: u32,
    mask: u64,
    keys: [u64; ROUNDS],
}

/// Rounds of the network: four make it indistinguishable from random by simple
/// tests (Luby and Rackoff, 1988).
const ROUNDS: usize = 4;

impl Permutation {
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let bits = (64 - count.saturating_sub(1).leading_zeros()).max(2);
        let keys = std::array::from_fn(|round| mix(seed, round as u64));
        let half = bits.div_ceil(2);
        Self { count, half, mask: (1 << half) - 1, keys }
    }

    /// Place of `index`, which is below the count.
    #[inline]
    pub(crate) fn of(&self, mut index: u64) -> u64 {
        let mask = self.mask;
        loop {
            let (mut left, mut right) = (index >> self.half, index & mask);
            for key in self.keys {
                let mut f = (right ^ key).wrapping_mul(0xff51_afd7_ed55_8ccd);
                f = (f ^ (f >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
                (left, right) = (right, (left ^ (f >> 32)) & mask);
            }
            index = left << self.half | right;
            // At most four times as many as `count`: a walk is short.
            if index < self.count {
                return index;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutations_reach_everything_once(count in 1u64..3000, seed: u64) {
            let permutation = Permutation::new(count, seed);
            let mut places: Vec<_> = (0..count).map(|index| permutation.of(index)).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn large_permutations_stay_within(count in 1u64 << 20..1 << 50, seed: u64, part: u64) {
            let permutation = Permutation::new(count, seed);
            prop_assert!(permutation.of(part % count) < count);
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        // Distances of successive places: a third of the count on average.
        let count = 100_000u64;
        let permutation = Permutation::new(count, 7);
        let steps = (1..count).map(|i| permutation.of(i).abs_diff(permutation.of(i - 1)));
        let mean = steps.sum::<u64>() as f64 / count as f64;
        assert!((mean / count as f64 - 1.0 / 3.0).abs() < 0.01, "{mean}");
    }
}
