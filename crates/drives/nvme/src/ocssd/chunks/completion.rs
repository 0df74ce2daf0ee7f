//! Effects of a request's end on chunks, and how the host is notified.

use stasis_block::{Operation, Status};

use crate::narrow::size;
use crate::slots::Slot;
use crate::status::StatusCode;

use super::notifications::About;
use super::set::ChunkSet;

/// Ends a request that the drive has done, or failed, on a namespace whose sectors have `block`
/// bytes. Unreadable sectors become zeroes. Returns the loss, and its first address.
pub fn leave(
    set: &mut ChunkSet,
    block: u64,
    slot: &Slot,
    status: Status,
    data: &mut [u8],
) -> Option<(u64, About)> {
    // A request lies in one chunk.
    let (chunk, sector) = set.of_linear(slot.offset / block);
    let lba = set.start(chunk) + u64::from(sector);
    let about = match slot.operation {
        Operation::Read => {
            let readable = set.readable(chunk).saturating_sub(sector) as usize;
            let valid = readable.saturating_mul(size(block)).min(data.len());
            data[valid..].fill(0);
            About::Sectors(u32::try_from(slot.length / block).unwrap_or(u32::MAX))
        }
        _ if status == Status::Ok => return None,
        Operation::Write | Operation::WriteZeroes | Operation::Copy => {
            set.close_early(chunk, sector);
            About::Chunk
        }
        Operation::Discard => {
            set.take_offline(chunk);
            About::Chunk
        }
        _ => return None,
    };
    (status != Status::Ok).then_some((lba, about))
}

/// Returns the failure of a request of a namespace with chunks that the drive could not write.
pub fn write_failure(operation: Operation) -> StatusCode {
    match operation {
        Operation::Write | Operation::WriteZeroes | Operation::Copy => StatusCode::ChunkEarlyClose,
        Operation::Discard => StatusCode::OfflineChunk,
        _ => StatusCode::WriteFault,
    }
}
