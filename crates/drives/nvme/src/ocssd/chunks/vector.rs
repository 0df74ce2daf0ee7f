//! Vector commands (OCSSD 2.0 section 4): each names up to 64 addresses.

use stasis_block::{Command, Operation};

use crate::command::{location, SubmissionEntry};
use crate::config::Config;
use crate::io::{Io, IoCommand};
use crate::registered::{CHANGES_CONTENTS, SUPPORTED};
use crate::slots::Slot;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::report::{descriptor, DESCRIPTOR};
use super::set::{ChunkSet, Run};
use super::transfer::{
    checked_runs, enter_chunks, lba_of, linear, owner, request_for, reset_chunks, transfer_runs,
    Reporting,
};

pub const VECTOR_RESET: IoCommand = IoCommand {
    opcode: 0x90,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: vector_reset,
};

pub const VECTOR_WRITE: IoCommand = IoCommand {
    opcode: 0x91,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: |io, memory, command| vector(io, memory, command, true),
};

pub const VECTOR_READ: IoCommand = IoCommand {
    opcode: 0x92,
    effects: SUPPORTED,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: |io, memory, command| vector(io, memory, command, false),
};

pub const VECTOR_COPY: IoCommand = IoCommand {
    opcode: 0x93,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: vector_copy,
};

/// Maximum number of addresses of a command.
const MAX_ADDRESSES: usize = 64;

/// Vector Chunk Read and Vector Chunk Write.
fn vector(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    writes: bool,
) -> Result<Outcome, Failure> {
    let lbas = vector_lbas(io, memory, command, command.starting_lba(), writes)?;
    let mut runs = Vec::new();
    if let Err((status, elements)) = checked_runs(io, command.nsid, &lbas, writes, &mut runs) {
        return Ok(refused(command, status, elements));
    }
    let operation = if writes { Operation::Write } else { Operation::Read };
    transfer_runs(io, memory, command, operation, &runs, Reporting::Elements)
}

/// Vector Chunk Copy. Unreadable sectors are copied as zeroes, as a read returns them.
fn vector_copy(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let to = u64::from(command.cdw14) | u64::from(command.cdw15) << 32;
    let sources = vector_lbas(io, memory, command, command.starting_lba(), false)?;
    let targets = vector_lbas(io, memory, command, to, true)?;
    let (mut from, mut into) = (Vec::new(), Vec::new());
    let checked = checked_runs(io, command.nsid, &sources, false, &mut from)
        .and_then(|()| checked_runs(io, command.nsid, &targets, true, &mut into));
    if let Err((status, elements)) = checked {
        return Ok(refused(command, status, elements));
    }
    let set = io.namespaces.chunked(command.nsid)?;
    let pieces = pieces(&from, &into).into_iter();
    let pieces: Vec<_> = pieces.flat_map(|piece| by_readability(set, piece)).collect();
    let block = io.namespaces.get(command.nsid).map_or(0, |namespace| namespace.block_size.into());
    let id = command.id();
    let group = io.commands.slots.insert_group(id, pieces.len(), false);
    for (index, (from, into)) in (0..).zip(pieces) {
        let request = match from {
            Some(from) => Command {
                source: linear(io, command.nsid, &from) * block,
                ..request_for(io, command, Operation::Copy, &into, block)
            },
            None => request_for(io, command, Operation::WriteZeroes, &into, block),
        };
        let owner = owner(Reporting::Elements, group, index, &into);
        let lba = lba_of(io, command.nsid, &into);
        enter_chunks(io, command.nsid, &into);
        io.request(command.sq, Slot::new(owner, &request, command.nsid, lba), request);
    }
    Ok(Outcome::Pending)
}

