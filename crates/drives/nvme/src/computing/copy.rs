//! Memory Copy (SLM section 3.2.1): from blocks of other namespaces, or from the memory itself, into
//! the memory.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation};

use crate::command::{location, SubmissionEntry};
use crate::extent::Extent;
use crate::io::{Io, IoCommand};
use crate::registered::CHANGES_CONTENTS;
use crate::slots::{Owner, Purpose, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

use super::commands::{command, UNIT};
use super::config::Part;

/// Size of a source range's descriptor in bytes, and their maximum number: a page of them.
const ENTRY: usize = 32;
const MAX_SOURCES: usize = PAGE_SIZE / ENTRY;

/// Descriptor formats (NVM Command Set 1.1 figure 34), in Dword 12: ranges of blocks without a 64-bit
/// guard, and ranges of bytes.
mod format {
    pub const BLOCKS: u32 = 2;
    pub const BYTES: u32 = 4;
}

/// Source options: fail rather than copy slowly.
const FAST_COPY_ONLY: u16 = 1;

pub const MEMORY_COPY: IoCommand = command((Part::Memory, 0x01), CHANGES_CONTENTS, copy);

/// A source of blocks.
#[derive(Debug, Clone, Copy)]
struct Source {
    nsid: u32,
    lba: u64,
    offset: u64,
    bytes: u64,
}

/// The length in Dwords 2 and 3, the place in Dwords 10 and 11, the format of descriptors and their
/// number in Dword 12.
fn copy(io: &mut Io, memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let length = u64::from(command.cdw2) | u64::from(command.cdw3) << 32;
    let start = command.starting_lba();
    if !start.is_multiple_of(UNIT) {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    let count = (command.cdw12 & 0xff) as usize + 1;
    if count > MAX_SOURCES {
        return Err(StatusCode::CommandSizeLimitExceeded.at(location::CDW12));
    }
    let of_blocks = match command.cdw12 >> 8 & 0xf {
        format::BLOCKS => true,
        format::BYTES => false,
        _ => return Err(StatusCode::InvalidField.at(location::CDW12 + 1)),
    };
    let mut raw = [0; PAGE_SIZE];
    let raw = &mut raw[..count * ENTRY];
    io.receive(memory, command, raw)?;
    // All is checked before any of it is begun.
    let mut sources = Vec::new();
    for entry in raw.chunks_exact(ENTRY) {
        let source = match of_blocks {
            true => blocks_of(io, command, entry)?,
            false => bytes_of(io, command, entry)?,
        };
        sources.push(source);
    }
    let bytes: u64 = sources.iter().map(|source| source.bytes).sum();
    // Its requests hold no more than any command's.
    if bytes > io.config.max_transfer.into() {
        return Err(StatusCode::CommandSizeLimitExceeded.at(location::CDW12));
    }
    if bytes != length {
        return Err(StatusCode::InvalidField.at(location::CDW2));
    }
    if io.device()?.bytes(start, bytes).is_none() {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    if of_blocks {
        read_blocks(io, command, start, &sources);
        return Ok(Outcome::Pending);
    }
    let apart =
        |source: &Source| source.offset + source.bytes <= start || start + bytes <= source.offset;
    if !sources.iter().all(apart) {
        return Err(StatusCode::OverlappingRange.at(location::CDW10));
    }
    let mut to = start;
    for Source { offset, bytes, .. } in sources {
        let mut data = io.buffers.take_for(bytes as usize);
        let device = io.device()?;
        if let Some(from) = device.bytes(offset, bytes) {
            data.copy_from_slice(from);
        }
        if let Some(place) = device.bytes(to, bytes) {
            place.copy_from_slice(&data);
        }
        io.buffers.give(data);
        to += bytes;
    }
    // It is read and written.
    io.end_after_transfer(command, 2 * bytes)
}

fn field(entry: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&entry[at..at + 8]);
    u64::from_le_bytes(raw)
}

/// A range of blocks, in the form of Copy (NVM Command Set 1.1 figure 39): NSID, first block, and their
/// number, 0's based.
fn blocks_of(io: &Io, command: &SubmissionEntry, entry: &[u8]) -> Result<Source, Failure> {
    let (nsid, lba) = (field(entry, 0) as u32, field(entry, 8));
    let blocks = u64::from(u16::from_le_bytes([entry[16], entry[17]])) + 1;
    if nsid == command.nsid {
        return Err(StatusCode::IncompatibleNamespace.into());
    }
    io.check_attached(command.controller, nsid)?;
    let namespace = io.namespace(nsid)?;
    let has_blocks = namespace.has_blocks() && io.namespaces.chunks(nsid).is_none();
    if !has_blocks || namespace.metadata.is_some() {
        return Err(StatusCode::IncompatibleNamespace.into());
    }
    let reserved = io.reservations.check(command.controller, nsid, Some(Operation::Read));
    reserved?;
    check_options(entry, 22)?;
    let extent = Extent::new(namespace, lba, blocks, location::PRP1)?;
    if extent.length > io.config.max_transfer.into() {
        return Err(StatusCode::CommandSizeLimitExceeded.at(location::PRP1));
    }
    io.namespaces.check_readable(nsid, &extent)?;
    Ok(Source { nsid, lba, offset: extent.offset, bytes: extent.length })
}

/// A range of bytes of the memory (SLM, descriptor format 4h): NSID, first byte, and their number.
fn bytes_of(io: &mut Io, command: &SubmissionEntry, entry: &[u8]) -> Result<Source, Failure> {
    let (nsid, offset) = (field(entry, 0) as u32, field(entry, 8));
    let bytes = field(entry, 16) & u64::from(u32::MAX);
    if nsid != command.nsid {
        return Err(StatusCode::IncompatibleNamespace.into());
    }
    check_options(entry, 22)?;
    let aligned = offset.is_multiple_of(UNIT) && bytes.is_multiple_of(UNIT);
    if !aligned || io.device()?.bytes(offset, bytes).is_none() {
        return Err(StatusCode::InvalidField.at(location::PRP1));
    }
    Ok(Source { nsid, lba: 0, offset, bytes })
}

fn check_options(entry: &[u8], at: usize) -> Result<(), Failure> {
    match u16::from_le_bytes([entry[at], entry[at + 1]]) & FAST_COPY_ONLY {
        0 => Ok(()),
        _ => Err(StatusCode::FastCopyNotPossible.into()),
    }
}

impl Io {
    /// Returns the time at which the memory has taken the data that a request has read for it;
    /// `None`: the data is not for it.
    pub fn transfer_time(&mut self, purpose: Purpose, bytes: u64) -> Option<Nanos> {
        let config = match purpose {
            Purpose::ToMemory { .. } => self.computing.as_ref()?.config,
            _ => return None,
        };
        Some(self.slots.work.transfer(&config, self.now, bytes))
    }
}

/// Asks the drive for blocks: what it gives goes to the memory.
fn read_blocks(io: &mut Io, command: &SubmissionEntry, start: u64, sources: &[Source]) {
    let group = io.slots.insert_group(command.id(), sources.len() as u32, true);
    let mut at = start;
    for (part, source) in (0..).zip(sources) {
        let read = Command::new(Operation::Read, source.offset, source.bytes);
        let bytes = source.bytes as usize;
        let data = io.buffers.take(bytes);
        let slot = Slot::new(Owner::Part { group, part }, &read, source.nsid, source.lba);
        let slot = Slot { purpose: Purpose::ToMemory { at }, bytes, ..slot };
        io.send_request(command.sq, slot, read, data);
        at += source.bytes;
    }
}
