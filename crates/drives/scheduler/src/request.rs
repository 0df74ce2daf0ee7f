//! A request as a scheduler sees it, and its cost.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Tag};

use crate::Priority;

/// Bytes in a sector, the unit of budgets (as in block layers everywhere, independent of the
/// drive's own).
pub const SECTOR: u64 = 512;

/// Names a queue of one scheduler; the scheduler gives it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);

/// A request on its way to the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedRequest {
    /// The caller's name for it: unique among those waiting and in flight.
    pub tag: Tag,
    /// Requested command.
    pub command: Command,
    /// True if the owner waits for it before it continues: reads, and writes that are synchronized.
    pub sync: bool,
    /// True if its owner's own scheduler prefers it to the owner's others: `bfq` does so as well.
    pub urgent: bool,
    /// The priority it came with, if any: its queue's from then on.
    pub priority: Option<Priority>,
    /// Wait for the queue's limit (ns).
    pub limited: Nanos,
}

impl QueuedRequest {
    /// A request with its command's priority: synchronous if it reads, flushes,
    /// or must be durable at once.
    pub fn new(tag: Tag, command: Command) -> Self {
        let priority = Priority::from_ioprio(command.priority.into());
        let awaited = reads(&command) || command.fua || command.operation == Operation::Flush;
        Self { tag, command, sync: awaited, urgent: false, priority, limited: 0 }
    }
}

/// Returns whether a command reads.
pub(crate) fn reads(command: &Command) -> bool {
    matches!(command.operation, Operation::Read | Operation::Verify)
}

/// Cost of a command in sectors: the sectors that it moves, and at least 1. A flush, a barrier and
/// a discard move nothing.
pub fn sectors(command: &Command) -> u64 {
    match command.operation {
        Operation::Flush | Operation::Barrier | Operation::Discard => 1,
        _ => command.length.div_ceil(SECTOR).max(1),
    }
}
