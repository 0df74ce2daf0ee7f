//! Place of a thread's next I/O (fio's io_u.c: `get_next_offset`, `get_next_buflen`).

use super::blockmap::BlockMap;
use super::blocks::Blocks;
use super::ranks::{Distribution, Ranks};
use super::values::{Each, Weighted};
use super::{Direction, Job};
use crate::permutation::{mix, Permutation};
use stasis_block::Random;

/// A file of a thread: the drive, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first byte on the drive.
    pub base: u64,
    /// The first byte of the file that the thread uses.
    pub offset: u64,
    /// Number that it uses from there.
    pub length: u64,
    /// Length of the file.
    pub size: u64,
}

/// Zones of a fixed distance, one after the other (`zonemode=strided`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strided {
    /// Bytes that are done in a zone.
    pub size: u64,
    /// Length of a zone.
    pub range: u64,
    /// Bytes between a zone and the next.
    pub skip: u64,
}

impl Job {
    /// Returns the job's zones, if it has zones of a fixed distance.
    pub(super) fn zones(&self) -> Option<Strided> {
        // As in fio, zones of a fixed distance are for one open file.
        let files = match self.openfiles {
            0 => self.file_count(),
            files => files.min(self.file_count()),
        };
        if !self.strided || files > 1 {
            return None;
        }
        let range = if self.zone_range > 0 { self.zone_range } else { self.zone_size };
        Some(Strided { size: self.zone_size, range, skip: self.zone_skip })
    }
}

/// Random blocks, one after the other.
#[derive(Debug, Clone)]
enum Generator {
    /// Every block once before any twice: fio's random map where all I/Os are of one size.
    EachOnce(EachOnce),
    /// Every block once before any twice, for I/Os of several sizes: an I/O ends before a block
    /// that was used.
    Map(BlockMap),
    /// Every block alike.
    Uniform,
    /// By rank.
    Ranked(Ranks),
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
    #[inline]
    fn next(&mut self) -> Option<u64> {
        (self.next < self.blocks).then(|| {
            self.next += 1;
            self.order.of(self.next - 1)
        })
    }

    /// Begins the next pass, in a different order.
    fn reset(&mut self) {
        if self.next == 0 {
            return;
        }
        self.next = 0;
        self.pass += 1;
        self.order = Permutation::new(self.blocks, mix(self.seed, self.pass));
    }
}

/// No I/O yet in a direction.
const NEVER: u64 = u64::MAX;

/// Places of a file's I/Os; bytes are of the file.
#[derive(Debug, Clone)]
struct File {
    region: Region,
    /// Beginning of its zone, with `zonemode=strided`, and otherwise of the region.
    at: u64,
    generator: Option<Generator>,
    each: Each<Progress>,
}

/// A file's places in a direction.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// Number of random places.
    count: u64,
    /// The end and the beginning of the last I/O.
    last: u64,
    last_start: u64,
}

impl File {
    fn reset(&mut self) {
        for progress in &mut self.each {
            (progress.last, progress.last_start) = (self.at, NEVER);
        }
        match &mut self.generator {
            Some(Generator::EachOnce(each)) => each.reset(),
            Some(Generator::Map(map)) => map.clear(),
            _ => {}
        }
    }
}

/// Properties of a job's places in a direction.
#[derive(Debug, Clone, Copy)]
struct DirectionRules {
    /// The least and the greatest length of an I/O.
    bounds: (u64, u64),
    /// Divisor of random offsets.
    align: u64,
    /// Share of random I/Os (%).
    percentage: u64,
}

/// Properties of a job's places.
#[derive(Debug, Clone)]
struct Rules {
    blocks: [Blocks; 3],
    each: Each<DirectionRules>,
    by_place: bool,
    every: u64,
    identical: bool,
    hole: i64,
    /// True if a sequence continues from the beginning at the end, within a pass.
    wraps: bool,
    /// True if a random map begins anew likewise.
    renews: bool,
    zones: Option<Strided>,
    /// True if a write goes to where a trim went.
    follows_trims: bool,
}

