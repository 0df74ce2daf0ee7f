//! Places of a thread's I/Os and amount of its work, from its job and the drive's size
//! (fio's filesetup.c: its order, its roundings).

use super::offsets::Region;
use super::{Job, Size};
use crate::JobError;

/// Work of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Region of its I/Os.
    pub region: Region,
    /// Bytes of a pass.
    pub size: u64,
    /// Bytes of all passes, where `io_size` sets them.
    pub io_size: Option<u64>,
}

impl Job {
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

    /// Of thread `clone` on a drive of `capacity`.
    pub fn plan(&self, clone: u32, capacity: u64) -> Result<Plan, JobError> {
        let wrong = |problem: String| JobError::Job { job: self.name.clone(), problem };
        let offset = self.start(clone, capacity).unwrap_or(u64::MAX);
        let least = self.least_block();
        let mut length = match (self.filesize, self.size) {
            (Some(end), _) => end.saturating_sub(offset),
            (None, Some(Size::Bytes(bytes))) => bytes,
            (None, _) => capacity.saturating_sub(offset),
        };
        if let Some(size @ Size::Percent(percent)) = self.size {
            if percent != 100 {
                let whole = length.saturating_add(offset);
                length = size.of(whole).min(length);
                length -= length % least;
            }
        }
        if offset.checked_add(length).is_none_or(|end| end > capacity) {
            return Err(wrong(format!(
                "its region of {length} bytes at {offset} ends beyond the drive of {capacity} bytes: \
                 make `size` smaller, or the drive larger with --size"
            )));
        }
        let blocks = self.blocks();
        let most = self.used().iter().map(|&d| blocks[d].bounds().1).max().unwrap_or(1);
        if most > length {
            return Err(wrong(format!(
                "its region of {length} bytes is smaller than a block of {most}: make `size` larger"
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
        Ok(Plan { region: Region { offset, length }, size, io_size })
    }

    /// The size of a drive that holds the regions of all threads, if the options define it.
    pub(super) fn least_capacity(&self) -> Option<u64> {
        if !self.does_io() {
            return Some(0);
        }
        let bytes = |size: Size| match size {
            Size::Bytes(bytes) => Some(bytes),
            Size::Percent(0) => Some(0),
            Size::Percent(_) => None,
        };
        if let (Some(end), None | Some(Size::Bytes(_))) = (self.filesize, self.size) {
            return Some(end);
        }
        let clones = u64::from(self.numjobs.saturating_sub(1));
        bytes(self.offset_increment)?
            .checked_mul(clones)?
            .checked_add(bytes(self.offset)?)?
            .checked_add(bytes(self.size?)?)
    }

    /// Divisors of the offsets and lengths of its I/Os.
    pub(super) fn granules(&self) -> impl Iterator<Item = u64> {
        let blocks = self.blocks();
        let mut all = Vec::new();
        if self.does_io() {
            for &d in self.used() {
                match &blocks[d] {
                    super::options::Blocks::Split(split) => all.extend(split.all()),
                    super::options::Blocks::Range(least, most) => all.extend([*least, *most]),
                }
                all.extend(Some(self.ba[d]).filter(|align| *align > 0));
            }
            all.extend(Some(self.hole.unsigned_abs()).filter(|hole| *hole > 0));
            let offsets = [self.offset, self.offset_increment];
            all.extend(offsets.into_iter().filter_map(|size| match size {
                Size::Bytes(bytes) => Some(bytes).filter(|bytes| *bytes > 0),
                Size::Percent(_) => self.offset_align,
            }));
        }
        all.into_iter()
    }
}
