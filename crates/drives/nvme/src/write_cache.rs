//! Tracking of whether the drive's volatile write cache can hold data.

use stasis_block::{Command, Operation};

use crate::slots::{Covers, Slot, Slots};

/// Counts of unforced writes, and of those that flushes have made durable.
#[derive(Debug, Default)]
pub struct WriteCache {
    /// Writes that were not forced.
    written: u64,
    /// Number of those, from the first on, that are durable.
    durable: u64,
}

/// Returns whether a command leaves data in a volatile cache.
fn is_cached(command: &Command) -> bool {
    use Operation::{Copy, Write, WriteZeroes};
    !command.fua && matches!(command.operation, Copy | Write | WriteZeroes)
}

impl WriteCache {
    /// A request goes to the drive. Of a flush, how many writes it covers; the rest leaves data
    /// in the cache or not.
    pub fn sent(&mut self, command: &Command, slots: &Slots) -> Covers {
        match command.operation {
            // A write in flight may be in the cache only later.
            Operation::Flush if slots.any(|slot| slot.covers == Covers::Cached) => Covers::Nothing,
            Operation::Flush => Covers::Writes(self.written),
            _ if is_cached(command) => {
                self.written += 1;
                Covers::Cached
            }
            _ => Covers::Nothing,
        }
    }

    /// The drive has done a request.
    pub fn done(&mut self, slot: &Slot) {
        if let Covers::Writes(writes) = slot.covers {
            self.durable = self.durable.max(writes);
        }
    }

    /// Returns whether nothing is in it, so that a flush has no effect.
    pub fn is_clean(&self) -> bool {
        self.durable == self.written
    }
}
