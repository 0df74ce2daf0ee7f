//! Verify (NVMe 1.4 section 6.14): the drive reads the blocks, and nothing is
//! transferred.

use stasis_block::{Command, Operation};

use crate::command::SubmissionEntry;
use crate::extent::Extent;
use crate::io::{Io, IoCommand};
use crate::registered::{always, SUPPORTED};
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome};
use crate::Memory;

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x0c,
    effects: SUPPORTED,
    announced: always,
    identify: 1 << 7,
    counts_as: Some(Operation::Verify),
    during_sanitize: false,
    execute: verify,
};

fn verify(
    io: &mut Io,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let extent = Extent::of(io.namespace(command.nsid)?, command)?;
    io.namespaces.check_readable(command.nsid, &extent)?;
    let fua = io.is_forced(command, Operation::Verify);
    let verify = Command { fua, ..Command::new(Operation::Verify, extent.offset, extent.length) };
    let owner = Owner::Command(command.id());
    let slot = Slot::new(owner, &verify, command.nsid, extent.lba);
    io.request_checked(command, &extent, slot, verify)?;
    Ok(Outcome::Pending)
}