/// Places and lengths of I/Os.
#[derive(Debug, Clone)]
pub struct Offsets {
    rules: Rules,
    files: Vec<File>,
    /// I/Os until the next random offset.
    until_random: u64,
    /// Bytes done in the present zone.
    zone_bytes: u64,
    /// Random numbers of the lengths of writes and of trims, where a write is as long as the trim
    /// before it: twice the same.
    lengths: Option<[Random; 2]>,
}

impl Offsets {
    /// Makes the offsets of a job in its files. Whatever `renews`, a map begins anew at its end in
    /// a job that is based on time.
    ///
    /// # Errors
    /// If a map has too many blocks.
    pub fn new(job: &Job, regions: &[Region], renews: bool, seed: u64) -> Result<Self, String> {
        let blocks = job.blocks();
        let each = std::array::from_fn(|d| {
            let bounds = blocks[d].bounds();
            let align = match job.ba[d] {
                align if job.random && align > 0 => align,
                _ => bounds.0,
            };
            DirectionRules { bounds, align, percentage: job.percentage_random[d].into() }
        });
        let rules = Rules {
            blocks,
            each,
            by_place: job.bs_is_seq_rand,
            every: job.every,
            identical: job.identical,
            hole: job.hole,
            wraps: job.time_based && regions.len() == 1,
            renews: job.time_based || renews,
            zones: job.zones(),
            follows_trims: job.direction == Direction::TrimWrite && job.random,
        };
        let mut files = Vec::with_capacity(regions.len());
        for (index, &region) in regions.iter().enumerate() {
            // The first file's numbers are those of a job's only file.
            let seed = if index == 0 { seed } else { mix(seed, index as u64) };
            let generator = rules.generator(job, region, seed)?;
            files.push(File {
                region,
                at: region.offset,
                generator,
                each: std::array::from_fn(|d| Progress {
                    count: rules.last_block(d, region),
                    last: region.offset,
                    last_start: NEVER,
                }),
            });
        }
        let pairs = job.direction == Direction::TrimWrite && !job.random;
        let lengths = pairs.then(|| [Random::new(seed), Random::new(seed)]);
        Ok(Self { rules, files, until_random: 1, zone_bytes: 0, lengths })
    }

    /// A pass begins.
    pub fn reset(&mut self) {
        self.zone_bytes = 0;
        for file in &mut self.files {
            file.at = file.region.offset;
            file.reset();
        }
    }

    /// A file begins anew.
    pub fn reset_file(&mut self, file: usize) {
        self.files[file].reset();
    }

    /// The file of a byte of the drive.
    #[inline]
    pub fn file_at(&self, byte: u64) -> usize {
        match self.files.as_slice() {
            [_] => 0,
            files => files.partition_point(|file| file.region.base <= byte).saturating_sub(1),
        }
    }

    /// Returns whether a trim comes before the next write of a file, where each write follows a
    /// trim.
    pub fn trim_is_due(&self, file: usize) -> bool {
        let [_, write, trim] = &self.files[file].each;
        write.last_start == trim.last_start
    }

