//! Conditions of the SLC cache on a description.

use stasis_block::units::format_size;

use super::slc_cache::CacheSize;
use super::{Spec, SpecError};

impl Spec {
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
