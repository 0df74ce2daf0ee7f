//! Dataset Management (NVMe 1.4 section 6.7): each range to deallocate is a
//! request.

use stasis_block::{Command, Operation};
use stasis_nvme_layout::ranges::DatasetRange;
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, SubmissionEntry};
use crate::extent::Extent;
use crate::io::{Io, IoCommand, MAX_REQUESTS};
use crate::registered::{always, CHANGES_CONTENTS, SUPPORTED};
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome};
use crate::{Memory, PAGE_SIZE};

/// Maximum number of ranges of a command.
pub const MAX_RANGES: usize = 256;
/// Deallocate, in Dword 11.
pub const DEALLOCATE: u32 = 1 << 2;

const _: () = assert!(MAX_RANGES * size_of::<DatasetRange>() == PAGE_SIZE);
const _: () = assert!(MAX_RANGES <= MAX_REQUESTS);

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
/// into `ranges`.
pub fn receive_ranges<'a>(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    ranges: &'a mut [DatasetRange; MAX_RANGES],
) -> Result<&'a [DatasetRange], Failure> {
    let count = (command.cdw10 & 0xff) as usize + 1;
    let ranges = &mut ranges[..count];
    io.receive(memory, command, ranges.as_mut_bytes())?;
    Ok(ranges)
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
    let mut ranges = [DatasetRange::default(); MAX_RANGES];
    let ranges = receive_ranges(io, memory, command, &mut ranges)?;

    let mut count = 0;
    for range in ranges {
        let (lba, blocks) = (range.slba.get(), range.nlb.get());
        let extent = Extent::new(&namespace, lba, blocks.into(), location::CDW10)?;
        io.namespaces.check_clearing(command.nsid, &extent)?;
        count += usize::from(blocks > 0);
    }
    if count == 0 {
        return Ok(Outcome::Done(0));
    }
    let id = command.id();
    let group = match count {
        1 => None,
        _ => Some(io.commands.slots.insert_group(id, count, false)),
    };
    for (part, range) in (0..).zip(ranges) {
        let lba = range.slba.get();
        let extent = Extent::new(&namespace, lba, range.nlb.get().into(), location::CDW10)?;
        if extent.length > 0 {
            let owner = match group {
                Some(group) => Owner::Part { group, part },
                None => Owner::Command(id),
            };
            let discard = Command::new(Operation::Discard, extent.offset, extent.length);
            let slot = Slot::new(owner, &discard, command.nsid, lba);
            io.request(command.sq, slot, discard);
        }
    }
    Ok(Outcome::Pending)
}
