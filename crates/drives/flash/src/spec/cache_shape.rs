//! The SLC cache of a drive of some size in blocks, and its conditions on a description.

use crate::narrow::count;
use stasis_block::units::format_size;
use stasis_nand::{CellPattern, SlcTimes, TwoPass};

use super::slc_cache::{CacheSize, WhenFull};
use super::{Spec, SpecError};

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
    /// Bits of a cell: as many as the pattern has page types, if it is one.
    pub(super) fn bits(&self, pages: u32) -> Option<u32> {
        Some(count(CellPattern::parse(&self.cells, pages).ok()?.letters().len()))
    }

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

    /// Returns whether a drive of `capacity` bytes can have such a cache.
    pub(super) fn check_slc_cache(&self, capacity: u64) -> Result<(), SpecError> {
        let Some(cache) = self.slc_cache else { return Ok(()) };
        if !matches!(self.ftl.as_str(), "page" | "dftl") {
            let reason = "`slc_cache` is part of page mapping (`page`, `dftl`)";
            let value = format!("\"{}\"", self.ftl);
            return Err(SpecError::value("ftl", value, reason, "\"page\""));
        }
        let pages = self.pages(capacity);
        // A word that is no pattern is refused by itself.
        let bits = self.bits(pages).unwrap_or(2);
        if bits < 2 {
            let reason = "the cells of a drive with `slc_cache` hold two bits or more";
            let value = format!("\"{}\"", self.cells);
            return Err(SpecError::value("cells", value, reason, "\"tlc\""));
        }
        if bits > pages {
            let reason = "a block in SLC mode has a page at least";
            return Err(SpecError::value("pages", pages, reason, bits));
        }
        for (key, size) in [("slc_cache.static", cache.fixed), ("slc_cache.dynamic", cache.dynamic)]
        {
            if let CacheSize::Share(share) = size {
                if !(0.0..=1.0).contains(&share) {
                    let reason = "it is a share of the capacity, from 0.0 to 1.0, or a size";
                    let nearest = if share > 1.0 { "1.0" } else { "0.0" };
                    return Err(SpecError::value(key, share, reason, nearest));
                }
            }
            let bytes = size.bytes(capacity);
            if bytes > capacity {
                let reason = "the cache is no larger than the drive";
                let (value, nearest) = (format_size(bytes), format_size(capacity));
                return Err(SpecError::value(key, value, reason, nearest));
            }
        }
        if cache.fixed.bytes(capacity) == 0 && cache.dynamic.bytes(capacity) == 0 {
            let reason = "the cache has no size; give `static`, `dynamic` or both";
            return Err(SpecError::value("slc_cache.dynamic", "0B", reason, "0.05"));
        }
        Ok(())
    }
}
