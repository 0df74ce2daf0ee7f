//! Scrubbing as experiments describe it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, SECOND};
use stasis_block::units;

/// Visits of blocks, and what moves their data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScrubSpec {
    /// Each block is visited once in this time (ns).
    #[serde(with = "units::duration")]
    pub period: Nanos,
    /// Data of this age is moved (ns); of any age if not given.
    #[serde(with = "units::duration_option", skip_serializing_if = "Option::is_none")]
    pub age: Option<Nanos>,
    /// A page of each block that is visited is read, and the block's data is moved where this step
    /// of `ecc` or a later one is needed, the first being 1; nothing is read if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u8>,
}

impl Default for ScrubSpec {
    fn default() -> Self {
        Self { period: 24 * 3_600 * SECOND, age: None, step: None }
    }
}
