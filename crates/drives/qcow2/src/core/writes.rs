//! Writes of tables to the drive below, their order, and the ranges that are free after them.

use std::io;

use stasis_block::{Command, Operation};

use super::{finish, Core};
use crate::host::HostIo;
use crate::tables::Write;
use crate::Durability;

impl Core {
    /// Submits a write of tables.
    pub(crate) fn submit(&self, write: Write) -> HostIo {
        let length = write.data.len() as u64;
        self.shared.lock().counters.table_write_bytes += length;
        self.shared.io(Command::new(Operation::Write, write.offset, length), write.data)
    }

    /// Order between groups, as the image's way has it.
    pub(crate) async fn separate(&self) -> io::Result<Option<HostIo>> {
        if self.flushes_for_order() {
            self.shared.io(Command::flush(), Vec::new()).await?;
            return Ok(None);
        }
        Ok(Some(self.shared.io(Command::barrier(), Vec::new())))
    }

    /// Returns whether order takes a flush.
    pub(crate) fn flushes_for_order(&self) -> bool {
        self.settings.durability == Durability::Flush || !self.barriers
    }

    /// Gives back freed ranges.
    pub(crate) async fn discard(&self, freed: Vec<(u64, u64)>) {
        let cluster = self.shared.lock().disk.tables.size() as u64;
        let mut discards = Vec::new();
        for (offset, length) in freed {
            let start = offset.next_multiple_of(cluster);
            let end = (offset + length) / cluster * cluster;
            let mut at = start;
            while at < end {
                let from = at;
                {
                    let tables = &self.shared.lock().disk.tables;
                    while at < end && tables.is_free(at / cluster) {
                        at += cluster;
                    }
                }
                if at > from {
                    let command = Command::new(Operation::Discard, from, at - from);
                    discards.push(self.shared.io(command, Vec::new()));
                } else {
                    at += cluster;
                }
            }
        }
        // A drive may ignore the advice.
        let _ = finish(discards).await;
    }
}