    /// The first byte on the drive and the length of the next I/O in direction `d` of a file;
    /// `None` where the file has no more.
    // The way of every I/O has one caller: a call less.
    #[inline(always)]
    pub fn next(&mut self, file: usize, d: usize, random: &mut Random) -> Option<(u64, u64)> {
        let Self { rules, files, until_random, zone_bytes, lengths } = self;
        let file = &mut files[file];
        if let Some(zones) = &rules.zones {
            rules.zone(zones, file, d, zone_bytes);
        }
        let hit = *until_random <= 1;
        *until_random = if hit { rules.every } else { *until_random - 1 };
        let follows = rules.follows_trims && d == 1;
        let is_random = file.generator.is_some();
        // Only random offsets that have a map count in it.
        let counts = is_random
            && hit
            && !follows
            && (rules.each[d].percentage == 100 || random.below(100) < rules.each[d].percentage);
        let drawn = counts || follows;
        let known = if follows {
            Some(file.each[2].last_start)
        } else if is_random && !hit && rules.identical {
            match file.each[d].last_start {
                NEVER => Some(0),
                start => Some(start - file.at),
            }
        } else if counts {
            None
        } else {
            rules.sequential(file, d)
        };
        let place = match known {
            Some(place) => place,
            None if is_random => rules.random(file, d, random)?,
            None => return None,
        };
        if place >= file.region.length {
            return None;
        }
        let offset = file.at.checked_add(place).filter(|offset| *offset < file.region.size)?;
        if rules.follows_trims && d == 2 && file.each[2].last_start == offset {
            // Another trim of the same place: its write is still to come.
            file.each[1].last_start = file.each[1].last_start.wrapping_sub(1);
        }
        let by = match rules.by_place {
            true => usize::from(drawn),
            false => d,
        };
        let mut length = match follows {
            true => file.each[2].last - file.each[2].last_start,
            false => {
                let random = match lengths {
                    Some(lengths) if d > 0 => &mut lengths[d - 1],
                    _ => random,
                };
                rules.length(by, offset, file.region, random)?
            }
        };
        if offset.checked_add(length).is_none_or(|end| end > file.region.size) {
            return None;
        }
        if let (true, Some(Generator::Map(map))) = (counts, &mut file.generator) {
            let least = rules.each[d].bounds.0;
            let taken = map.take(place / least, length.div_ceil(least));
            length = length.min(taken.max(1) * least);
        }
        *zone_bytes = zone_bytes.saturating_add(length);
        let progress = &mut file.each[d];
        (progress.last_start, progress.last) = (offset, offset + length);
        Some((file.region.base + offset, length))
    }
}

impl Rules {
    /// The generator of a file's random blocks; `None` for sequential I/O.
    fn generator(&self, job: &Job, region: Region, seed: u64) -> Result<Option<Generator>, String> {
        if !job.random {
            return Ok(None);
        }
        let used = job.used();
        let least = self.each.map(|range| range.bounds.0);
        let aligned = job.ba.iter().any(|align| *align > 0);
        let count = used.iter().map(|&d| self.last_block(d, region)).max().unwrap_or(1).max(1);
        // As in fio, offsets of another alignment have no map.
        let once = !(job.norandommap || aligned && self.each.map(|range| range.align) != least);
        let bounds = self.each[used[0]].bounds;
        let one_size = bounds.0 == bounds.1
            && !job.bs_is_seq_rand
            && used
                .iter()
                .map(|&d| self.each[d])
                .all(|range| range.bounds == bounds && range.align == bounds.0);
        Ok(Some(match &job.distribution {
            Distribution::Uniform if job.lfsr || (once && one_size) => {
                Generator::EachOnce(EachOnce::new(count, seed))
            }
            Distribution::Uniform if once => {
                let smallest = least.into_iter().min().unwrap_or(1);
                let count = self.extent(region).div_ceil(smallest);
                if count > BlockMap::MAX_BLOCKS {
                    return Err(format!(
                        "a random map of {count} blocks is too large: set norandommap, or make \
                         `size` smaller"
                    ));
                }
                Generator::Map(BlockMap::new(count))
            }
            Distribution::Zoned(zones) => Generator::Zoned(zones.clone()),
            Distribution::ZonedBytes(zones) => {
                let last = zones.all().map(|(_, end)| end).max();
                if last.is_some_and(|end| end > region.length) {
                    return Err("the zones of zoned_abs end beyond the region".into());
                }
                Generator::ZonedBytes(zones.clone())
            }
            ranked => {
                Ranks::scattered(ranked, count, seed).map_or(Generator::Uniform, Generator::Ranked)
            }
        }))
    }

    /// Bytes among which offsets are drawn.
    fn extent(&self, region: Region) -> u64 {
        self.zones.map_or(region.length, |zones| zones.range)
    }

