//! Memory Copy (SLM section 3.2.1): from blocks of other namespaces, or from the memory itself, into
//! the memory.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation};
use stasis_nvme_layout::ranges::{CopySource, MemorySource};
use stasis_nvme_layout::{transmute_ref, IntoBytes};

use crate::command::{location, SubmissionEntry};
use crate::computing::config::Part;
use crate::extent::Extent;
use crate::io::{Io, IoCommand};
use crate::narrow::size;
use crate::registered::CHANGES_CONTENTS;
use crate::slots::{Owner, Purpose, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

use super::commands::{command, UNIT};

/// Maximum number of source ranges: a page of them.
const MAX_SOURCES: usize = PAGE_SIZE / size_of::<CopySource>();

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
    let mut entries = [CopySource::default(); MAX_SOURCES];
    let entries = &mut entries[..count];
    io.receive(memory, command, entries.as_mut_bytes())?;
    // All is checked before any of it is begun.
    let mut sources = Vec::new();
    for entry in entries {
        let source = match of_blocks {
            true => blocks_of(io, command, entry)?,
            false => bytes_of(io, command, transmute_ref!(entry))?,
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
        io.lend(|io, lease| {
            lease.data = io.commands.buffers.take_for(size(bytes));
            let device = io.device()?;
            if let Some(from) = device.bytes(offset, bytes) {
                lease.data.copy_from_slice(from);
            }
            if let Some(place) = device.bytes(to, bytes) {
                place.copy_from_slice(&lease.data);
            }
            Ok::<_, Failure>(())
        })?;
        to += bytes;
    }
    // It is read and written.
    io.end_after_transfer(command, 2 * bytes)
}

/// A range of blocks, in the form of Copy.
fn blocks_of(io: &Io, command: &SubmissionEntry, entry: &CopySource) -> Result<Source, Failure> {
    let (nsid, lba) = (entry.snsid.get(), entry.slba.get());
    let blocks = u64::from(entry.nlb) + 1;
    if nsid == command.nsid {
        return Err(StatusCode::IncompatibleNamespace.into());
    }
    io.check_attached(command.controller, nsid)?;
    let namespace = io.namespace(nsid)?;
    let has_blocks = namespace.has_blocks() && io.namespaces.chunks(nsid).is_none();
    if !has_blocks || namespace.metadata.is_some() {
        return Err(StatusCode::IncompatibleNamespace.into());
    }
    let reserved = io.access.reservations.check(command.controller, nsid, Some(Operation::Read));
    reserved?;
    check_options(entry.sopt.get())?;
    let extent = Extent::new(namespace, lba, blocks, location::PRP1)?;
    if extent.length > io.config.max_transfer.into() {
        return Err(StatusCode::CommandSizeLimitExceeded.at(location::PRP1));
    }
    io.namespaces.check_readable(nsid, &extent)?;
    Ok(Source { nsid, lba, offset: extent.offset, bytes: extent.length })
}

/// A range of bytes of the memory.
fn bytes_of(
    io: &mut Io,
    command: &SubmissionEntry,
    entry: &MemorySource,
) -> Result<Source, Failure> {
    let (nsid, offset) = (entry.snsid.get(), entry.start.get());
    let bytes = u64::from(entry.length);
    if nsid != command.nsid {
        return Err(StatusCode::IncompatibleNamespace.into());
    }
    check_options(entry.sopt.get())?;
    let aligned = offset.is_multiple_of(UNIT) && bytes.is_multiple_of(UNIT);
    if !aligned || io.device()?.bytes(offset, bytes).is_none() {
        return Err(StatusCode::InvalidField.at(location::PRP1));
    }
    Ok(Source { nsid, lba: 0, offset, bytes })
}

fn check_options(options: u16) -> Result<(), Failure> {
    match options & FAST_COPY_ONLY {
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
        Some(self.commands.slots.work.transfer(&config, self.now, bytes))
    }
}

/// Asks the drive for blocks: what it gives goes to the memory.
fn read_blocks(io: &mut Io, command: &SubmissionEntry, start: u64, sources: &[Source]) {
    let group = io.commands.slots.insert_group(command.id(), sources.len(), true);
    let mut at = start;
    for (part, source) in (0..).zip(sources) {
        let read = Command::new(Operation::Read, source.offset, source.bytes);
        let bytes = size(source.bytes);
        let data = io.commands.buffers.take(bytes);
        let slot = Slot::new(Owner::Part { group, part }, &read, source.nsid, source.lba);
        let slot = Slot { purpose: Purpose::ToMemory { at }, bytes, ..slot };
        io.send_request(command.sq, slot, read, data);
        at += source.bytes;
    }
}