/// Vector Chunk Reset. The chunks' new descriptors go to the metadata pointer's address, if there
/// is one.
fn vector_reset(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let lbas = vector_lbas(io, memory, command, command.starting_lba(), true)?;
    let set = io.namespaces.chunked(command.nsid)?;
    let mut chunks = Vec::new();
    let mut wrong = None;
    for (element, &lba) in lbas.iter().enumerate() {
        let checked = match set.find(lba) {
            None => Err(StatusCode::LbaOutOfRange),
            Some((chunk, _)) if chunks.contains(&chunk) => Err(StatusCode::InvalidReset),
            Some((chunk, _)) => {
                chunks.push(chunk);
                set.check_reset(chunk)
            }
        };
        if let Err(status) = checked {
            let (_, elements) = wrong.unwrap_or((status, 0));
            wrong = Some((wrong.map_or(status, |(first, _)| first), elements | 1u64 << element));
        }
    }
    if let Some((status, elements)) = wrong {
        return Ok(refused(command, status, elements));
    }
    reset_chunks(io, command, &chunks, Reporting::Elements);
    if command.mptr != 0 {
        if let Some(set) = io.namespaces.chunks(command.nsid) {
            let descriptors: Vec<u8> =
                chunks.iter().flat_map(|&chunk| descriptor(set, chunk)).collect();
            debug_assert_eq!(descriptors.len(), chunks.len() * DESCRIPTOR);
            // The chunks are reset all the same.
            let _ = memory.write(command.mptr, &descriptors);
        }
    }
    Ok(Outcome::Pending)
}

/// The addresses of a vector: one is in the command itself, more are in a
/// list.
fn vector_lbas(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    list: u64,
    writes: bool,
) -> Result<Vec<u64>, Failure> {
    match writes {
        true => io.writable_namespace(command.nsid)?,
        false => io.namespace(command.nsid)?,
    };
    let count = (command.cdw12 & 0x3f) as usize + 1;
    if count == 1 {
        return Ok(vec![list]);
    }
    let mut raw = [0; MAX_ADDRESSES * 8];
    let raw = &mut raw[..count * 8];
    memory.read(list, raw)?;
    let lba =
        |entry: &[u8]| entry.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Ok(raw.chunks_exact(8).map(lba).collect())
}

/// The outcome of a vector command that failed before it began; its completion names the failed
/// elements.
fn refused(command: &SubmissionEntry, status: StatusCode, elements: u64) -> Outcome {
    let (failure, lba) = (status.at(location::CDW10), command.starting_lba());
    Outcome::Failed { failure, result: elements, lba }
}

/// Cuts two lists of runs over the same elements so that each piece is a run
/// in both.
fn pieces(from: &[Run], into: &[Run]) -> Vec<(Run, Run)> {
    let mut pieces = Vec::new();
    let (mut from, mut into) = (from.iter().copied(), into.iter().copied());
    let (mut source, mut target) = (from.next(), into.next());
    while let (Some(a), Some(b)) = (source, target) {
        let count = a.count.min(b.count);
        pieces.push((Run { count, ..a }, Run { count, ..b }));
        source = Some(a.after(count)).filter(|run| run.count > 0).or_else(|| from.next());
        target = Some(b.after(count)).filter(|run| run.count > 0).or_else(|| into.next());
    }
    pieces
}

/// Cuts a piece into parts that can be read from their source, and parts that cannot and have none.
fn by_readability(
    set: &ChunkSet,
    (from, into): (Run, Run),
) -> impl Iterator<Item = (Option<Run>, Run)> {
    let count = set.readable(from.chunk).saturating_sub(from.sector).min(from.count);
    let readable = (Some(Run { count, ..from }), Run { count, ..into });
    [readable, (None, into.after(count))].into_iter().filter(|(_, into)| into.count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_runs_on_both_sides() {
        let run = |chunk, sector, count, element| Run { chunk, sector, count, element };
        let from = [run(0, 4, 6, 0), run(3, 0, 2, 6)];
        let into = [run(1, 0, 3, 0), run(2, 7, 5, 3)];
        let expected = [
            (run(0, 4, 3, 0), run(1, 0, 3, 0)),
            (run(0, 7, 3, 3), run(2, 7, 3, 3)),
            (run(3, 0, 2, 6), run(2, 10, 2, 6)),
        ];
        assert_eq!(pieces(&from, &into), expected);
        assert_eq!(from[1].mask(), 0b1100_0000);
        assert_eq!(run(0, 0, 64, 0).mask(), u64::MAX);
    }
}
