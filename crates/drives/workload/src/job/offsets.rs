//! Place of a thread's next I/O (fio's io_u.c: `get_next_offset`, `get_next_buflen`).

use super::blockmap::BlockMap;
use super::options::Blocks;
use super::values::{Each, Weighted};
use super::Job;
use crate::permutation::{mix, Permutation};
use stasis_block::Random;

/// Distribution of random offsets (`random_distribution`).
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

/// The part of the drive that a thread uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub length: u64,
}

/// Random blocks, one after the other.
#[derive(Debug, Clone)]
enum Generator {
    /// Every block once before any twice: fio's random map where all I/Os are of one size.
    EachOnce(EachOnce),
    /// The same for several sizes: an I/O ends where a block was met.
    Map(BlockMap),
    /// Every block alike.
    Uniform,
    /// By rank, and the ranks scattered over the region.
    Zipf(Zipf, Permutation),
    /// By rank likewise; the exponent of a uniform number.
    Pareto(f64, Permutation),
    /// By rank likewise, of a deviation in ranks.
    Normal(u64, Permutation),
    /// By zones.
    Zoned(Weighted<(u8, u8)>),
    /// By zones in bytes.
    ZonedBytes(Weighted<(u64, u64)>),
}

/// Passes over the region, each in a different order.
#[derive(Debug, Clone)]
struct EachOnce {
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

    /// `None` once all were met.
    fn next(&mut self) -> Option<u64> {
        (self.next < self.blocks).then(|| {
            self.next += 1;
            self.order.of(self.next - 1)
        })
    }

    /// Begins the next pass, in a different order.
    fn reset(&mut self) {
        self.next = 0;
        self.pass += 1;
        self.order = Permutation::new(self.blocks, mix(self.seed, self.pass));
    }
}

/// Places and lengths of I/Os.
#[derive(Debug, Clone)]
pub struct Offsets {
    region: Region,
    /// End of the drive (bytes).
    capacity: u64,
    /// Whether it continues from the beginning at the end, within a pass.
    wraps: bool,
    blocks: [Blocks; 3],
    /// Divisor of random offsets.
    align: Each<u64>,
    generator: Option<Generator>,
    percentage: Each<u64>,
    by_place: bool,
    every: u64,
    /// I/Os until the next random offset.
    left: u64,
    identical: bool,
    hole: i64,
    /// The end and the beginning of the last I/O of each direction.
    last: Each<u64>,
    last_start: Each<Option<u64>>,
}

