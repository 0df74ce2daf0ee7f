//! Write Zeroes (NVMe 1.4 section 6.17).

use stasis_block::{Command, Operation};

use crate::command::SubmissionEntry;
use crate::extent::Extent;
use crate::io::{Io, IoCommand};
use crate::registered::{always, CHANGES_CONTENTS, SUPPORTED};
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome};
use crate::Memory;

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
    io.namespaces.check_writable(command.nsid, &extent)?;
    let operation = Operation::WriteZeroes;
    let fua = io.is_forced(command, operation);
    let owner = Owner::Command(command.id());
    let zeroes = Command { fua, ..Command::new(operation, extent.offset, extent.length) };
    let slot = Slot::new(owner, &zeroes, command.nsid, extent.lba);
    io.request(command.sq, slot, zeroes);
    Ok(Outcome::Pending)
}
