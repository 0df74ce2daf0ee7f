//! Write Uncorrectable (NVMe 1.4 section 6.16): the blocks cannot be read until
//! they are written.

use crate::command::SubmissionEntry;
use crate::extent::Extent;
use crate::io::{Io, IoCommand};
use crate::registered::{always, CHANGES_CONTENTS, SUPPORTED};
use crate::status::{Failure, Outcome};
use crate::Memory;

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x04,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 1 << 1,
    counts_as: None,
    during_sanitize: false,
    execute: write_uncorrectable,
};

fn write_uncorrectable(
    io: &mut Io,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let extent = Extent::of(io.writable_namespace(command.nsid)?, command)?;
    io.namespaces.mark_uncorrectable(command.nsid, &extent)?;
    Ok(Outcome::Done(0))
}