impl Offsets {
    /// Of a job in its region. `wraps`: it continues from the beginning at the end.
    ///
    /// # Errors
    /// If a map has too many blocks.
    pub fn new(
        job: &Job,
        region: Region,
        capacity: u64,
        wraps: bool,
        seed: u64,
    ) -> Result<Self, String> {
        let blocks = job.blocks();
        let least: Each<u64> = std::array::from_fn(|d| blocks[d].bounds().0);
        let aligned = job.random && job.ba.iter().any(|align| *align > 0);
        let align: Each<u64> = std::array::from_fn(|d| match job.ba[d] {
            align if job.random && align > 0 => align,
            _ => least[d],
        });
        let mut offsets = Self {
            region,
            capacity,
            wraps: wraps || job.time_based,
            align,
            generator: None,
            percentage: job.percentage_random.map(u64::from),
            by_place: job.bs_is_seq_rand,
            every: job.every,
            left: 1,
            identical: job.identical,
            hole: job.hole,
            last: [region.offset; 3],
            last_start: [None; 3],
            blocks,
        };
        if !job.random {
            return Ok(offsets);
        }
        let used = job.used();
        let count = used.iter().map(|&d| offsets.last_block(d)).max().unwrap_or(1).max(1);
        let scattered = || Permutation::new(count, seed);
        // As in fio, offsets of another alignment have no map.
        let once = !(job.norandommap || aligned && align != least);
        let bounds = offsets.blocks[used[0]].bounds();
        let one_size = bounds.0 == bounds.1
            && !job.bs_is_seq_rand
            && used.iter().all(|&d| offsets.blocks[d].bounds() == bounds && align[d] == bounds.0);
        offsets.generator = Some(match &job.distribution {
            Distribution::Uniform if job.lfsr || (once && one_size) => {
                Generator::EachOnce(EachOnce::new(count, seed))
            }
            Distribution::Uniform if once => {
                let smallest = least.into_iter().min().unwrap_or(1);
                let count = region.length.div_ceil(smallest);
                if count > BlockMap::MAX_BLOCKS {
                    return Err(format!(
                        "a random map of {count} blocks is too large: set norandommap, or make \
                         `size` smaller"
                    ));
                }
                Generator::Map(BlockMap::new(count))
            }
            Distribution::Uniform => Generator::Uniform,
            Distribution::Zipf(theta) => Generator::Zipf(Zipf::new(count, *theta), scattered()),
            Distribution::Pareto(h) => Generator::Pareto(h.ln() / (1.0 - h).ln(), scattered()),
            Distribution::Normal(deviation) => {
                let deviation = (count as f64 * deviation / 100.0).ceil() as u64;
                Generator::Normal(deviation.min(count / 2), scattered())
            }
            Distribution::Zoned(zones) => Generator::Zoned(zones.clone()),
            Distribution::ZonedBytes(zones) => {
                let last = zones.all().map(|(_, end)| end).max();
                if last.is_some_and(|end| end > region.length) {
                    return Err("the zones of zoned_abs end beyond the region".into());
                }
                Generator::ZonedBytes(zones.clone())
            }
        });
        Ok(offsets)
    }

    /// A pass begins.
    pub fn reset(&mut self) {
        self.last = [self.region.offset; 3];
        self.last_start = [None; 3];
        self.reset_map();
    }

    fn reset_map(&mut self) {
        match &mut self.generator {
            Some(Generator::EachOnce(each)) => each.reset(),
            Some(Generator::Map(map)) => map.clear(),
            _ => {}
        }
    }

    /// Number of random places.
    fn last_block(&self, d: usize) -> u64 {
        let least = self.blocks[d].bounds().0;
        let spare = least.saturating_sub(self.align[d]);
        self.region.length.saturating_sub(spare) / self.align[d].max(1)
    }

    /// The first byte and the length of the next I/O in direction `d`; `None` where the pass
    /// has no more.
    pub fn next(&mut self, d: usize, random: &mut Random) -> Option<(u64, u64)> {
        let hit = self.left <= 1;
        self.left = if hit { self.every } else { self.left - 1 };
        // Whether it counts in the map.
        let mut counts = false;
        let mut drawn = false;
        let place = if self.generator.is_none() {
            self.sequential(d)?
        } else if !hit && self.identical {
            self.last_start[d].map_or(0, |start| start - self.region.offset)
        } else if hit && (self.percentage[d] == 100 || random.below(100) < self.percentage[d]) {
            (counts, drawn) = (true, true);
            self.random(d, random)?
        } else {
            self.sequential(d).or_else(|| self.random(d, random))?
        };
        if place >= self.region.length {
            return None;
        }
        let offset = self.region.offset.checked_add(place)?;
        let by = match self.by_place {
            true => usize::from(drawn),
            false => d,
        };
        let mut length = self.length(by, place, random)?;
        if offset.checked_add(length).is_none_or(|end| end > self.capacity) {
            return None;
        }
        if let (true, Some(Generator::Map(map))) = (counts, &mut self.generator) {
            let least = self.blocks[d].bounds().0;
            let taken = map.take(place / least, length.div_ceil(least));
            length = length.min(taken.max(1) * least);
        }
        self.last_start[d] = Some(offset);
        self.last[d] = offset + length;
        Some((offset, length))
    }

