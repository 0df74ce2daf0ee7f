//! Dataset Management (NVMe 1.4 section 6.7): each range to deallocate is a
//! request.

use stasis_block::{Command, Operation};

use crate::command::{location, SubmissionEntry};
use crate::extent::Extent;
use crate::io::{Io, IoCommand, MAX_REQUESTS};
use crate::registered::{always, CHANGES_CONTENTS, SUPPORTED};
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome};
use crate::{Memory, PAGE_SIZE};

/// Maximum number of ranges of a command.
pub const MAX_RANGES: usize = 256;
/// Size of a range's definition in bytes (section 6.7.1.1).
pub const RANGE: usize = 16;
/// Deallocate, in Dword 11.
pub const DEALLOCATE: u32 = 1 << 2;

const _: () = assert!(MAX_RANGES * RANGE == PAGE_SIZE && MAX_RANGES <= MAX_REQUESTS);

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x09,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 1 << 2,
    counts_as: Some(Operation::Discard),
    during_sanitize: false,
    execute: dataset_management,
};

/// The ranges of a Dataset Management command (NVMe 1.4 section 6.7), as many as it gives, read
/// into `raw`.
pub fn receive_ranges<'a>(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    raw: &'a mut [u8; MAX_RANGES * RANGE],
) -> Result<&'a [u8], Failure> {
    let count = (command.cdw10 & 0xff) as usize + 1;
    let raw = &mut raw[..count * RANGE];
    io.receive(memory, command, raw)?;
    Ok(raw)
}

fn dataset_management(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    io.namespace(command.nsid)?;
    if command.cdw11 & DEALLOCATE == 0 {
        // Only hints about future accesses, which no model uses.
        return Ok(Outcome::Done(0));
    }
    let namespace = io.writable_namespace(command.nsid)?.clone();
    let mut raw = [0; MAX_RANGES * RANGE];
    let raw = receive_ranges(io, memory, command, &mut raw)?;

    let mut ranges = 0;
    for range in raw.chunks_exact(RANGE) {
        let (lba, blocks) = parse_range(range);
        let extent = Extent::new(&namespace, lba, blocks, location::CDW10)?;
        io.namespaces.check_clearing(command.nsid, &extent)?;
        ranges += u32::from(blocks > 0);
    }
    if ranges == 0 {
        return Ok(Outcome::Done(0));
    }
    let id = command.id();
    let group = match ranges {
        1 => None,
        _ => Some(io.slots.insert_group(id, ranges, false)),
    };
    for (part, range) in raw.chunks_exact(RANGE).enumerate() {
        let (lba, blocks) = parse_range(range);
        let extent = Extent::new(&namespace, lba, blocks, location::CDW10)?;
        if extent.length > 0 {
            let owner = match group {
                Some(group) => Owner::Part { group, part: part as u32 },
                None => Owner::Command(id),
            };
            let discard = Command::new(Operation::Discard, extent.offset, extent.length);
            let slot = Slot::new(owner, &discard, command.nsid, lba);
            io.request(command.sq, slot, discard);
        }
    }
    Ok(Outcome::Pending)
}

/// First block and count of blocks of a range.
pub fn parse_range(raw: &[u8]) -> (u64, u64) {
    let dword =
        |i: usize| u64::from(u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]));
    (dword(8) | dword(12) << 32, dword(4))
}
