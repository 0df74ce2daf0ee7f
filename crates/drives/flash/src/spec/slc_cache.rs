//! The SLC cache as experiments describe it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::MICROSECOND;
use stasis_block::units;

use super::timing::Duration;

/// Where the host's writes go while the SLC cache is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// To blocks that are not in SLC mode, until the drive was idle.
    #[default]
    Direct,
    /// Nowhere: they wait until a block of the cache is folded.
    Fold,
}

/// Data that a part of the cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CacheSize {
    /// In bytes.
    Bytes(#[serde(with = "units::size")] u64),
    /// As a share of the drive's capacity, from 0.0 to 1.0.
    Share(f64),
}

impl CacheSize {
    /// No data.
    const NONE: Self = Self::Bytes(0);

    /// In bytes, on a drive of `capacity` bytes.
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    pub(super) fn bytes(self, capacity: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (capacity as f64 * share).round() as u64,
        }
    }
}

/// Blocks whose cells hold one bit each, which the host's writes go to first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlcCacheSpec {
    /// Data that blocks which are always in SLC mode hold.
    #[serde(rename = "static")]
    pub fixed: CacheSize,
    /// Data at most that free blocks hold which are used in SLC mode.
    pub dynamic: CacheSize,
    /// Where the host's writes go while the cache is full.
    pub when_full: WhenFull,
    /// Cells to register, of a page in SLC mode.
    pub read: Duration,
    /// Register to cells, of a page in SLC mode.
    pub program: Duration,
}

impl Default for SlcCacheSpec {
    /// The times are SLC's of Agrawal et al., USENIX ATC 2008, table 1.
    fn default() -> Self {
        Self {
            fixed: CacheSize::NONE,
            dynamic: CacheSize::NONE,
            when_full: WhenFull::default(),
            read: Duration(25 * MICROSECOND),
            program: Duration(200 * MICROSECOND),
        }
    }
}
