//! A store as it outlives its controller: pairs, the ends of the log, and the index's pages.

use serde::{Deserialize, Serialize};

/// A store while nothing of it is in memory. Copies that were under way are lost, and their room with
/// them until it is collected; pairs lie where they were.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptPairs {
    /// Each pair in the order of keys: the key in hexadecimal, the first byte of its value, and the
    /// length.
    pub pairs: Vec<(String, u64, u32)>,
    /// Free segments, the one first that has been so for the longest.
    pub free: Vec<u32>,
    /// The open segment of each writer, hosts and collection, and how much of it is written (bytes).
    pub open: [Option<(u32, u64)>; 2],
    /// Pages of the index that lie in the log: their numbers and first bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<(u32, u64)>,
    /// Pages that memory holds, the one last that was asked for last, and whether the log has another
    /// content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cached: Vec<(u32, bool)>,
}
