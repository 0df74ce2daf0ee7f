//! Numbers with weights by their rank: Zipf's, Pareto's and normal distributions
//! (fio's `random_distribution` and `file_service_type`).

use stasis_block::Random;

use super::values::Weighted;
use crate::permutation::mix;

/// Distribution of random numbers: offsets (`random_distribution`), files (`file_service_type`).
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Every block alike.
    Uniform,
    /// The block of rank k in proportion to k^-theta.
    Zipf(f64),
    /// A share h of the I/Os goes to a share 1 - h of the blocks, and so on
    /// within each.
    Pareto(f64),
    /// The mean of twelve uniform ranks, off by up to half of this many percent.
    Normal(f64),
    /// Shares of the region with shares of the I/Os.
    Zoned(Weighted<(u8, u8)>),
    /// Parts of the region with shares of the I/Os.
    ZonedBytes(Weighted<(u64, u64)>),
}

/// Numbers below a count.
#[derive(Debug, Clone)]
pub struct Ranks {
    law: Law,
    order: Order,
}

/// The numbers of the ranks.
#[derive(Debug, Clone)]
enum Order {
    /// Numbers by a hash, as in fio: where the count is no power of two, several ranks have the
    /// same number, and up to a share of 1/e of all numbers have no rank.
    Hashed { first: u64, count: u64 },
    /// Neighbours of one another, from a number on.
    Adjacent { first: u64, count: u64 },
}

#[derive(Debug, Clone)]
enum Law {
    Zipf(Zipf),
    /// The exponent of a uniform number.
    Pareto(f64),
    /// A deviation in ranks.
    Normal(u64),
}

impl Ranks {
    /// Makes ranks of `distribution` over the numbers below `count`, which are scattered; `None`
    /// where it has no ranks.
    pub fn scattered(distribution: &Distribution, count: u64, seed: u64) -> Option<Self> {
        let law = Law::new(distribution, count)?;
        let first = law.first(count, seed);
        Some(Self { law, order: Order::Hashed { first, count } })
    }

    /// Like [`Self::scattered`], but consecutive ranks have consecutive numbers, as of fio's files:
    /// a normal distribution from 0 on, the others from any number.
    pub fn adjacent(distribution: &Distribution, count: u64, seed: u64) -> Option<Self> {
        let law = Law::new(distribution, count)?;
        let first = law.first(count, seed);
        Some(Self { law, order: Order::Adjacent { first, count } })
    }

    /// The next number.
    pub fn sample(&self, random: &mut Random) -> u64 {
        match &self.order {
            Order::Hashed { first, count } => {
                let hash = self.law.sample(*count, random).wrapping_mul(GOLDEN_RATIO);
                hash.wrapping_add(*first) % count
            }
            Order::Adjacent { first, count } => {
                let rank = self.law.sample(*count, random);
                ((u128::from(*first) + u128::from(rank)) % u128::from(*count)) as u64
            }
        }
    }
}

/// The multiplier of the hash: 2 to the power of 64 by the square of the golden ratio (Knuth, "The
/// Art of Computer Programming", volume 3, section 6.4: multiplicative hashing), as in fio's hash.h.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

impl Law {
    /// The number of the first rank: as in fio, 0 of a normal distribution, otherwise any.
    fn first(&self, count: u64, seed: u64) -> u64 {
        match self {
            Self::Normal(_) => 0,
            Self::Zipf(_) | Self::Pareto(_) => mix(seed, 0) % count.max(1),
        }
    }

    /// Makes ranks of a distribution that has them.
    fn new(distribution: &Distribution, count: u64) -> Option<Self> {
        Some(match distribution {
            Distribution::Zipf(theta) => Law::Zipf(Zipf::new(count, *theta)),
            Distribution::Pareto(h) => Law::Pareto(h.ln() / (1.0 - h).ln()),
            Distribution::Normal(deviation) => {
                let deviation = (count as f64 * deviation / 100.0).ceil() as u64;
                Law::Normal(deviation.min(count / 2))
            }
            Distribution::Uniform | Distribution::Zoned(_) | Distribution::ZonedBytes(_) => {
                return None
            }
        })
    }

    /// One of `ranks` ranks, from 0.
    fn sample(&self, ranks: u64, random: &mut Random) -> u64 {
        match self {
            Law::Zipf(zipf) => zipf.sample(random) - 1,
            Law::Pareto(power) => {
                let rank = (ranks - 1) as f64 * random.unit().powf(*power);
                (rank as u64).min(ranks - 1)
            }
            Law::Normal(deviation) => {
                let sum: u128 = (0..12).map(|_| u128::from(random.up_to(ranks))).sum();
                let mean = sum.div_ceil(12) as i128;
                let mut off =
                    i128::from(random.below((*deviation).max(1))) - i128::from(*deviation / 2);
                let within = |rank: i128| (0..i128::from(ranks)).contains(&rank);
                while off != 0 && !within(mean + off) {
                    off /= 2;
                }
                (mean + off).rem_euclid(i128::from(ranks)) as u64
            }
        }
    }
}

/// Zipf's distribution over `1..=count` in constant time and memory:
/// rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", 1996).
#[derive(Debug, Clone)]
struct Zipf {
    count: f64,
    theta: f64,
    first: f64,
    last: f64,
    sure: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Self { count: count as f64, theta, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        zipf
    }

    fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.last + random.unit() * (self.first - self.last);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.count);
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.height(k) {
                return k as u64;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of the height from 1, also where theta is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.theta) * log;
        if t.abs() > 1e-8 {
            t.exp_m1() / t * log
        } else {
            log * (1.0 + t / 2.0)
        }
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        let factor = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (factor * y).exp()
    }
}
