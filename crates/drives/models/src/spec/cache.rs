//! The volatile write cache of drives in closed form, as tables describe it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Rate};

use crate::span::Span;
use crate::spec::Problem;

/// The key `cache` of drives in closed form: acknowledged writes wait there for
/// the medium, and are lost without power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Bytes that the cache holds.
    #[serde(with = "units::size")]
    pub size: u64,
    /// The rate at which the cache is written out to the medium.
    pub drain: Rate,
    /// Time of a write with FUA besides that of being written out; 0 if not given.
    #[serde(default)]
    pub fua: Span,
    /// True if a flush is a command among others, as in NVMe; yes if not given. In ATA a flush
    /// waits for all commands under way, and later ones wait for the flush.
    #[serde(default = "yes")]
    pub queued_flush: bool,
    /// Time of a barrier (ns); no barrier if not given.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::duration_option")]
    pub barrier: Option<Nanos>,
}

fn yes() -> bool {
    true
}

/// Returns whether a key is `false`, and so left out.
pub(crate) fn is_false(plp: &bool) -> bool {
    !plp
}

/// A volatile cache is not protected, and no drive serves nothing at a time.
pub(crate) fn check_protection(
    plp: bool,
    cache: Option<&CacheSpec>,
    parallelism: Option<u32>,
) -> Result<(), Problem> {
    if plp && cache.is_some() {
        let problem = "`cache` is a volatile write cache, which a power cut empties: leave one of \
                       `plp` and `cache` out";
        return Err(Problem::value("plp", problem));
    }
    if parallelism == Some(0) {
        return Err(Problem::value("parallelism", "must be at least 1"));
    }
    Ok(())
}
