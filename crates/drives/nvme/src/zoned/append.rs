//! Zone Append (ZNS 1.1 section 3.4.1): a write whose place the controller
//! chooses.

use stasis_block::Operation;

use crate::command::{location, SubmissionEntry};
use crate::extent::Extent;
use crate::io::{Io, IoCommand, Transfer};
use crate::registered::{CHANGES_CONTENTS, SUPPORTED};
use crate::slots::Owner;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::config::CSI;

/// Protection Information Remap, in Dword 12: there is no protection
/// information.
const REMAP: u32 = 1 << 25;

pub const ZONE_APPEND: IoCommand = IoCommand {
    opcode: 0x7d,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: |_, set| set == CSI,
    identify: 0,
    counts_as: Some(Operation::Write),
    during_sanitize: false,
    execute: zone_append,
};

fn zone_append(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let blocks = u64::from(command.cdw12 & 0xffff) + 1;
    let namespace = io.writable_namespace(command.nsid)?;
    let first = Extent::new(namespace, command.starting_lba(), 1, location::CDW10)?.lba;
    let set = &io.namespaces.zoned(command.nsid)?.set;
    if !first.is_multiple_of(set.size) {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    if command.cdw12 & REMAP != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW12 + 3));
    }
    let lba = set.check_append(set.index(first), blocks);
    let lba = lba.map_err(|status| status.at(location::CDW10).of_block(first))?;
    let extent = Extent::new(namespace, lba, blocks, location::CDW10)?;
    io.check_length(extent.data)?;
    io.namespaces.check_clearing(command.nsid, &extent)?;
    let owner = Owner::Telling(command.id());
    io.transfer_extent(memory, command, Transfer::Write, (&extent, None), owner)
}
