//! The SLC cache of a drive of some size in blocks.

use stasis_nand::{SlcTimes, TwoPass};

use super::slc_cache::{CacheSize, WhenFull};
use super::Spec;

/// The SLC cache in blocks and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheShape {
    /// Pages of a block in SLC mode.
    pub pages: u32,
    /// Blocks of each plane that are always in SLC mode: the last.
    pub fixed: u32,
    /// Other blocks of each plane in SLC mode at most.
    pub dynamic: u32,
    /// Free blocks of a plane down to which others are put into SLC mode.
    pub keep: u32,
    /// Streams, the first ones, whose data goes to it.
    pub streams: u32,
    /// Destination of the host's writes while it is full.
    pub when_full: WhenFull,
}

impl CacheShape {
    /// Blocks of each plane, beside those that are always in SLC mode, that it may hold open.
    pub fn open(&self) -> u32 {
        if self.dynamic > 0 {
            self.streams
        } else {
            0
        }
    }
}

impl Spec {
    /// The SLC cache of a drive of `capacity` bytes whose blocks have so many pages.
    pub(crate) fn cache_shape(&self, capacity: u64, pages: u32) -> Option<CacheShape> {
        let cache = self.slc_cache?;
        let slc_pages = (pages / self.bits(pages).unwrap_or(1).max(1)).max(1);
        let round = self.block_bytes(slc_pages).saturating_mul(self.total_planes()).max(1);
        let blocks = |size: CacheSize| {
            u32::try_from(size.bytes(capacity).div_ceil(round)).unwrap_or(u32::MAX)
        };
        Some(CacheShape {
            pages: slc_pages,
            fixed: blocks(cache.fixed),
            dynamic: blocks(cache.dynamic),
            keep: self.gc.foreground,
            streams: self.open_streams(),
            when_full: cache.when_full,
        })
    }

    /// Blocks of each plane that the SLC cache needs beside those of the data: those that are
    /// always in SLC mode, and of the others those that are open.
    pub(crate) fn cache_blocks(&self, capacity: u64, pages: u32) -> (u32, u32) {
        self.cache_shape(capacity, pages).map_or((0, 0), |cache| (cache.fixed, cache.open()))
    }

    /// The passes as an array of blocks of so many pages has them.
    pub(crate) fn array_two_pass(&self, pages: u32) -> Option<TwoPass> {
        let passes = self.two_pass?;
        let (coarse, fine) = (passes.coarse, passes.fine);
        Some(TwoPass { pages: self.line_pages(pages), coarse, fine })
    }

    /// Times of pages in SLC mode, if any are.
    pub(crate) fn slc_times(&self) -> Option<SlcTimes> {
        self.slc_cache.map(|cache| SlcTimes { read: cache.read.0, program: cache.program.0 })
    }
}
