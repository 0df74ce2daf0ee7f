//! Write Zeroes (NVMe 1.4 section 6.17).

use stasis_block::{Command, Operation};

use crate::command::SubmissionEntry;
use crate::extent::Extent;
use crate::io::{Io, IoCommand};
use crate::narrow::size;
use crate::protection::{Passage, Use};
use crate::registered::{always, CHANGES_CONTENTS, SUPPORTED};
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome};
use crate::Memory;

/// Deallocate (DEAC), in Dword 12.
const DEALLOCATE: u32 = 1 << 25;

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x08,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 1 << 3,
    counts_as: Some(Operation::WriteZeroes),
    during_sanitize: false,
    execute: write_zeroes,
};

fn write_zeroes(
    io: &mut Io,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let namespace = io.writable_namespace(command.nsid)?;
    let extent = Extent::of(namespace, command)?;
    let passage = Passage::of(command, namespace.format(), extent.lba, Use::Zeroes)?;
    // Protection information that the controller makes is written; else that of blocks which were
    // deallocated disables checks, and is what zeroes are.
    let made = passage.filter(|passage| passage.inserts() && command.cdw12 & DEALLOCATE == 0);
    if made.is_some() {
        // As much as of a transfer (WZSL).
        io.check_length(extent.data)?;
    }
    io.namespaces.check_writable(command.nsid, &extent)?;
    let operation = if made.is_some() { Operation::Write } else { Operation::WriteZeroes };
    let fua = io.is_forced(command, operation);
    let owner = Owner::Command(command.id());
    let zeroes = Command { fua, ..Command::new(operation, extent.offset, extent.length) };
    let bytes = made.map_or(0, |_| size(extent.length));
    let mut data = io.commands.buffers.take_for(bytes);
    if let Some(passage) = made {
        passage.pack_zeroes(&mut data);
    }
    let slot = Slot { bytes, passage: made, ..Slot::new(owner, &zeroes, command.nsid, extent.lba) };
    io.send_request(command.sq, slot, zeroes, data);
    Ok(Outcome::Pending)
}
