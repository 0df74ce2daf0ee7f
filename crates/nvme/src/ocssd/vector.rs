//! Vector commands (OCSSD 2.0 section 4): each names up to 64 addresses.

use stasis_block::{Command, Operation};

use crate::command::{location, SubmissionEntry};
use crate::commands::{Registered, CHANGES_CONTENTS, SUPPORTED};
use crate::controller::Controller;
use crate::io::starting_lba;
use crate::slots::{CommandId, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::has_chunks;
use super::report::{descriptor, DESCRIPTOR};
use super::set::{ChunkSet, Run};
use super::transfer::{owner, Reporting};

pub const VECTOR_RESET: Registered = Registered {
    opcode: 0x90,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: has_chunks,
    identify: 0,
    counts_as: None,
    execute: Controller::vector_reset,
};

pub const VECTOR_WRITE: Registered = Registered {
    opcode: 0x91,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: has_chunks,
    identify: 0,
    counts_as: None,
    execute: |controller, memory, queue, command| controller.vector(memory, queue, command, true),
};

pub const VECTOR_READ: Registered = Registered {
    opcode: 0x92,
    effects: SUPPORTED,
    announced: has_chunks,
    identify: 0,
    counts_as: None,
    execute: |controller, memory, queue, command| controller.vector(memory, queue, command, false),
};

pub const VECTOR_COPY: Registered = Registered {
    opcode: 0x93,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: has_chunks,
    identify: 0,
    counts_as: None,
    execute: Controller::vector_copy,
};

/// Most addresses of a command.
const MOST: usize = 64;

impl Controller {
    /// Vector Chunk Read and Vector Chunk Write.
    pub(super) fn vector(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
        writes: bool,
    ) -> Result<Outcome, Failure> {
        let lbas = self.vector_lbas(memory, command, starting_lba(command), writes)?;
        let mut runs = Vec::new();
        if let Err((status, elements)) = self.checked_runs(command.nsid, &lbas, writes, &mut runs) {
            return Ok(self.refuse_vector(memory, queue, command, status, elements));
        }
        let operation = if writes { Operation::Write } else { Operation::Read };
        self.transfer_runs(memory, queue, command, operation, &runs, Reporting::Elements)
    }

    /// Vector Chunk Copy. What cannot be read is zeroes, as to a read.
    pub(super) fn vector_copy(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let to = u64::from(command.cdw14) | u64::from(command.cdw15) << 32;
        let sources = self.vector_lbas(memory, command, starting_lba(command), false)?;
        let targets = self.vector_lbas(memory, command, to, true)?;
        let (mut from, mut into) = (Vec::new(), Vec::new());
        let checked = self
            .checked_runs(command.nsid, &sources, false, &mut from)
            .and_then(|()| self.checked_runs(command.nsid, &targets, true, &mut into));
        if let Err((status, elements)) = checked {
            return Ok(self.refuse_vector(memory, queue, command, status, elements));
        }
        let set = self.chunks_of(command)?;
        let pieces = pieces(&from, &into).into_iter();
        let pieces: Vec<_> = pieces.flat_map(|piece| by_readability(set, piece)).collect();
        let block = self.config.namespace(command.nsid).map_or(0, |of| of.block_size.into());
        let id = CommandId { sq: queue, cid: command.cid };
        let group = self.slots.insert_group(id, pieces.len() as u32, false);
        for (index, (from, into)) in pieces.into_iter().enumerate() {
            let request = match from {
                Some(from) => Command {
                    source: self.linear(command.nsid, &from) * block,
                    ..self.request_for(command, Operation::Copy, &into, block)
                },
                None => self.request_for(command, Operation::WriteZeroes, &into, block),
            };
            let owner = owner(Reporting::Elements, group, index, &into);
            let lba = self.lba_of(command.nsid, &into);
            self.enter_chunks(command.nsid, &into);
            self.request(queue, Slot::new(owner, &request, command.nsid, lba), request);
        }
        Ok(Outcome::Pending)
    }

    /// Vector Chunk Reset. The chunks' new descriptors go to where the
    /// metadata pointer says, if it does.
    pub(super) fn vector_reset(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let lbas = self.vector_lbas(memory, command, starting_lba(command), true)?;
        let set = self.chunks_of(command)?;
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
                wrong =
                    Some((wrong.map_or(status, |(first, _)| first), elements | 1u64 << element));
            }
        }
        if let Some((status, elements)) = wrong {
            return Ok(self.refuse_vector(memory, queue, command, status, elements));
        }
        self.reset_chunks(queue, command, &chunks, Reporting::Elements);
        if command.mptr != 0 {
            if let Some(set) = self.chunks(command.nsid) {
                let descriptors: Vec<u8> =
                    chunks.iter().flat_map(|&chunk| descriptor(set, chunk)).collect();
                debug_assert_eq!(descriptors.len(), chunks.len() * DESCRIPTOR);
                // The chunks are reset all the same.
                let _ = memory.write(command.mptr, &descriptors);
            }
        }
        Ok(Outcome::Pending)
    }

    /// Resets chunks that can be.
    pub(super) fn reset_chunks(
        &mut self,
        queue: u16,
        command: &SubmissionEntry,
        chunks: &[usize],
        reporting: Reporting,
    ) {
        let block = self.config.namespace(command.nsid).map_or(0, |of| of.block_size.into());
        let id = CommandId { sq: queue, cid: command.cid };
        let group = self.slots.insert_group(id, chunks.len() as u32, false);
        for (element, &chunk) in chunks.iter().enumerate() {
            let Some(set) = self.chunks_mut(command.nsid) else { return };
            set.reset(chunk);
            let count = set.config.sectors;
            let run = Run { chunk, sector: 0, count, element };
            let request = self.request_for(command, Operation::Discard, &run, block);
            let request = Command { fua: false, ..request };
            // The run's elements are sectors, the command's are chunks.
            let owner = owner(reporting, group, element, &Run { count: 1, ..run });
            let lba = self.lba_of(command.nsid, &run);
            self.request(queue, Slot::new(owner, &request, command.nsid, lba), request);
        }
    }

    /// The addresses of a vector: one is in the command itself, more are in a
    /// list.
    fn vector_lbas(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        list: u64,
        writes: bool,
    ) -> Result<Vec<u64>, Failure> {
        match writes {
            true => self.writable_namespace(command.nsid)?,
            false => self.io_namespace(command.nsid)?,
        };
        let count = (command.cdw12 & 0x3f) as usize + 1;
        if count == 1 {
            return Ok(vec![list]);
        }
        let mut raw = [0; MOST * 8];
        let raw = &mut raw[..count * 8];
        memory.read(list, raw)?;
        let lba =
            |entry: &[u8]| entry.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        Ok(raw.chunks_exact(8).map(lba).collect())
    }

    /// The runs of addresses that can be read or written; or why not, and a
    /// bit for each element at fault.
    pub(super) fn checked_runs(
        &self,
        nsid: u32,
        lbas: &[u64],
        writes: bool,
        runs: &mut Vec<Run>,
    ) -> Result<(), (StatusCode, u64)> {
        let Some(set) = self.chunks(nsid) else { return Err((StatusCode::InvalidNamespace, 0)) };
        let bit = |element: usize| 1u64.checked_shl(element as u32).unwrap_or(0);
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

    /// A vector command failed before it began: its completion says for which
    /// elements.
    fn refuse_vector(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
        status: StatusCode,
        elements: u64,
    ) -> Outcome {
        let id = CommandId { sq: queue, cid: command.cid };
        let lba = starting_lba(command);
        let field = self.log_failure(id, status.at(location::CDW10), command.nsid, lba);
        self.post(memory, id, field, elements);
        Outcome::Pending
    }
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

/// Cuts a piece into what can be read from its source, and what cannot and has
/// none.
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
