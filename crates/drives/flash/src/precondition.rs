//! The steady state of a drive under uniformly random writes, without the
//! writes.
//!
//! In the mean-field limit (Van Houdt, SIGMETRICS 2013) a share m(j) of the full
//! blocks has j of b slots valid. Blocks of j valid slots lose one at a rate of j;
//! collected ones begin again with b; and the best of d random blocks is
//! collected. So with S(j) = m(j) + ... + m(b) and the rate c of collections
//! j m(j) = c (1 - S(j)^d). Greedy is the limit of many choices.

use crate::narrow::count;
use stasis_nand::hash::{bits, mix, normal, unit};

/// Choices that are as good as all of them.
const ALL: f64 = 1e6;

/// The share of full blocks that have 0 to `slots` valid slots, where `used` of
/// all slots are; `choices` is `None` for greedy.
pub(crate) fn fixed_point(slots: u32, choices: Option<u32>, used: f64) -> Vec<f64> {
    let power = choices.map_or(ALL, |choices| f64::from(choices.max(1)));
    let mean = |shares: &[f64]| {
        (0..).zip(shares).map(|(valid, share)| f64::from(valid) * share).sum::<f64>()
            / f64::from(slots)
    };
    let (mut low, mut high) = (1e-9, f64::from(slots) + 1.0);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        // More collections: more blocks are nearly full.
        if mean(&shares(slots, power, middle)) < used {
            low = middle;
        } else {
            high = middle;
        }
    }
    shares(slots, power, high)
}

fn shares(slots: u32, power: f64, rate: f64) -> Vec<f64> {
    let mut shares = vec![0.0; slots as usize + 1];
    let mut above = 0.0f64;
    for valid in (1..=slots).rev() {
        // The root of an increasing function of the share.
        let excess =
            |share: f64| f64::from(valid) * share - rate * (1.0 - (above + share).powf(power));
        let (mut low, mut high) = (0.0, 1.0 - above);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if excess(middle) < 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        shares[valid as usize] = high;
        above += high;
        if above >= 1.0 - 1e-12 {
            return shares;
        }
    }
    shares[0] = 1.0 - above;
    shares
}

/// Numbers of valid slots for `blocks` blocks, ascending, that are distributed
/// like `shares` and add up to `total`.
pub(crate) fn valid_counts(shares: &[f64], blocks: u32, total: u64) -> Vec<u32> {
    let slots = count(shares.len()) - 1;
    let mut counts = Vec::with_capacity(blocks as usize);
    let (mut valid, mut below) = (0u32, shares[0]);
    for block in 0..blocks {
        let quantile = (f64::from(block) + 0.5) / f64::from(blocks);
        while valid < slots && below < quantile {
            valid += 1;
            below += shares[valid as usize];
        }
        counts.push(valid);
    }
    let mut sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    // The remainder of the rounding, spread evenly.
    let mut at = 0usize;
    let mut idle = 0u32;
    while sum != total && idle <= blocks {
        let Some(count) = counts.get_mut(at) else { break };
        let step = if sum < total { *count < slots } else { *count > 0 };
        if step && sum < total {
            (*count, sum, idle) = (*count + 1, sum + 1, 0);
        } else if step {
            (*count, sum, idle) = (*count - 1, sum - 1, 0);
        } else {
            idle += 1;
        }
        // A stride that shares no factor with most numbers.
        at = (at + 7919) % blocks as usize;
        if blocks.is_multiple_of(7919) {
            at = (at + 1) % blocks as usize;
        }
    }
    counts.sort_unstable();
    counts
}

