//! The health of a drive.

use serde::{Deserialize, Serialize};

/// State of a drive, as SMART logs report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Spare blocks left, in percent of those the drive began with.
    pub available_spare: u8,
    /// Endurance used, in percent; may exceed 100.
    pub percentage_used: u8,
    /// Bytes written to the medium, the drive's own housekeeping included.
    pub media_bytes_written: u64,
    /// Bytes of the medium's blocks that were erased.
    #[serde(default)]
    pub media_bytes_erased: u64,
    /// True if the medium can only be read any more.
    pub read_only: bool,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            available_spare: 100,
            percentage_used: 0,
            media_bytes_written: 0,
            media_bytes_erased: 0,
            read_only: false,
        }
    }
}

impl Health {
    /// Returns the health of two media together: as little spare and as much wear as the worse one.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            available_spare: self.available_spare.min(other.available_spare),
            percentage_used: self.percentage_used.max(other.percentage_used),
            media_bytes_written: self.media_bytes_written.saturating_add(other.media_bytes_written),
            media_bytes_erased: self.media_bytes_erased.saturating_add(other.media_bytes_erased),
            read_only: self.read_only || other.read_only,
        }
    }
}
