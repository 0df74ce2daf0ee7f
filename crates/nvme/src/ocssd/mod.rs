//! Open-Channel namespaces, whose host places its data itself, by the
//! "Open-Channel Solid State Drives Specification, revision 2.0" of
//! 2018-01-29, cited as "OCSSD 2.0" with the section.
//!
//! [`set`] knows the chunks' states; the rest is the way of commands to it.
//! As with zones, state changes when a command is executed. Requests go to the
//! drive at linear addresses: chunk after chunk, unit after unit, group after
//! group.

mod config;
mod report;
mod scalar;
mod set;
mod transfer;
mod vector;

pub use config::{Ocssd, OcssdError};
pub use report::{Notifications, GEOMETRY};
pub use scalar::{DATASET_MANAGEMENT, READ, WRITE};
pub use set::ChunkSet;
pub use vector::{VECTOR_COPY, VECTOR_READ, VECTOR_RESET, VECTOR_WRITE};

use stasis_block::{Operation, Status};

use crate::command::{location, SubmissionEntry};
use crate::config::Config;
use crate::controller::Controller;
use crate::slots::Slot;
use crate::status::{Failure, StatusCode};
use crate::Memory;

use report::About;

/// Whether commands are announced: where there are Open-Channel namespaces, whose
/// command set is that of others.
fn has_chunks(config: &Config, set: u8) -> bool {
    set == 0 && config.has_chunks()
}

impl Controller {
    /// The chunks of a namespace that has some.
    pub(crate) fn chunks(&self, nsid: u32) -> Option<&ChunkSet> {
        self.namespaces.chunks(nsid)
    }

    fn chunks_mut(&mut self, nsid: u32) -> Option<&mut ChunkSet> {
        self.namespaces.chunks_mut(nsid)
    }

    fn chunks_of(&self, command: &SubmissionEntry) -> Result<&ChunkSet, Failure> {
        self.chunks(command.nsid).ok_or(StatusCode::InvalidOpcode.at(location::OPCODE))
    }

    /// The drive has done a request of an Open-Channel namespace, or failed.
    /// What cannot be read is zeroes.
    pub(crate) fn leave_chunks(
        &mut self,
        memory: &dyn Memory,
        slot: &Slot,
        status: Status,
        data: &mut [u8],
    ) {
        let Some(namespace) = self.config.namespace(slot.nsid) else { return };
        let block = u64::from(namespace.block_size);
        let Some(set) = self.chunks_mut(slot.nsid) else { return };
        // A request lies in one chunk.
        let (chunk, sector) = set.of_linear(slot.offset / block);
        let lba = set.start(chunk) + u64::from(sector);
        let about = match slot.operation {
            Operation::Read => {
                let readable = set.readable(chunk).saturating_sub(sector) as usize;
                let valid = readable.saturating_mul(block as usize).min(data.len());
                data[valid..].fill(0);
                About::Sectors((slot.length / block) as u32)
            }
            _ if status == Status::Ok => return,
            Operation::Write | Operation::WriteZeroes | Operation::Copy => {
                set.close_early(chunk, sector);
                About::Chunk
            }
            Operation::Discard => {
                set.take_offline(chunk);
                About::Chunk
            }
            _ => return,
        };
        if status != Status::Ok {
            self.chunk_notifications.add(slot.nsid, lba, about);
            self.notice_chunks_changed(memory, slot.nsid);
        }
    }

    /// How a request that the drive could not write has failed.
    pub(crate) fn write_failure(&self, slot: &Slot) -> StatusCode {
        match slot.operation {
            _ if self.chunks(slot.nsid).is_none() => StatusCode::WriteFault,
            Operation::Write | Operation::WriteZeroes | Operation::Copy => {
                StatusCode::ChunkEarlyClose
            }
            Operation::Discard => StatusCode::OfflineChunk,
            _ => StatusCode::WriteFault,
        }
    }
}
