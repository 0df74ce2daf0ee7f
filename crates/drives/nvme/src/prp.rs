//! Physical Region Pages: where in guest memory a command's data is (NVMe 1.4
//! section 4.3).

use stasis_block::memory::Segment;

use crate::command::{location, SubmissionEntry, PSDT};
use crate::sgl::{self, push};
use crate::status::{Failure, StatusCode};
use crate::{Memory, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;
/// Size of an entry of a PRP list in bytes.
const ENTRY: usize = 8;

/// Appends to `segments` the places of the `length` bytes of `command`, by PRPs or by an SGL.
///
/// Lists are read once, a page at a time into `page`. Every list page but the
/// first holds 511 entries of data or ends the list, so that a chain cannot
/// be longer than `length` makes it.
pub fn walk(
    memory: &dyn Memory,
    command: &SubmissionEntry,
    length: usize,
    page: &mut [u8; PAGE_SIZE],
    segments: &mut Vec<Segment>,
) -> Result<(), Failure> {
    if command.flags & PSDT != 0 {
        return sgl::walk(memory, command, length, page, segments);
    }
    if length == 0 {
        return Ok(());
    }
    // Data begins anywhere in the first page, at a dword.
    if command.prp1 & 3 != 0 {
        return Err(StatusCode::InvalidPrpOffset.at(location::PRP1));
    }
    let first = length.min(PAGE_SIZE - (command.prp1 % PAGE) as usize);
    push(segments, command.prp1, first)?;
    let mut rest = length - first;
    if rest == 0 {
        return Ok(());
    }
    if rest <= PAGE_SIZE {
        if !command.prp2.is_multiple_of(PAGE) {
            return Err(StatusCode::InvalidPrpOffset.at(location::PRP2));
        }
        return push(segments, command.prp2, rest);
    }
    // Only the first list may begin inside a page, at a qword.
    let mut list = command.prp2;
    if !list.is_multiple_of(ENTRY as u64) {
        return Err(StatusCode::InvalidPrpOffset.at(location::PRP2));
    }
    loop {
        let room = (PAGE_SIZE - (list % PAGE) as usize) / ENTRY;
        let pages = rest.div_ceil(PAGE_SIZE);
        // A list page too small for the rest ends in a pointer to the next.
        let chained = pages > room;
        let entries = if chained { room } else { pages };
        let raw = &mut page[..entries * ENTRY];
        memory.read(list, raw)?;
        for (index, entry) in raw.as_chunks::<ENTRY>().0.iter().enumerate() {
            let address = u64::from_le_bytes(*entry);
            if address % PAGE != 0 {
                return Err(StatusCode::InvalidPrpOffset.at(location::PRP2));
            }
            if chained && index == room - 1 {
                list = address;
            } else {
                let part = rest.min(PAGE_SIZE);
                push(segments, address, part)?;
                rest -= part;
            }
        }
        if !chained {
            return Ok(());
        }
    }
}
