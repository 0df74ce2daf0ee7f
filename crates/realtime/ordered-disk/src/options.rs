//! Options for a disk's treatment of writes.

use stasis_block::clock::{Nanos, MILLISECOND};

use crate::Durability;

/// Options for a disk's treatment of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Condition for the end of a guest's flush.
    pub durability: Durability,
    /// With [`Durability::Ordered`]: the flushes that a crash can undo ended
    /// within this time (ns).
    pub max_lag: Nanos,
    /// Limit on the data that is written and not durable (bytes); the limit is also at most half of
    /// the log.
    pub max_lag_bytes: u64,
    /// Size of the log where none is there yet (bytes, a multiple of 4096).
    pub log_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Ordered,
            max_lag: 50 * MILLISECOND,
            max_lag_bytes: 64 << 20,
            log_bytes: 256 << 20,
        }
    }
}
