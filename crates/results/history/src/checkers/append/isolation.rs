//! Levels of isolation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The promises to transactions, from the least on. Each level has what those before promise.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Writes are in one order (G0).
    ReadUncommitted,
    /// Reads are of what was committed, in its last state (G1a, G1b, G1c).
    ReadCommitted,
    /// Reads are of one moment (internal, G-single, G-nonadjacent).
    Snapshot,
    /// Transactions happen as if one after another (G2).
    #[default]
    Serializable,
    /// So they do, each between its beginning and its end (the cycles with `-realtime`).
    StrictSerializable,
}
