//! A volatile write cache as tables describe it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units;
use stasis_clock::Nanos;

use crate::random::Span;
use crate::rate::Rate;

/// The key `cache` of drives in closed form: acknowledged writes wait there for
/// the medium, and are lost without power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Bytes that it holds.
    #[serde(with = "units::size")]
    pub size: u64,
    /// What the medium takes.
    pub drain: Rate,
    /// What a write with FUA takes besides being written out; 0 if not given.
    #[serde(default)]
    pub fua: Span,
    /// Whether a flush is a command among others, as in NVMe; yes if not given.
    /// In ATA it waits for all that are under way, and the next wait for it.
    #[serde(default = "yes")]
    pub queued_flush: bool,
    /// What a barrier costs (ns), where the drive offers one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::duration_option")]
    pub barrier: Option<Nanos>,
}

fn yes() -> bool {
    true
}
