//! Read, Write and Dataset Management on an Open-Channel namespace (OCSSD 2.0
//! section 4): addresses are those of the vector commands, by ranges.

use stasis_block::Operation;
use stasis_nvme_layout::ranges::DatasetRange;

use crate::command::{location, SubmissionEntry};
use crate::commands::{receive_ranges, DEALLOCATE, MAX_RANGES};
use crate::config::Config;
use crate::io::{Io, IoCommand};
use crate::registered::{CHANGES_CONTENTS, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::transfer::{checked_runs, reset_chunks, transfer_runs, Reporting};

pub const WRITE: IoCommand = IoCommand {
    opcode: 0x01,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: Some(Operation::Write),
    during_sanitize: false,
    execute: |io, memory, command| scalar(io, memory, command, true),
};

pub const READ: IoCommand = IoCommand {
    opcode: 0x02,
    effects: SUPPORTED,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: Some(Operation::Read),
    during_sanitize: false,
    execute: |io, memory, command| scalar(io, memory, command, false),
};

pub const DATASET_MANAGEMENT: IoCommand = IoCommand {
    opcode: 0x09,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: Some(Operation::Discard),
    during_sanitize: false,
    execute: scalar_reset,
};

/// Read and Write.
fn scalar(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    writes: bool,
) -> Result<Outcome, Failure> {
    let namespace = match writes {
        true => io.writable_namespace(command.nsid)?,
        false => io.namespace(command.nsid)?,
    };
    let count = u64::from(command.cdw12 & 0xffff) + 1;
    if count * u64::from(namespace.block_size) > io.config.max_transfer.into() {
        return Err(StatusCode::InvalidField.at(location::CDW12));
    }
    let first = command.starting_lba();
    let end = first.checked_add(count).ok_or(StatusCode::LbaOutOfRange.at(location::CDW10))?;
    let lbas: Vec<u64> = (first..end).collect();
    let mut runs = Vec::new();
    checked_runs(io, command.nsid, &lbas, writes, &mut runs)
        .map_err(|(status, _)| status.at(location::CDW10))?;
    let operation = if writes { Operation::Write } else { Operation::Read };
    transfer_runs(io, memory, command, operation, &runs, Reporting::Whole)
}

/// Dataset Management: each range to deallocate is a whole chunk to reset.
fn scalar_reset(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    io.namespace(command.nsid)?;
    if command.cdw11 & DEALLOCATE == 0 {
        return Ok(Outcome::Done(0));
    }
    io.writable_namespace(command.nsid)?;
    let mut ranges = [DatasetRange::default(); MAX_RANGES];
    let ranges = receive_ranges(io, memory, command, &mut ranges)?;
    let set = io.namespaces.chunked(command.nsid)?;
    let mut chunks = Vec::new();
    for range in ranges {
        let (lba, blocks) = (range.slba.get(), u64::from(range.nlb));
        let whole = blocks == u64::from(set.config.sectors);
        match set.find(lba) {
            Some((chunk, 0)) if whole && !chunks.contains(&chunk) => {
                set.check_reset(chunk)?;
                chunks.push(chunk);
            }
            Some(_) => return Err(StatusCode::InvalidReset.into()),
            None => return Err(StatusCode::LbaOutOfRange.into()),
        }
    }
    reset_chunks(io, command, &chunks, Reporting::Whole);
    Ok(Outcome::Pending)
}
