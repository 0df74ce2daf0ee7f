//! Where a thread's next I/O goes.

use super::values::{Each, Weighted};
use crate::permutation::{mix, Permutation};
use stasis_block::Random;

/// How random offsets are distributed (`random_distribution`).
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Every block alike.
    Uniform,
    /// The block of rank k in proportion to k^-theta.
    Zipf(f64),
    /// A share h of the I/Os goes to a share 1 - h of the blocks, and so on
    /// within each.
    Pareto(f64),
    /// Shares of the region with shares of the I/Os.
    Zoned(Weighted<(u8, u8)>),
}

/// The part of the drive that a thread uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub length: u64,
}

/// Where I/Os go, one after the other.
#[derive(Debug, Clone)]
pub enum Offsets {
    /// One behind the other, for each direction.
    Sequential(Each<u64>),
    /// Every block once before any twice: fio's random map.
    EachOnce(EachOnce),
    /// Every block alike.
    Uniform,
    /// By rank, and the ranks scattered over the region.
    Zipf(Zipf, Permutation),
    /// By rank likewise; the exponent of a uniform number.
    Pareto(f64, Permutation),
    /// By zones.
    Zoned(Weighted<(u8, u8)>),
}

/// Passes over the region, each in an order of its own.
#[derive(Debug, Clone)]
pub struct EachOnce {
    blocks: u64,
    next: u64,
    pass: u64,
    seed: u64,
    order: Permutation,
}

impl EachOnce {
    fn new(blocks: u64, seed: u64) -> Self {
        Self { blocks, next: 0, pass: 0, seed, order: Permutation::new(blocks, mix(seed, 0)) }
    }

    fn next(&mut self) -> u64 {
        if self.next == self.blocks {
            self.next = 0;
            self.pass += 1;
            self.order = Permutation::new(self.blocks, mix(self.seed, self.pass));
        }
        self.next += 1;
        self.order.of(self.next - 1)
    }
}

impl Offsets {
    /// One behind the other.
    pub fn sequential() -> Self {
        Self::Sequential([0; 3])
    }

    /// At random over `region` in steps of `align`; each once only where
    /// `once` holds and every I/O is of that size.
    pub fn random(
        distribution: &Distribution,
        region: Region,
        align: u64,
        once: bool,
        seed: u64,
    ) -> Self {
        let blocks = (region.length / align).max(1);
        let scattered = || Permutation::new(blocks, seed);
        match distribution {
            Distribution::Uniform if once => Self::EachOnce(EachOnce::new(blocks, seed)),
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipf(theta) => Self::Zipf(Zipf::new(blocks, *theta), scattered()),
            Distribution::Pareto(h) => Self::Pareto(h.ln() / (1.0 - h).ln(), scattered()),
            Distribution::Zoned(zones) => Self::Zoned(zones.clone()),
        }
    }

    /// The first byte of an I/O of `length` in `direction`; `length` is no
    /// more than the region's.
    pub fn next(
        &mut self,
        region: Region,
        align: u64,
        direction: usize,
        length: u64,
        random: &mut Random,
    ) -> u64 {
        // Starts that leave room for the I/O, in steps of `align`.
        let starts = (region.length - length) / align + 1;
        let block = match self {
            Self::Sequential(at) => {
                let at = &mut at[direction];
                if *at + length > region.length {
                    *at = 0;
                }
                let offset = region.offset + *at;
                *at += length;
                return offset;
            }
            Self::EachOnce(each) => each.next(),
            Self::Uniform => random.below(starts),
            Self::Zipf(zipf, scattered) => scattered.of(zipf.sample(random) - 1),
            Self::Pareto(power, scattered) => {
                let rank = (scattered.count() - 1) as f64 * random.unit().powf(*power);
                scattered.of((rank as u64).min(scattered.count() - 1))
            }
            Self::Zoned(zones) => {
                let (first, last) = zones.choose(random.below(100));
                let part = |percent: u8| (u128::from(starts) * u128::from(percent) / 100) as u64;
                let (first, last) = (part(first), part(last));
                first + random.below((last - first).max(1))
            }
        };
        region.offset + block.min(starts - 1) * align
    }
}

/// Zipf's distribution over `1..=count` in constant time and memory:
/// rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", 1996).
#[derive(Debug, Clone)]
pub struct Zipf {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::values::zones;

    const REGION: Region = Region { offset: 1 << 20, length: 1000 * 4096 };

    fn counts(mut offsets: Offsets, draws: usize) -> Vec<u64> {
        let mut random = Random::new(1);
        let mut counts = vec![0; 1000];
        for _ in 0..draws {
            let offset = offsets.next(REGION, 4096, 0, 4096, &mut random) - REGION.offset;
            assert_eq!(offset % 4096, 0);
            counts[(offset / 4096) as usize] += 1;
        }
        counts
    }

    fn random(distribution: Distribution, once: bool) -> Offsets {
        Offsets::random(&distribution, REGION, 4096, once, 3)
    }

    #[test]
    fn a_map_covers_each_block_once_in_every_pass() {
        assert!(counts(random(Distribution::Uniform, true), 3000).iter().all(|&count| count == 3));
        let once = counts(random(Distribution::Uniform, true), 500);
        assert!(once.iter().all(|&count| count <= 1));
    }

    #[test]
    fn uniform_offsets_are_uniform() {
        // Chi-squared with 999 degrees of freedom: mean 999, deviation 44.7.
        let counts = counts(random(Distribution::Uniform, false), 100_000);
        let chi: f64 = counts.iter().map(|&n| (n as f64 - 100.0).powi(2) / 100.0).sum();
        assert!((chi - 999.0).abs() < 5.0 * 44.7, "{chi}");
    }

    #[test]
    fn zipf_follows_its_law() {
        for theta in [0.5, 1.0, 1.2] {
            let mut seen = counts(random(Distribution::Zipf(theta), false), 400_000);
            seen.sort_unstable_by(|a, b| b.cmp(a));
            let zeta: f64 = (1..=1000).map(|k| f64::from(k).powf(-theta)).sum();
            for (k, tolerance) in [(1, 0.03), (2, 0.03), (10, 0.06)] {
                let expected = 400_000.0 * f64::from(k).powf(-theta) / zeta;
                let found = seen[k as usize - 1] as f64;
                assert!(
                    (found / expected - 1.0).abs() < tolerance,
                    "{theta} {k}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn pareto_of_a_fifth_gives_four_fifths() {
        let mut seen = counts(random(Distribution::Pareto(0.2), false), 200_000);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let top: u64 = seen[..200].iter().sum();
        assert!((top as f64 / 200_000.0 - 0.8).abs() < 0.02, "{top}");
    }

    #[test]
    fn zones_get_their_shares() {
        let zones = zones("60/10:30/20:10/70").unwrap();
        let seen = counts(random(Distribution::Zoned(zones), false), 100_000);
        let share = |from: usize, to: usize| seen[from..to].iter().sum::<u64>() as f64 / 1e5;
        assert!((share(0, 100) - 0.6).abs() < 0.01);
        assert!((share(100, 300) - 0.3).abs() < 0.01);
    }

    #[test]
    fn sequential_offsets_wrap_by_direction() {
        let mut offsets = Offsets::sequential();
        let region = Region { offset: 100, length: 25 };
        let mut random = Random::new(0);
        let mut next = |direction, length| offsets.next(region, 10, direction, length, &mut random);
        assert_eq!([next(0, 10), next(0, 10), next(1, 10), next(0, 10)], [100, 110, 100, 100]);
    }
}
