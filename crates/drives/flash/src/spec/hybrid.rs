//! Conditions of log blocks on a description.

use stasis_block::units::format_size;

use super::geometry::LOG_WORKING;
use super::{Spec, SpecError};

/// Maximum number of log blocks of a plane: each write searches them.
const MAX_LOGS: u32 = 1024;

impl Spec {
    /// Returns whether a drive of `capacity` bytes can have such log blocks.
    pub(super) fn check_hybrid(&self, capacity: u64) -> Result<(), SpecError> {
        let Some(working) = self.hybrid_blocks() else { return Ok(()) };
        if self.mapping_unit != self.page_size {
            let (value, nearest) = (format_size(self.mapping_unit), format_size(self.page_size));
            let reason = "`hybrid` maps whole pages of `page_size`";
            return Err(SpecError::value("mapping_unit", value, reason, nearest));
        }
        let logs = self.log_blocks;
        if !(1..=MAX_LOGS).contains(&logs) {
            let reason = format!("it is 1 to {MAX_LOGS}");
            return Err(SpecError::value("log_blocks", logs, reason, logs.clamp(1, MAX_LOGS)));
        }
        let geometry = self.geometry(capacity);
        let (blocks, least) = (geometry.blocks, self.least_blocks(capacity, geometry.pages));
        // With fewer than one the blocks are too few.
        let data = u64::from(least) - working.min(u64::from(least));
        let most = u64::from(blocks).saturating_sub(data + u64::from(LOG_WORKING));
        if blocks < least && most > 0 {
            let reason = format!(
                "of the {blocks} blocks of a plane, {data} are for data and {LOG_WORKING} to work with"
            );
            return Err(SpecError::value("log_blocks", logs, reason, most));
        }
        Ok(())
    }
}
