//! From runs of sectors to grouped requests.

use stasis_block::{Command, Operation};
use stasis_memory::{Segment, NOWHERE};

use crate::command::SubmissionEntry;
use crate::controller::Controller;
use crate::slots::{CommandId, Owner, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::set::Run;

/// How the completions of the runs are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporting {
    /// A bit for each element that failed.
    Elements,
    /// As those of any command.
    Whole,
}

impl Controller {
    /// Reads or writes runs that have been checked.
    pub(super) fn transfer_runs(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
        operation: Operation,
        runs: &[Run],
        reporting: Reporting,
    ) -> Result<Outcome, Failure> {
        let Some(namespace) = self.config.namespace(command.nsid) else {
            return Err(StatusCode::InvalidNamespace.into());
        };
        let block = namespace.block_size as usize;
        let bytes = runs.iter().map(|run| run.count as usize).sum::<usize>() * block;
        let segments = self.buffers.segments_of(memory, command, bytes)?;
        let mut whole = Vec::new();
        if operation == Operation::Write {
            whole = self.buffers.take(bytes);
            if let Err(error) = stasis_memory::gather(memory, &segments, &mut whole) {
                self.buffers.give_segments(segments);
                self.buffers.give(whole);
                return Err(error.into());
            }
        }
        let id = CommandId { sq: queue, cid: command.cid };
        let group = self.slots.insert_group(id, runs.len() as u32, false);
        let mut cutter = Cutter { segments: &segments, index: 0, used: 0 };
        let mut at = 0;
        for (index, run) in runs.iter().enumerate() {
            let length = run.count as usize * block;
            let mut data = self.buffers.take(length);
            let mut places = Vec::new();
            if operation == Operation::Write {
                data.copy_from_slice(&whole[at..at + length]);
            } else {
                places = self.buffers.take_segments();
                cutter.cut(length, &mut places);
            }
            at += length;
            let owner = owner(reporting, group, index, run);
            let request = self.request_for(command, operation, run, block as u64);
            let lba = self.lba_of(command.nsid, run);
            let slot = Slot {
                bytes: length,
                segments: places,
                ..Slot::new(owner, &request, command.nsid, lba)
            };
            if operation == Operation::Write {
                self.enter_chunks(command.nsid, run);
            }
            self.send_request(queue, slot, request, data);
        }
        self.buffers.give(whole);
        self.buffers.give_segments(segments);
        Ok(Outcome::Pending)
    }

    /// What the drive is asked for a run.
    pub(super) fn request_for(
        &self,
        command: &SubmissionEntry,
        operation: Operation,
        run: &Run,
        block: u64,
    ) -> Command {
        let offset = self.linear(command.nsid, run) * block;
        let fua = self.is_forced(command, operation);
        Command { fua, ..Command::new(operation, offset, u64::from(run.count) * block) }
    }

    /// The run's first sector on the drive.
    pub(super) fn linear(&self, nsid: u32, run: &Run) -> u64 {
        self.chunks(nsid).map_or(0, |set| set.linear(run.chunk, run.sector))
    }

    /// The run's first address.
    pub(super) fn lba_of(&self, nsid: u32, run: &Run) -> u64 {
        self.chunks(nsid).map_or(0, |set| set.start(run.chunk) + u64::from(run.sector))
    }

    pub(super) fn enter_chunks(&mut self, nsid: u32, run: &Run) {
        if let Some(set) = self.chunks_mut(nsid) {
            set.write(run);
        }
    }
}

/// To whom the completion of run number `index` matters.
pub fn owner(reporting: Reporting, group: usize, index: usize, run: &Run) -> Owner {
    match reporting {
        Reporting::Elements => Owner::Elements { group, mask: run.mask() },
        Reporting::Whole => Owner::Part { group, part: index as u32 },
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
        let mut left = length;
        while left > 0 {
            let Some(segment) = self.segments.get(self.index) else { return };
            let part = left.min(segment.length - self.used);
            // A piece of what is thrown away is thrown away.
            let address = match segment.address {
                NOWHERE => NOWHERE,
                address => address + self.used as u64,
            };
            into.push(Segment { address, length: part });
            left -= part;
            self.used += part;
            if self.used == segment.length {
                (self.index, self.used) = (self.index + 1, 0);
            }
        }
    }
}
