//! Conditions of the read cache on a description.

use stasis_block::units::format_size;

use super::{Spec, SpecError};

impl Spec {
    /// Whether a drive of `capacity` bytes can have such a cache.
    pub(super) fn check_read_cache(&self, capacity: u64) -> Result<(), SpecError> {
        let Some(cache) = &self.read_cache else { return Ok(()) };
        let (least, most) = (self.mapping_unit, capacity.max(self.mapping_unit));
        if !(least..=most).contains(&cache.size) {
            let reason = format!(
                "it holds a mapping unit at least, and no more than the drive: {} to {}",
                format_size(least),
                format_size(most)
            );
            let nearest = format_size(cache.size.clamp(least, most));
            return Err(SpecError::value(
                "read_cache.size",
                format_size(cache.size),
                reason,
                nearest,
            ));
        }
        if cache.read_ahead > cache.size / 2 {
            let reason =
                "data that is read ahead would replace itself: it is half of the cache at most";
            let (value, nearest) = (format_size(cache.read_ahead), format_size(cache.size / 2));
            return Err(SpecError::value("read_cache.read_ahead", value, reason, nearest));
        }
        Ok(())
    }
}
