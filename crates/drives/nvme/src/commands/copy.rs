//! Copy: ranges of blocks to other blocks of the namespace, inside the drive
//! (NVM Command Set Specification 1.0 section 3.2.2). The drive's medium moves the bytes
//! (`Operation::Copy`, one for each range); `slots.rs` joins the ranges in one completion.

use stasis_block::{Command, Operation};
use stasis_nvme_layout::ranges::CopySource;
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, SubmissionEntry};
use crate::config::Namespace;
use crate::extent::Extent;
use crate::io::{Io, IoCommand, MAX_REQUESTS};
use crate::metadata::Protection;
use crate::narrow::{configured16, constant16};
use crate::registered::{always, CHANGES_CONTENTS, SUPPORTED};
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

/// Maximum number of source ranges of a command (MSRC, plus one): a page of them.
pub const MAX_SOURCES: usize = 128;
/// PRINFOR and PRINFOW, in Dword 12.
const PROTECTION: u32 = 0xf << 12 | 0xf << 26;
/// Maximum bytes of one source range: the largest transfer of any controller.
const MAX_SOURCE: u64 = 2 << 20;

const _: () = assert!(MAX_SOURCES * size_of::<CopySource>() == PAGE_SIZE);
const _: () = assert!(MAX_SOURCES <= MAX_REQUESTS);

/// Maximum blocks of one source range (MSSRL).
pub fn most_blocks_of_source(namespace: &Namespace) -> u16 {
    configured16(MAX_SOURCE / u64::from(namespace.block_size))
}

/// Maximum blocks of a command (MCL).
pub fn most_blocks(namespace: &Namespace) -> u32 {
    u32::from(most_blocks_of_source(namespace))
        * u32::from(const { constant16(MAX_SOURCES as u64) })
}

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x19,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 1 << 8,
    counts_as: Some(Operation::Copy),
    during_sanitize: false,
    execute: copy,
};

fn copy(io: &mut Io, memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let namespace = io.writable_namespace(command.nsid)?.clone();
    // Descriptor format: format 0 only, as OCFS announces.
    if command.cdw12 >> 8 & 0xf != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW12 + 1));
    }
    // PRINFOR and PRINFOW: protection information goes with its block as it is, unchecked.
    let protection = namespace.metadata.map_or(Protection::None, |metadata| metadata.protection);
    if protection != Protection::None && command.cdw12 & PROTECTION != 0 {
        return Err(StatusCode::InvalidProtectionInformation.at(location::CDW12 + 1));
    }
    let count = (command.cdw12 & 0xff) as usize + 1;
    if count > MAX_SOURCES {
        return Err(StatusCode::CommandSizeLimitExceeded.at(location::CDW12));
    }
    let mut sources = [CopySource::default(); MAX_SOURCES];
    let sources = &mut sources[..count];
    io.receive(memory, command, sources.as_mut_bytes())?;

    // All is checked before any of it is begun.
    let mut blocks = 0;
    for (_, length) in sources.iter().map(parse_source) {
        if length > most_blocks_of_source(&namespace).into() {
            return Err(StatusCode::CommandSizeLimitExceeded.into());
        }
        blocks += length;
    }
    let lba = command.starting_lba();
    let destination = Extent::new(&namespace, lba, blocks, location::CDW10)?;
    for (lba, length) in sources.iter().map(parse_source) {
        let source = Extent::new(&namespace, lba, length, u16::MAX)?;
        // A source block that the same command overwrites has no defined contents (NVM Command Set
        // Specification 1.1, "Overlapping I/O Range").
        let apart =
            source.range().end <= destination.offset || destination.range().end <= source.offset;
        if !apart {
            return Err(StatusCode::OverlappingRange.at(location::CDW10));
        }
        io.namespaces.check_readable(command.nsid, &source)?;
    }
    io.namespaces.check_writable(command.nsid, &destination)?;

    let stream = io.place(command, destination.data)?;
    let fua = io.is_forced(command, Operation::Copy);
    let id = command.id();
    let group = io.commands.slots.insert_group(id, count, true);
    let mut offset = destination.offset;
    for (part, (lba, length)) in (0..).zip(sources.iter().map(parse_source)) {
        let source = Extent::new(&namespace, lba, length, u16::MAX)?;
        let copy = Command {
            source: source.offset,
            fua,
            stream,
            ..Command::new(Operation::Copy, offset, source.length)
        };
        let owner = Owner::Part { group, part };
        let slot = Slot::new(owner, &copy, command.nsid, lba);
        io.request(command.sq, slot, copy);
        offset += source.length;
    }
    Ok(Outcome::Pending)
}

/// First block and count of blocks of a source range.
fn parse_source(source: &CopySource) -> (u64, u64) {
    (source.slba.get(), u64::from(source.nlb) + 1)
}
