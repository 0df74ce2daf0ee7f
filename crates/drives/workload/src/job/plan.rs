//! Places of a thread's I/Os and amount of its work, from its job and the drive's size
//! (fio's filesetup.c: its order, its roundings).

use super::history::History;
use super::offsets::Region;
use super::{Direction, Engine, Job, Size};
use crate::JobError;
use stasis_block::Random;

/// Work of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Files of its I/Os.
    pub files: Vec<Region>,
    /// Bytes of a pass.
    pub size: u64,
    /// Bytes of all passes, where `io_size` sets them.
    pub io_size: Option<u64>,
}

/// Alignment of the beginning of each of several files (bytes): a block of any drive.
const FILE_ALIGN: u64 = 1 << 16;

impl Plan {
    /// No work.
    pub fn nothing() -> Self {
        Self { files: Vec::new(), size: 0, io_size: None }
    }
}

impl Job {
    /// Bytes of a pass at most. As in fio, only what an engine queues counts.
    pub fn pass_limit(&self, plan: &Plan) -> u64 {
        let queues = matches!(self.engine, Engine::Asynchronous { .. }) && !self.offload;
        if !queues {
            return u64::MAX;
        }
        let mut limit = match (self.writes() && self.random && self.maps_nothing(), plan.io_size) {
            (true, Some(bytes)) => plan.size.max(bytes),
            _ => plan.size,
        };
        if self.verify && self.writes() && self.verify_backlog > 0 {
            limit = limit.saturating_add(plan.size);
        }
        if self.direction == Direction::TrimWrite {
            let all = plan.io_size.unwrap_or(plan.size).saturating_mul(self.loops);
            limit = limit.saturating_add(all);
        }
        limit
    }

    /// I/Os of all passes at most; of a first pass, if it trims and writes.
    pub fn ios_limit(&self) -> u64 {
        let each = if self.direction == Direction::TrimWrite { 2 } else { 1 };
        let ios = self.number_ios.map_or(u64::MAX, |ios| ios.saturating_mul(self.loops));
        ios.saturating_mul(each)
    }

    /// The memory of what it writes.
    ///
    /// # Errors
    /// The history could be too large.
    pub fn history(&self, plan: &Plan) -> Result<History, String> {
        let bytes: u64 = plan.files.iter().fold(0, |sum, file| sum.saturating_add(file.length));
        let writes = bytes / self.blocks()[1].bounds().0.max(1);
        if writes > History::MAX_WRITES && self.verify_backlog == 0 {
            return Err(format!(
                "{writes} writes are too many to remember for `verify`: make `size` smaller, or \
                 give verify_backlog"
            ));
        }
        Ok(History::new(self.has_map()))
    }

    /// The smallest block size of all directions, used or not, as fio rounds by it.
    fn least_block(&self) -> u64 {
        self.blocks().iter().map(|blocks| blocks.bounds().0).min().unwrap_or(1)
    }

    fn start(&self, clone: u32, capacity: u64) -> Option<u64> {
        let percents = [self.offset, self.offset_increment];
        let step = self.offset_increment.of(capacity).checked_mul(clone.into())?;
        let offset = self.offset.of(capacity).checked_add(step)?;
        let share = |size: &Size| matches!(size, Size::Percent(percent) if *percent > 0);
        if !percents.iter().any(share) {
            return Some(offset);
        }
        let align = self.offset_align.unwrap_or_else(|| self.least_block()).max(1);
        offset.div_ceil(align).checked_mul(align)
    }

