//! Read, Write and Dataset Management on an Open-Channel namespace (OCSSD 2.0
//! section 4): addresses are those of the vector commands, by ranges.

use stasis_block::Operation;

use crate::command::{location, SubmissionEntry};
use crate::commands::{
    parse_range, Registered, CHANGES_CONTENTS, DEALLOCATE, MOST_RANGES, RANGE, SUPPORTED,
};
use crate::controller::Controller;
use crate::io::starting_lba;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::has_chunks;
use super::transfer::Reporting;

pub const WRITE: Registered = Registered {
    opcode: 0x01,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: has_chunks,
    identify: 0,
    counts_as: Some(Operation::Write),
    execute: |controller, memory, queue, command| controller.scalar(memory, queue, command, true),
};

pub const READ: Registered = Registered {
    opcode: 0x02,
    effects: SUPPORTED,
    announced: has_chunks,
    identify: 0,
    counts_as: Some(Operation::Read),
    execute: |controller, memory, queue, command| controller.scalar(memory, queue, command, false),
};

pub const DATASET_MANAGEMENT: Registered = Registered {
    opcode: 0x09,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: has_chunks,
    identify: 0,
    counts_as: Some(Operation::Discard),
    execute: Controller::scalar_reset,
};

impl Controller {
    /// Read and Write.
    pub(super) fn scalar(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
        writes: bool,
    ) -> Result<Outcome, Failure> {
        let namespace = match writes {
            true => self.writable_namespace(command.nsid)?,
            false => self.io_namespace(command.nsid)?,
        };
        let count = u64::from(command.cdw12 & 0xffff) + 1;
        if count * u64::from(namespace.block_size) > self.config.max_transfer.into() {
            return Err(StatusCode::InvalidField.at(location::CDW12));
        }
        let first = starting_lba(command);
        let end = first.checked_add(count).ok_or(StatusCode::LbaOutOfRange.at(location::CDW10))?;
        let lbas: Vec<u64> = (first..end).collect();
        let mut runs = Vec::new();
        self.checked_runs(command.nsid, &lbas, writes, &mut runs)
            .map_err(|(status, _)| status.at(location::CDW10))?;
        let operation = if writes { Operation::Write } else { Operation::Read };
        self.transfer_runs(memory, queue, command, operation, &runs, Reporting::Whole)
    }

    /// Dataset Management: each range to deallocate is a whole chunk to reset.
    pub(super) fn scalar_reset(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        self.io_namespace(command.nsid)?;
        if command.cdw11 & DEALLOCATE == 0 {
            return Ok(Outcome::Done(0));
        }
        self.writable_namespace(command.nsid)?;
        let count = (command.cdw10 & 0xff) as usize + 1;
        let mut raw = [0; MOST_RANGES * RANGE];
        let raw = &mut raw[..count * RANGE];
        self.receive(memory, command, raw)?;
        let set = self.chunks_of(command)?;
        let mut chunks = Vec::new();
        for (lba, blocks) in raw.chunks_exact(RANGE).map(parse_range) {
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
        self.reset_chunks(queue, command, &chunks, Reporting::Whole);
        Ok(Outcome::Pending)
    }
}
