//! The read cache as experiments describe it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::{units, Rate};

/// The entry that leaves a full cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one that was read least recently.
    #[default]
    Lru,
    /// The one that came first.
    Fifo,
    /// Any, by the seed.
    Random,
}

/// The effect of a write on the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachedWrites {
    /// The units that it covers leave.
    #[default]
    Invalidate,
    /// The units that it covers whole are there afterwards, and those that it covers in part leave.
    Update,
}

/// Memory of the controller that keeps what the host reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadCacheSpec {
    /// Data that it holds (bytes).
    #[serde(with = "units::size")]
    pub size: u64,
    /// The entry that leaves a full cache.
    #[serde(default)]
    pub replacement: Replacement,
    /// The effect of a write.
    #[serde(default)]
    pub writes: CachedWrites,
    /// The rate at which data leaves it, one read after another; not a limit if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Data that is kept ahead of sequential reads; 0 for none (bytes).
    #[serde(default, with = "units::size")]
    pub read_ahead: u64,
}

impl ReadCacheSpec {
    /// Makes a cache of a size (bytes), with the defaults.
    pub fn of(size: u64) -> Self {
        let (replacement, writes) = (Replacement::default(), CachedWrites::default());
        Self { size, replacement, writes, rate: None, read_ahead: 0 }
    }
}