    /// Returns the plan of thread `clone` on a drive of `capacity`.
    pub fn plan(&self, clone: u32, capacity: u64, seed: u64) -> Result<Plan, JobError> {
        let wrong = |problem: String| JobError::Job { job: self.name.clone(), problem };
        let least = self.least_block();
        let (files, length) = match self.file_count() {
            1 => {
                let region = self.region(clone, capacity, least, self.size);
                (vec![region], region.length)
            }
            _ if self.is_repeated() => {
                let files: Vec<_> = (0..self.file_count())
                    .map(|file| self.region(clone, capacity, least, self.share(file)))
                    .collect();
                let length = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.length));
                (files, length)
            }
            _ => self.several(clone, seed).map_err(wrong)?,
        };
        if let Some(Region { offset, length, .. }) = files.iter().find(|file| {
            let end = file.offset.checked_add(file.length);
            end.and_then(|end| end.checked_add(file.base)).is_none_or(|end| end > capacity)
        }) {
            return Err(wrong(format!(
                "its region of {length} bytes at {offset} ends beyond the drive of {capacity} bytes: \
                 make `size` smaller, or the drive larger with --size"
            )));
        }
        let blocks = self.blocks();
        let most = self.used().iter().map(|&d| blocks[d].bounds().1).max().unwrap_or(1);
        let largest = files.iter().map(|file| file.length).max().unwrap_or(0);
        if most > largest {
            return Err(wrong(format!(
                "its region of {largest} bytes is smaller than a block of {most}: make `size` larger"
            )));
        }
        let mut size = match self.size {
            Some(Size::Bytes(bytes)) => bytes.min(length),
            _ => length,
        };
        let io_size = match self.io_size {
            None | Some(Size::Percent(100)) => None,
            // As in fio, a share is of the region, and of a pass.
            Some(share @ Size::Percent(_)) => {
                size = size.min(share.of(length));
                None
            }
            Some(Size::Bytes(bytes)) => Some(bytes),
        };
        if size < least {
            return Err(wrong(format!(
                "it does {size} bytes, less than a block of {least}: make `size` or `io_size` larger"
            )));
        }
        Ok(Plan { files, size, io_size })
    }

    /// The region of a job's only file, which is the drive.
    fn region(&self, clone: u32, capacity: u64, least: u64, size: Option<Size>) -> Region {
        let offset = self.start(clone, capacity).unwrap_or(u64::MAX);
        let mut length = match (self.filesize, size) {
            (Some((end, _)), _) => end.saturating_sub(offset),
            (None, Some(Size::Bytes(bytes))) => bytes,
            (None, _) => capacity.saturating_sub(offset),
        };
        if let Some(size @ Size::Percent(percent)) = size {
            if percent != 100 {
                let whole = length.saturating_add(offset);
                length = size.of(whole).min(length);
                length -= length % least;
            }
        }
        Region { base: 0, offset, length, size: capacity }
    }

    /// The share of one of several files in `size`. The first get what the others leave over.
    fn share(&self, file: u32) -> Option<Size> {
        let Some(Size::Bytes(size)) = self.size else { return self.size };
        let (count, least) = (u64::from(self.file_count()), self.least_block());
        let share = size / count;
        let more = u64::from(file) < (size - share * count) / least;
        Some(Size::Bytes(share + if more { least } else { 0 }))
    }

    /// Several files, which lie one behind the other, and the sum of their lengths.
    fn several(&self, clone: u32, seed: u64) -> Result<(Vec<Region>, u64), String> {
        let count = u64::from(self.file_count());
        let (Size::Bytes(offset), Size::Bytes(step)) = (self.offset, self.offset_increment) else {
            return Err("with several files, `offset` is in bytes here".into());
        };
        let last = step.saturating_mul(u64::from(self.numjobs.saturating_sub(1)));
        let most = self.most_of_a_file().ok_or(
            "with several files, `size` or `filesize` is needed, in bytes: the files are new",
        )?;
        let extent = most
            .saturating_add(if self.filesize.is_some() { 0 } else { offset.saturating_add(last) })
            .checked_next_multiple_of(FILE_ALIGN)
            .unwrap_or(u64::MAX);
        let offset = offset.saturating_add(step.saturating_mul(clone.into()));
        let least = self.least_block();
        let (mut random, mut sum) = (Random::new(seed), 0u64);
        let mut files = Vec::with_capacity(count as usize);
        for file in 0..count {
            let length = match (self.filesize, self.size) {
                (Some((least_size, most_size)), _) => {
                    let drawn = least_size + random.below((most_size - least_size).max(1));
                    let drawn = if least_size == most_size { drawn } else { drawn - drawn % least };
                    drawn.checked_sub(offset).ok_or("its offset is beyond a file's end")?
                }
                (None, _) => match self.share(file as u32) {
                    Some(Size::Bytes(share)) => share,
                    _ => 0,
                },
            };
            sum = sum.saturating_add(length);
            let base = extent.saturating_mul(file);
            files.push(Region { base, offset, length, size: offset.saturating_add(length) });
        }
        Ok((files, sum))
    }

    /// The most bytes of each of several files that are used, or its length with `filesize`.
    fn most_of_a_file(&self) -> Option<u64> {
        match (self.filesize, self.size) {
            (Some((_, most)), None | Some(Size::Bytes(_))) => Some(most),
            (None, Some(Size::Bytes(size))) => {
                let count = u64::from(self.file_count());
                (size / count).checked_add(self.least_block())
            }
            _ => None,
        }
    }

    /// The size of a drive that holds the regions of all threads, if the options define it.
    pub(super) fn least_capacity(&self) -> Option<u64> {
        if !self.does_io() {
            return Some(0);
        }
        if self.file_count() > 1 && !self.is_repeated() {
            let plan = self.plan(0, u64::MAX, 0).ok()?;
            let last = plan.files.last()?;
            let most = self.most_of_a_file()?;
            let step = self.offset_increment.of(0);
            let clones = u64::from(self.numjobs.saturating_sub(1));
            return step
                .checked_mul(clones)?
                .checked_add(last.offset)?
                .checked_add(most)?
                .checked_add(last.base);
        }
        let bytes = |size: Size| match size {
            Size::Bytes(bytes) => Some(bytes),
            Size::Percent(0) => Some(0),
            Size::Percent(_) => None,
        };
        if let (Some((end, _)), None | Some(Size::Bytes(_))) = (self.filesize, self.size) {
            return Some(end);
        }
        let clones = u64::from(self.numjobs.saturating_sub(1));
        bytes(self.offset_increment)?
            .checked_mul(clones)?
            .checked_add(bytes(self.offset)?)?
            .checked_add(bytes(self.share(0)?)?)
    }

    /// Divisors of the offsets and lengths of its I/Os.
    pub(super) fn granules(&self) -> impl Iterator<Item = u64> {
        let blocks = self.blocks();
        let mut all = Vec::new();
        if self.does_io() {
            for &d in self.used() {
                match &blocks[d] {
                    super::blocks::Blocks::Split(split) => all.extend(split.all()),
                    super::blocks::Blocks::Range(least, most) => all.extend([*least, *most]),
                }
                all.extend(Some(self.ba[d]).filter(|align| *align > 0));
            }
            all.extend(Some(self.hole.unsigned_abs()).filter(|hole| *hole > 0));
            let zones = self.zones();
            all.extend(
                zones.into_iter().flat_map(|zones| [zones.range, zones.skip]).filter(|z| *z > 0),
            );
            let offsets = [self.offset, self.offset_increment];
            all.extend(offsets.into_iter().filter_map(|size| match size {
                Size::Bytes(bytes) => Some(bytes).filter(|bytes| *bytes > 0),
                Size::Percent(_) => self.offset_align,
            }));
        }
        all.into_iter()
    }
}