    /// Number of random places.
    fn last_block(&self, d: usize, region: Region) -> u64 {
        let DirectionRules { bounds: (least, _), align, .. } = self.each[d];
        let spare = least.saturating_sub(align);
        self.extent(region).saturating_sub(spare) / align.max(1)
    }

    /// Goes to the next zone where the present one is done (fio's `setup_strided_zone_mode`).
    fn zone(&self, zones: &Strided, file: &mut File, d: usize, bytes: &mut u64) {
        if *bytes >= zones.size {
            *bytes = 0;
            file.at = file.at.saturating_add(zones.range).saturating_add(zones.skip);
            if file.at >= file.region.size {
                file.at = file.region.offset;
            }
            file.each[d].last = file.at;
        }
        if file.each[d].last >= file.at.saturating_add(zones.range) {
            file.each[d].last = file.at;
        }
        if bytes.is_multiple_of(zones.range) {
            file.reset();
        }
    }

    /// The place after the last I/O in this direction, from where the file or its zone begins.
    fn sequential(&self, file: &mut File, d: usize) -> Option<u64> {
        let Region { offset, length, size, .. } = file.region;
        let last = &mut file.each[d].last;
        if self.wraps && *last >= offset + length {
            *last = file.at;
        }
        if *last >= size {
            return None;
        }
        // Backwards from the end, which fio does where there is an offset.
        if *last == file.at && file.at > 0 && self.hole < 0 {
            *last = length;
        }
        let mut place = last.wrapping_sub(file.at);
        if place != 0 && self.hole != 0 {
            place = place.wrapping_add_signed(self.hole);
            if place >= size {
                place = match self.hole > 0 {
                    true => file.at,
                    false => length.wrapping_add_signed(self.hole),
                };
            }
        }
        Some(place)
    }

    #[inline]
    fn random(&self, file: &mut File, d: usize, random: &mut Random) -> Option<u64> {
        let mut renews = self.renews;
        loop {
            match self.block(file, d, random) {
                Some(block) => return block.checked_mul(self.each[d].align),
                None if renews => file.reset(),
                None => return None,
            }
            renews = false;
        }
    }

    #[inline]
    fn block(&self, file: &mut File, d: usize, random: &mut Random) -> Option<u64> {
        let count = file.each[d].count;
        if count == 0 {
            return None;
        }
        Some(match file.generator.as_mut()? {
            Generator::EachOnce(each) => each.next()?,
            Generator::Map(map) => map.next_free(random.below(count))?,
            Generator::Uniform => random.below(count),
            Generator::Ranked(ranks) => ranks.sample(random).min(count - 1),
            Generator::Zoned(zones) => {
                let (first, last) = zones.choose(random.below(100));
                let part = |percent: u8| (u128::from(count) * u128::from(percent) / 100) as u64;
                part(first) + random.below(part(last - first).max(1))
            }
            Generator::ZonedBytes(zones) => {
                let (first, last) = zones.choose(random.below(100));
                let align = self.each[d].align;
                let (first, last) = (first / align, last / align);
                first + random.below((last - first).max(1))
            }
        })
    }

    /// The length of an I/O at `offset` of a file, by the block sizes of direction `d`.
    #[inline]
    fn length(&self, d: usize, offset: u64, region: Region, random: &mut Random) -> Option<u64> {
        let (least, most) = self.each[d].bounds;
        if least == most {
            return Some(least);
        }
        self.drawn_length(d, offset, region, random)
    }

