//! What a drive did, in numbers that results keep.

use stasis_clock::Nanos;

use crate::ftl::Request;
use crate::nand::{Array, Breakdown, Op, OpKind};

/// Kinds of operation, as [`OpKind`] counts them.
const KINDS: usize = 4;
/// On whose behalf.
const PRIORITIES: usize = 3;

/// What a drive counts while it works.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    ops: [[u64; PRIORITIES]; KINDS],
    /// Units that the host wrote.
    pub host_units: u64,
    /// Units that were programmed for the host.
    pub programmed_units: u64,
    /// Units that housekeeping moved.
    pub moved_units: u64,
    /// Blocks that were collected.
    pub collections: u64,
}

impl Statistics {
    pub(crate) fn count(&mut self, op: &Op) {
        self.ops[op.kind as usize][op.priority as usize] += 1;
    }

    /// A request of the host's is complete after `latency`, of which its last
    /// operation took `times`.
    pub(crate) fn complete(&mut self, request: &Request, latency: Nanos, times: &Breakdown) {
        let _ = (request, latency, times);
    }

    /// A block was emptied, which took so long.
    pub(crate) fn collected(&mut self, _took: Nanos) {
        self.collections += 1;
    }

    /// Everything until `now`, for results.
    pub fn report(&self, _now: Nanos, _array: &Array) -> serde_json::Value {
        serde_json::json!({
            "write_amplification": self.write_amplification(),
            "collections": self.collections,
            "moved_units": self.moved_units,
        })
    }

    /// Operations of a kind.
    pub fn ops(&self, kind: OpKind) -> u64 {
        self.ops[kind as usize].iter().sum()
    }

    /// Units programmed for each unit that was programmed for the host.
    pub fn write_amplification(&self) -> f64 {
        if self.programmed_units == 0 {
            return 1.0;
        }
        (self.programmed_units + self.moved_units) as f64 / self.programmed_units as f64
    }
}
