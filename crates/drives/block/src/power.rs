//! Acknowledged data that a power cut can take from a drive, as the drive's model describes it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::format_size;

/// Unit that a drive always writes as a whole or not at all (bytes): the smallest logical block of
/// NVMe (NVM Command Set 1.0, LBA data size of at least 9) and of ATA.
pub const SECTOR: u64 = 512;

/// Place where a drive keeps acknowledged writes that are not on its medium yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// In a volatile cache of which no size is known: everything acknowledged since the last flush
    /// can be lost. The default of models.
    #[default]
    Unbounded,
    /// In a volatile cache of this many bytes: no more data can be lost.
    Volatile(u64),
    /// In a cache that survives a power cut (power-loss protection).
    Protected,
    /// There is no cache: acknowledged data is on the medium.
    None,
}

/// Acknowledged data that a power cut can take from a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PowerLoss {
    /// Place where acknowledged writes wait for the medium.
    pub cache: CacheKind,
    /// Unit that is written as a whole or not at all (bytes): a torn write is torn at a boundary of
    /// units, counted from the drive's first byte. A multiple of [`SECTOR`].
    pub atomic_unit: u64,
}

impl Default for PowerLoss {
    fn default() -> Self {
        Self::new(CacheKind::Unbounded, SECTOR)
    }
}

impl PowerLoss {
    /// A drive with this cache and this atomic unit, which is rounded down to
    /// whole sectors; at least one.
    pub fn new(cache: CacheKind, atomic_unit: u64) -> Self {
        Self { cache, atomic_unit: (atomic_unit / SECTOR).max(1) * SECTOR }
    }

    /// Adapts the atomic unit to a drive with logical blocks of `block` bytes: a block is never
    /// torn. With the field AWUPF of Identify at 0, as here, one block is written as a whole or not
    /// at all (NVM Command Set 1.0, 2.1.4.1); users of a virtio drive expect the same.
    #[must_use]
    pub fn for_blocks(self, block: u64) -> Self {
        // A multiple of both, so that what lies within a unit of smaller blocks does so still.
        let whole = (1..=block.max(SECTOR) / SECTOR).map(|times| times * self.atomic_unit);
        let unit = whole.into_iter().find(|unit| unit.is_multiple_of(block.max(SECTOR)));
        Self::new(self.cache, unit.unwrap_or(self.atomic_unit))
    }

    /// Maximum of acknowledged data that can be lost (bytes); `None` where nothing bounds it.
    pub fn limit(&self) -> Option<u64> {
        match self.cache {
            CacheKind::Unbounded => None,
            CacheKind::Volatile(size) => Some(size),
            CacheKind::Protected | CacheKind::None => Some(0),
        }
    }

    /// Returns whether acknowledged data is safe without a flush.
    pub fn keeps_acknowledged(&self) -> bool {
        matches!(self.cache, CacheKind::Protected | CacheKind::None)
    }
}

impl fmt::Display for PowerLoss {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.cache {
            CacheKind::Unbounded => write!(f, "a volatile write cache without a limit")?,
            CacheKind::Volatile(size) => {
                write!(f, "a volatile write cache of {}", format_size(size))?;
            }
            CacheKind::Protected => write!(f, "a write cache with power-loss protection")?,
            CacheKind::None => write!(f, "no write cache")?,
        }
        write!(f, ", atomic unit {}", format_size(self.atomic_unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_says_nothing_can_lose_everything() {
        let silent = PowerLoss::default();
        assert_eq!((silent.limit(), silent.atomic_unit), (None, SECTOR));
        assert!(!silent.keeps_acknowledged());
        assert_eq!(PowerLoss::new(CacheKind::Protected, 0).atomic_unit, SECTOR);
        assert_eq!(PowerLoss::new(CacheKind::Volatile(7), 5000).atomic_unit, 4608);
        let unit =
            |unit, block| PowerLoss::new(CacheKind::None, unit).for_blocks(block).atomic_unit;
        assert_eq!([unit(512, 512), unit(512, 4096), unit(16384, 4096)], [512, 4096, 16384]);
        assert_eq!([unit(4608, 4096), unit(4096, 512)], [36864, 4096]);
        let text = PowerLoss::new(CacheKind::Volatile(8 << 20), 4096).to_string();
        assert_eq!(text, "a volatile write cache of 8MiB, atomic unit 4KiB");
    }
}