    /// The place in the region after the last I/O in this direction.
    fn sequential(&mut self, d: usize) -> Option<u64> {
        let Region { offset, length } = self.region;
        if self.wraps && self.last[d] >= offset + length {
            self.last[d] = offset;
        }
        if self.last[d] >= self.capacity {
            return None;
        }
        // Backwards from the end, which fio does where there is an offset.
        if self.last[d] == offset && offset > 0 && self.hole < 0 {
            self.last[d] = length;
        }
        let mut place = self.last[d].wrapping_sub(offset);
        if place != 0 && self.hole != 0 {
            place = place.wrapping_add_signed(self.hole);
            if place >= self.capacity {
                place = match self.hole > 0 {
                    true => offset,
                    false => length.wrapping_add_signed(self.hole),
                };
            }
        }
        Some(place)
    }

    fn random(&mut self, d: usize, random: &mut Random) -> Option<u64> {
        let block = match self.block(d, random) {
            None if self.wraps => {
                self.reset();
                self.block(d, random)
            }
            block => block,
        };
        block?.checked_mul(self.align[d])
    }

    fn block(&mut self, d: usize, random: &mut Random) -> Option<u64> {
        let count = self.last_block(d);
        if count == 0 {
            return None;
        }
        Some(match self.generator.as_mut()? {
            Generator::EachOnce(each) => each.next()?,
            Generator::Map(map) => map.next_free(random.below(count))?,
            Generator::Uniform => random.below(count),
            Generator::Zipf(zipf, scattered) => {
                scattered.of(zipf.sample(random) - 1).min(count - 1)
            }
            Generator::Pareto(power, scattered) => {
                let rank = (scattered.count() - 1) as f64 * random.unit().powf(*power);
                scattered.of((rank as u64).min(scattered.count() - 1)).min(count - 1)
            }
            Generator::Normal(deviation, scattered) => {
                let ranks = scattered.count();
                let sum: u128 = (0..12).map(|_| u128::from(random.up_to(ranks))).sum();
                let mean = sum.div_ceil(12) as i128;
                let off =
                    i128::from(random.below((*deviation).max(1))) - i128::from(*deviation / 2);
                let rank = (mean + off).rem_euclid(i128::from(ranks));
                scattered.of(rank as u64).min(count - 1)
            }
            Generator::Zoned(zones) => {
                let (first, last) = zones.choose(random.below(100));
                let part = |percent: u8| (u128::from(count) * u128::from(percent) / 100) as u64;
                part(first) + random.below(part(last - first).max(1))
            }
            Generator::ZonedBytes(zones) => {
                let (first, last) = zones.choose(random.below(100));
                let (first, last) = (first / self.align[d], last / self.align[d]);
                first + random.below((last - first).max(1))
            }
        })
    }