    fn drawn_length(
        &self,
        d: usize,
        offset: u64,
        region: Region,
        random: &mut Random,
    ) -> Option<u64> {
        /// Draws before the smallest is taken, which always fits.
        const DRAWS: usize = 1000;
        let (least, most) = self.each[d].bounds;
        let end = region.offset.saturating_add(region.length);
        let fits = |length: u64| offset.saturating_add(length) <= end;
        if !fits(least) {
            return None;
        }
        let draw = |random: &mut Random| {
            let drawn = match &self.blocks[d] {
                Blocks::Split(split) => split.choose_fitting(random.below(100), fits),
                Blocks::Range(..) => least + (most as f64 * random.unit()) as u64,
            };
            (drawn - drawn % least).min(most)
        };
        let drawn = (0..DRAWS).map(|_| draw(random)).find(|length| fits(*length));
        Some(drawn.unwrap_or(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::values::zones;

    const REGION: Region = region(1 << 20, 1000 * 4096);

    /// A file that ends with its region.
    const fn region(offset: u64, length: u64) -> Region {
        Region { base: 0, offset, length, size: offset + length }
    }

    fn job(random: bool) -> Job {
        Job { random, norandommap: true, time_based: true, ..Job::default() }
    }

    fn counts(job: &Job, draws: usize) -> Vec<u64> {
        // A power of two, of which no rank shares its block with another.
        let blocks = if job.distribution == Distribution::Uniform { 1000 } else { 1024 };
        let region = region(1 << 20, blocks as u64 * 4096);
        let mut offsets = Offsets::new(job, &[region], false, 3).unwrap();
        let mut random = Random::new(1);
        let mut counts = vec![0; blocks];
        for _ in 0..draws {
            let (offset, length) = offsets.next(0, 0, &mut random).unwrap();
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
            let mut hits = counts(&random(Distribution::Zipf(theta), false), 400_000);
            hits.sort_unstable_by(|a, b| b.cmp(a));
            let zeta: f64 = (1..=1024).map(|k| f64::from(k).powf(-theta)).sum();
            for (k, tolerance) in [(1, 0.03), (2, 0.03), (10, 0.06)] {
                let expected = 400_000.0 * f64::from(k).powf(-theta) / zeta;
                let found = hits[k as usize - 1] as f64;
                assert!(
                    (found / expected - 1.0).abs() < tolerance,
                    "{theta} {k}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn pareto_of_a_fifth_gives_four_fifths() {
        let mut hits = counts(&random(Distribution::Pareto(0.2), false), 200_000);
        hits.sort_unstable_by(|a, b| b.cmp(a));
        let top: u64 = hits[..205].iter().sum();
        assert!((top as f64 / 200_000.0 - 0.8).abs() < 0.02, "{top}");
    }

    #[test]
    fn zones_get_their_shares() {
        let zones = zones("60/10:30/20:10/70").unwrap();
        let hits = counts(&random(Distribution::Zoned(zones), false), 100_000);
        let share = |from: usize, to: usize| hits[from..to].iter().sum::<u64>() as f64 / 1e5;
        assert!((share(0, 102) - 0.6).abs() < 0.01);
        assert!((share(102, 306) - 0.3).abs() < 0.01);
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
        let mut offsets = Offsets::new(&job, &[REGION], false, 3).unwrap();
        let mut random = Random::new(1);
        let mut hits = vec![0; 1000];
        while let Some((offset, length)) = offsets.next(0, 0, &mut random) {
            let first = ((offset - REGION.offset) / 4096) as usize;
            hits[first..first + (length / 4096) as usize].iter_mut().for_each(|n| *n += 1);
        }
        assert!(hits.iter().all(|&n| n == 1));
    }

    #[test]
    fn normal_ranks_are_bell_shaped() {
        // The mean of twelve uniform numbers deviates by a twelfth of their range: 68 % within.
        let mut hits = counts(&random(Distribution::Normal(0.0), false), 100_000);
        hits.sort_unstable_by(|a, b| b.cmp(a));
        let top: u64 = hits[..171].iter().sum();
        assert!((top as f64 / 1e5 - 0.683).abs() < 0.02, "{top}");
    }

    #[test]
    fn sequential_offsets_wrap_by_direction() {
        let job = Job { bs: [10; 3], ..job(false) };
        let mut offsets = Offsets::new(&job, &[region(100, 20)], false, 0).unwrap();
        let mut random = Random::new(0);
        let mut next = |direction| offsets.next(0, direction, &mut random).unwrap().0;
        assert_eq!([next(0), next(0), next(1), next(0)], [100, 110, 100, 100]);
    }
}
