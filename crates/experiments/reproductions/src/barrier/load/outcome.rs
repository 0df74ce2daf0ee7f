//! Work done by a workload.

use serde::{Deserialize, Serialize};

/// Work done by a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Operations: filebench's flow operations, or records.
    pub operations: u64,
    /// Calls of fsync or fdatasync.
    pub syncs: u64,
    /// Bytes written.
    pub written: u64,
    /// Time of the whole work (ns).
    pub ns: u64,
}
