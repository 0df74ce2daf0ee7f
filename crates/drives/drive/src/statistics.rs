//! Counters of a drive.

use stasis_block::{Operation, Status};

/// Commands of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counter {
    /// Completed commands, failed ones included.
    pub count: u64,
    /// Bytes that successful commands covered.
    pub bytes: u64,
    /// Failed commands.
    pub failed: u64,
}

/// Counters of a drive so far, by operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    counters: [Counter; Operation::ALL.len()],
}

impl Statistics {
    /// The completed commands of `operation`.
    pub fn of(&self, operation: Operation) -> Counter {
        self.counters[operation as usize]
    }

    /// The completed commands of all operations.
    pub fn completed(&self) -> u64 {
        self.counters.iter().map(|counter| counter.count).sum()
    }

    /// Counts a command that has completed.
    pub fn add(&mut self, operation: Operation, length: u64, status: Status) {
        let counter = &mut self.counters[operation as usize];
        counter.count += 1;
        match status {
            Status::Ok => counter.bytes += length,
            Status::ReadError | Status::WriteError => counter.failed += 1,
        }
    }
}
