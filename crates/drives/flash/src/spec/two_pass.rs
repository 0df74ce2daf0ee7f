//! Word lines that are programmed in two passes, in a description.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;

/// Passes in which the cells of a word line are programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwoPassSpec {
    /// The coarse pass of a word line (ns).
    #[serde(with = "units::duration")]
    pub coarse: Nanos,
    /// The fine pass, behind the transfer of its data (ns).
    #[serde(with = "units::duration")]
    pub fine: Nanos,
}
