//! Levels of isolation.

/// The promises to transactions, from the least on. Each level has what those before promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Writes are in one order (G0).
    ReadUncommitted,
    /// Reads are of what was committed, in its last state (G1a, G1b, G1c).
    ReadCommitted,
    /// Reads are of one moment (internal, G-single, G-nonadjacent).
    Snapshot,
    /// Transactions happen as if one after another (G2).
    Serializable,
    /// So they do, each between its beginning and its end (the cycles with `-realtime`).
    StrictSerializable,
}
