//! Blocks in SLC mode: a bit for each block of the array.

use super::SlcTimes;
use crate::faults::Access;
use stasis_block::clock::Nanos;

/// Which blocks hold one bit in each cell, and the times of their pages.
#[derive(Debug)]
pub(super) struct SlcMode {
    times: SlcTimes,
    blocks: Vec<u64>,
}

impl SlcMode {
    /// No block of so many is in SLC mode.
    pub fn new(times: SlcTimes, blocks: u64) -> Self {
        Self { times, blocks: vec![0; blocks.div_ceil(64) as usize] }
    }

    /// A block is used in SLC mode from now on, or is not.
    pub fn set(&mut self, block: u64, slc: bool) {
        let (word, bit) = (&mut self.blocks[(block / 64) as usize], 1 << (block % 64));
        *word = if slc { *word | bit } else { *word & !bit };
    }

    /// Returns whether a block is in SLC mode.
    #[inline]
    pub fn is_set(&self, block: u64) -> bool {
        self.blocks[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// The time of the cells of a block, if it is in SLC mode and the access depends on it: an
    /// erase takes as long in either mode.
    #[inline]
    pub fn time(&self, block: u64, access: Access) -> Option<Nanos> {
        if !self.is_set(block) {
            return None;
        }
        match access {
            Access::Read => Some(self.times.read),
            Access::Program => Some(self.times.program),
            Access::Erase => None,
        }
    }
}
