//! From runs of sectors to grouped requests.

use stasis_block::memory::{Segment, NOWHERE};
use stasis_block::{Command, Operation};

use crate::buffers::Lease;
use crate::command::SubmissionEntry;
use crate::io::Io;
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::set::Run;

/// Reporting of the completions of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporting {
    /// A bit for each element that failed.
    Elements,
    /// As those of any command.
    Whole,
}

/// The runs of addresses that can be read or written; or why not, and a
/// bit for each element at fault.
pub fn checked_runs(
    io: &Io,
    nsid: u32,
    lbas: &[u64],
    writes: bool,
    runs: &mut Vec<Run>,
) -> Result<(), (StatusCode, u64)> {
    let Some(set) = io.namespaces.chunks(nsid) else {
        return Err((StatusCode::InvalidNamespace, 0));
    };
    let bit = |element: u32| 1u64.checked_shl(element).unwrap_or(0);
    set.runs(lbas.iter().copied(), runs)
        .map_err(|element| (StatusCode::LbaOutOfRange, bit(element)))?;
    if writes {
        return set.check_write(runs).map_err(|(status, run)| (status, run.mask()));
    }
    let offline = runs.iter().filter(|run| set.is_offline(run.chunk));
    match offline.map(Run::mask).fold(0, |all, mask| all | mask) {
        0 if !runs.iter().any(|run| set.is_offline(run.chunk)) => Ok(()),
        elements => Err((StatusCode::OfflineChunk, elements)),
    }
}

/// Reads or writes runs that have been checked.
pub fn transfer_runs(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    operation: Operation,
    runs: &[Run],
    reporting: Reporting,
) -> Result<Outcome, Failure> {
    let Some(namespace) = io.namespaces.get(command.nsid) else {
        return Err(StatusCode::InvalidNamespace.into());
    };
    let block = namespace.block_size as usize;
    let bytes = runs.iter().map(|run| run.count as usize).sum::<usize>() * block;
    io.lend(|io, lease| {
        lease.segments = io.commands.buffers.segments_of(memory, command, bytes)?;
        if operation == Operation::Write {
            lease.data = io.commands.buffers.take(bytes);
            stasis_block::memory::gather(memory, &lease.segments, &mut lease.data)?;
        }
        send_runs(io, command, operation, (runs, block), reporting, lease);
        Ok(Outcome::Pending)
    })
}

/// Hands runs of blocks of this size to the drive, each with its part of what was lent for all.
fn send_runs(
    io: &mut Io,
    command: &SubmissionEntry,
    operation: Operation,
    (runs, block): (&[Run], usize),
    reporting: Reporting,
    Lease { segments, data: whole, .. }: &Lease,
) {
    let id = command.id();
    let group = io.commands.slots.insert_group(id, runs.len(), false);
    let mut cutter = Cutter { segments, index: 0, used: 0 };
    let mut at = 0;
    for (index, run) in (0..).zip(runs) {
        let length = run.count as usize * block;
        let mut data = io.commands.buffers.take(length);
        let mut places = Vec::new();
        if operation == Operation::Write {
            data.copy_from_slice(&whole[at..at + length]);
        } else {
            places = io.commands.buffers.take_segments();
            cutter.cut(length, &mut places);
        }
        at += length;
        let owner = owner(reporting, group, index, run);
        let request = request_for(io, command, operation, run, block as u64);
        let lba = lba_of(io, command.nsid, run);
        let slot = Slot {
            bytes: length,
            segments: places,
            ..Slot::new(owner, &request, command.nsid, lba)
        };
        if operation == Operation::Write {
            enter_chunks(io, command.nsid, run);
        }
        io.send_request(command.sq, slot, request, data);
    }
}

/// Resets resettable chunks.
pub fn reset_chunks(
    io: &mut Io,
    command: &SubmissionEntry,
    chunks: &[usize],
    reporting: Reporting,
) {
    let block = io.namespaces.get(command.nsid).map_or(0, |namespace| namespace.block_size.into());
    let id = command.id();
    let group = io.commands.slots.insert_group(id, chunks.len(), false);
    for (element, &chunk) in (0..).zip(chunks) {
        let Some(set) = io.namespaces.chunks_mut(command.nsid) else { return };
        set.reset(chunk);
        let count = set.config.sectors;
        let run = Run { chunk, sector: 0, count, element };
        let request = request_for(io, command, Operation::Discard, &run, block);
        let request = Command { fua: false, ..request };
        // The run's elements are sectors, the command's are chunks.
        let owner = owner(reporting, group, element, &Run { count: 1, ..run });
        let lba = lba_of(io, command.nsid, &run);
        io.request(command.sq, Slot::new(owner, &request, command.nsid, lba), request);
    }
}

/// The request to the drive for a run.
pub fn request_for(
    io: &Io,
    command: &SubmissionEntry,
    operation: Operation,
    run: &Run,
    block: u64,
) -> Command {
    let offset = linear(io, command.nsid, run) * block;
    let fua = io.is_forced(command, operation);
    Command { fua, ..Command::new(operation, offset, u64::from(run.count) * block) }
}

/// The run's first sector on the drive.
pub fn linear(io: &Io, nsid: u32, run: &Run) -> u64 {
    io.namespaces.chunks(nsid).map_or(0, |set| set.linear(run.chunk, run.sector))
}

/// The run's first address.
pub fn lba_of(io: &Io, nsid: u32, run: &Run) -> u64 {
    io.namespaces.chunks(nsid).map_or(0, |set| set.start(run.chunk) + u64::from(run.sector))
}

/// A run is being written.
pub fn enter_chunks(io: &mut Io, nsid: u32, run: &Run) {
    if let Some(set) = io.namespaces.chunks_mut(nsid) {
        set.write(run);
    }
}

/// To whom the completion of run number `index` matters.
pub fn owner(reporting: Reporting, group: usize, index: u32, run: &Run) -> Owner {
    match reporting {
        Reporting::Elements => Owner::Elements { group, mask: run.mask() },
        Reporting::Whole => Owner::Part { group, part: index },
    }
}

/// Takes pieces off the front of a list of segments.
struct Cutter<'a> {
    segments: &'a [Segment],
    index: usize,
    used: usize,
}

impl Cutter<'_> {
    fn cut(&mut self, length: usize, into: &mut Vec<Segment>) {
        let mut rest = length;
        while rest > 0 {
            let Some(segment) = self.segments.get(self.index) else { return };
            let part = rest.min(segment.length - self.used);
            // A piece of a segment without an address has none.
            let address = match segment.address {
                NOWHERE => NOWHERE,
                address => address + self.used as u64,
            };
            into.push(Segment { address, length: part });
            rest -= part;
            self.used += part;
            if self.used == segment.length {
                (self.index, self.used) = (self.index + 1, 0);
            }
        }
    }
}
