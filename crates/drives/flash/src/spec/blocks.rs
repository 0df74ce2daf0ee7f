//! Blocks and planes as a description has them, whatever the drive's size.

use stasis_nand::CellPattern;

use super::Spec;
use crate::narrow::count;

/// Word lines of a block, of which a collection fills up one.
pub(super) const MIN_LINES: u32 = 4;

impl Spec {
    /// Bits of a cell: as many as the pattern has page types, if it is one.
    pub(super) fn bits(&self, pages: u32) -> Option<u32> {
        Some(count(CellPattern::parse(&self.cells, pages).ok()?.letters().len()))
    }

    /// Pages of a word line whose passes are modelled; 1 where each page is programmed by itself.
    pub(crate) fn line_pages(&self, pages: u32) -> u32 {
        match self.two_pass {
            Some(_) => self.bits(pages).unwrap_or(1).max(1),
            None => 1,
        }
    }

    /// Pages that a block has at least; `pages`: those that it is to have.
    pub(super) fn least_pages(&self, pages: u32) -> u32 {
        match self.two_pass {
            Some(_) => MIN_LINES * self.line_pages(pages),
            None => 1,
        }
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self, pages: u32) -> u64 {
        u64::from(pages).saturating_mul(self.page_size).max(1)
    }

    /// Planes of the array.
    pub(super) fn total_planes(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.luns) * u64::from(self.planes)
    }
}