    /// The length of an I/O at `place` of the region, by the block sizes of direction `d`.
    fn length(&self, d: usize, place: u64, random: &mut Random) -> Option<u64> {
        /// Draws before the smallest is taken, which always fits.
        const DRAWS: usize = 1000;
        let (least, most) = self.blocks[d].bounds();
        if least == most {
            return Some(least);
        }
        let fits = |length: u64| place + length <= self.region.length;
        if !fits(least) {
            return None;
        }
        let draw = |random: &mut Random| {
            let drawn = match &self.blocks[d] {
                Blocks::Split(split) => split.choose(random.below(100)),
                Blocks::Range(..) => least + (most as f64 * random.unit()) as u64,
            };
            (drawn - drawn % least).min(most)
        };
        let drawn = (0..DRAWS).map(|_| draw(random)).find(|length| fits(*length));
        Some(drawn.unwrap_or(least))
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
    const END: u64 = REGION.offset + REGION.length;

    fn job(random: bool) -> Job {
        Job { random, norandommap: true, time_based: true, ..Job::default() }
    }

    fn counts(job: &Job, draws: usize) -> Vec<u64> {
        let mut offsets = Offsets::new(job, REGION, END, false, 3).unwrap();
        let mut random = Random::new(1);
        let mut counts = vec![0; 1000];
        for _ in 0..draws {
            let (offset, length) = offsets.next(0, &mut random).unwrap();
            let place = offset - REGION.offset;
            assert_eq!((place % 4096, length), (0, 4096));
            counts[(place / 4096) as usize] += 1;
        }
        counts
    }

    fn random(distribution: Distribution, once: bool) -> Job {
        Job { distribution, norandommap: !once, ..job(true) }
    }

    #[test]
    fn a_map_covers_each_block_once_in_every_pass() {
        assert!(counts(&random(Distribution::Uniform, true), 3000).iter().all(|&count| count == 3));
        let once = counts(&random(Distribution::Uniform, true), 500);
        assert!(once.iter().all(|&count| count <= 1));
    }

    #[test]
    fn uniform_offsets_are_uniform() {
        // Chi-squared with 999 degrees of freedom: mean 999, deviation 44.7.
        let counts = counts(&random(Distribution::Uniform, false), 100_000);
        let chi: f64 = counts.iter().map(|&n| (n as f64 - 100.0).powi(2) / 100.0).sum();
        assert!((chi - 999.0).abs() < 5.0 * 44.7, "{chi}");
    }

    #[test]
    fn zipf_follows_its_law() {
        for theta in [0.5, 1.0, 1.2] {
            let mut seen = counts(&random(Distribution::Zipf(theta), false), 400_000);
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
        let mut seen = counts(&random(Distribution::Pareto(0.2), false), 200_000);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let top: u64 = seen[..200].iter().sum();
        assert!((top as f64 / 200_000.0 - 0.8).abs() < 0.02, "{top}");
    }

    #[test]
    fn zones_get_their_shares() {
        let zones = zones("60/10:30/20:10/70").unwrap();
        let seen = counts(&random(Distribution::Zoned(zones), false), 100_000);
        let share = |from: usize, to: usize| seen[from..to].iter().sum::<u64>() as f64 / 1e5;
        assert!((share(0, 100) - 0.6).abs() < 0.01);
        assert!((share(100, 300) - 0.3).abs() < 0.01);
    }

    #[test]
    fn a_map_of_several_sizes_covers_each_byte_once() {
        let split = super::super::values::bssplit(
            "4k/50:16k/50",
            super::super::values::Units { base: 1024 },
        );
        let job = Job {
            bssplit: std::array::from_fn(|_| Some(split.clone().unwrap())),
            norandommap: false,
            time_based: false,
            ..job(true)
        };
        let mut offsets = Offsets::new(&job, REGION, END, false, 3).unwrap();
        let mut random = Random::new(1);
        let mut seen = vec![0; 1000];
        while let Some((offset, length)) = offsets.next(0, &mut random) {
            let first = ((offset - REGION.offset) / 4096) as usize;
            seen[first..first + (length / 4096) as usize].iter_mut().for_each(|n| *n += 1);
        }
        assert!(seen.iter().all(|&n| n == 1));
    }

    #[test]
    fn normal_ranks_are_bell_shaped() {
        // The mean of twelve uniform numbers deviates by a twelfth of their range: 68 % within.
        let mut seen = counts(&random(Distribution::Normal(0.0), false), 100_000);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let top: u64 = seen[..167].iter().sum();
        assert!((top as f64 / 1e5 - 0.683).abs() < 0.02, "{top}");
    }

    #[test]
    fn sequential_offsets_wrap_by_direction() {
        let job = Job { bs: [10; 3], ..job(false) };
        let region = Region { offset: 100, length: 20 };
        let mut offsets = Offsets::new(&job, region, 120, false, 0).unwrap();
        let mut random = Random::new(0);
        let mut next = |direction| offsets.next(direction, &mut random).unwrap().0;
        assert_eq!([next(0), next(0), next(1), next(0)], [100, 110, 100, 100]);
    }
}