/// Units of each of `planes` planes: in steady state the number of each has half
/// the variance of a Poisson process, for writes come evenly and only what they
/// overwrite is random. Never more than `most`.
#[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
pub(crate) fn plane_shares(units: u64, planes: u32, most: u64, seed: u64) -> Vec<u64> {
    let mean = units as f64 / f64::from(planes);
    let mut shares: Vec<u64> = (0..planes)
        .map(|plane| {
            let share = mean + (mean / 2.0).sqrt() * normal(bits(seed, u64::from(plane)));
            (share.round().max(0.0) as u64).min(most)
        })
        .collect();
    let mut sum: u64 = shares.iter().sum();
    let mut at = 0;
    while sum != units {
        let share = &mut shares[at];
        if sum < units && *share < most {
            (*share, sum) = (*share + 1, sum + 1);
        } else if sum > units && *share > 0 {
            (*share, sum) = (*share - 1, sum - 1);
        }
        at = (at + 1) % planes as usize;
    }
    shares
}

/// A random order of the numbers below `count`, without a table: a Feistel
/// network of four rounds, walked until it stays below.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    count: u32,
    half: u32,
    seed: u64,
}

impl Order {
    pub fn new(count: u32, seed: u64) -> Self {
        let width = 32 - count.saturating_sub(1).leading_zeros();
        Self { count, half: width.div_ceil(2).max(1), seed }
    }

    /// The number at a place of the order.
    pub fn at(&self, place: u32) -> u32 {
        let mask = (1u64 << self.half) - 1;
        let mut value = u64::from(place);
        loop {
            let (mut left, mut right) = (value >> self.half, value & mask);
            for round in 0..4 {
                let mixed = mix(self.seed ^ (round << 56) ^ right) & mask;
                (left, right) = (right, left ^ mixed);
            }
            value = (left << self.half) | right;
            if value < u64::from(self.count) {
                return count(value);
            }
        }
    }
}

/// Chooses the `valid` of `slots` slots that hold data: each set as likely as
/// any other (selection sampling, Knuth, The Art of Computer Programming 3.4.2).
pub(crate) fn choose(slots: u32, valid: u32, seed: u64) -> impl Iterator<Item = u32> {
    let mut remaining = valid;
    (0..slots).filter(move |&slot| {
        let among = f64::from(slots - slot);
        let chosen = unit(bits(seed, u64::from(slot))) * among < f64::from(remaining);
        remaining -= u32::from(chosen);
        chosen
    })
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;

    #[test]
    fn greedy_has_the_closed_form_of_large_blocks() {
        // used = (1 - u) / -ln u, where a share u of a victim is valid.
        for u in [0.3f64, 0.6, 0.85] {
            let used = (1.0 - u) / -u.ln();
            let shares = fixed_point(4096, None, used);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            let least = shares.iter().position(|&share| share > 1e-6).unwrap();
            assert!((least as f64 / 4096.0 - u).abs() < 0.005, "{u}: {least}");
        }
    }

    #[test]
    fn one_choice_is_random_collection() {
        // A random victim is as valid as the rest.
        let shares = fixed_point(64, Some(1), 0.8);
        let mean: f64 = (0..).zip(&shares).map(|(j, m)| f64::from(j) * m).sum::<f64>() / 64.0;
        assert!((mean - 0.8).abs() < 1e-3);
        // j m(j) = c (1 - S(j)) with m(b) = c / (b + c).
        let c = 64.0 * shares[64] / (1.0 - shares[64]);
        let s63 = shares[63] + shares[64];
        assert!((63.0 * shares[63] - c * (1.0 - s63)).abs() < 1e-6);
    }

    #[test]
    fn orders_are_permutations_and_choices_exact() {
        for count in [1u32, 2, 100, 4096, 5000] {
            let order = Order::new(count, 7);
            let mut places: Vec<u32> = (0..count).map(|place| order.at(place)).collect();
            assert!(count < 100 || places.windows(2).any(|pair| pair[0] > pair[1]));
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count));
        }
        for valid in [0, 1, 17, 64] {
            assert_eq!(choose(64, valid, 3).count() as u32, valid);
        }
        let counts = valid_counts(&fixed_point(64, None, 0.7), 1000, 45_123);
        assert_eq!(counts.iter().map(|&count| u64::from(count)).sum::<u64>(), 45_123);
        let shares = plane_shares(100_000, 16, 7_000, 5);
        assert_eq!(shares.iter().sum::<u64>(), 100_000);
        assert!(shares.iter().all(|&share| share <= 7_000));
    }
}
