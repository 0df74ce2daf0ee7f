//! From two fused commands of a queue to their completions.

use crate::atomicity::Atomicity;
use crate::command::{location, CommandId, SubmissionEntry, FUSE};
use crate::extent::Extent;
use crate::fused::{Pair, Stage};
use crate::io::Transfer;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use crate::context::ControllerMut;

/// FUSE of the first command of a pair, and of the second (NVMe 1.4 figure 104).
const FIRST: u8 = 1;
const SECOND: u8 = 2;
/// The opcodes of the pair.
const COMPARE: u8 = 0x05;
const WRITE: u8 = 0x01;

impl ControllerMut<'_> {
    /// Takes a command of an I/O queue: alone, or as one of a pair.
    pub(super) fn take_io(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let queue = self.host.queues.submission_mut(command.sq);
        let first = queue.and_then(|queue| queue.fused.take());
        match (first, command.flags & FUSE) {
            (None, 0) => return self.execute_io(memory, command),
            (Some(first), SECOND) => return self.begin_fused(memory, first, *command),
            (Some(first), _) => {
                let why = StatusCode::MissingFusedCommand.at(location::FLAGS);
                self.host.post_failure(memory, first.id(), why, first.nsid, 0);
            }
            (None, _) => {}
        }
        match command.flags & FUSE {
            0 => self.execute_io(memory, command),
            FIRST if command.opcode == COMPARE => {
                // The next command of the queue is to be the second one.
                if let Some(queue) = self.host.queues.submission_mut(command.sq) {
                    queue.fused = Some(*command);
                }
                Ok(Outcome::Pending)
            }
            SECOND => Err(StatusCode::MissingFusedCommand.at(location::FLAGS)),
            _ => Err(StatusCode::InvalidField.at(location::FLAGS)),
        }
    }

    /// Begins a pair that can be carried out. Where one of the two is wrong, the other fails with it.
    fn begin_fused(
        &mut self,
        memory: &dyn Memory,
        mut compare: SubmissionEntry,
        mut write: SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        compare.flags &= !FUSE;
        write.flags &= !FUSE;
        let other = StatusCode::FailedFusedCommand.into();
        let checked = self.check_fused(&compare, COMPARE).and_then(|blocks| {
            let same = (write.nsid, write.starting_lba(), write.cdw12 & 0xffff)
                == (compare.nsid, compare.starting_lba(), compare.cdw12 & 0xffff);
            same.then_some(blocks).ok_or(StatusCode::InvalidField.at(location::CDW10))
        });
        if let Err(failure) = checked {
            self.log_refused(&compare, failure.status);
            self.host.post_failure(memory, compare.id(), failure, compare.nsid, 0);
            return Err(other);
        }
        if let Err(failure) = self.check_fused(&write, WRITE) {
            self.host.post_failure(memory, compare.id(), other, compare.nsid, 0);
            return Err(failure);
        }
        self.io.commands.fused.begin(compare, write);
        self.go_on_fused(memory);
        Ok(Outcome::Pending)
    }

    /// Checks one of a pair.
    fn check_fused(&self, command: &SubmissionEntry, opcode: u8) -> Result<(), Failure> {
        if command.opcode != opcode || self.io.namespaces.chunks(command.nsid).is_some() {
            return Err(StatusCode::InvalidField.at(location::FLAGS));
        }
        self.admit(command)?;
        let namespace = match opcode {
            WRITE => self.io.writable_namespace(command.nsid)?,
            _ => self.io.namespace(command.nsid)?,
        };
        let extent = Extent::of(namespace, command)?;
        let blocks = extent.blocks;
        let atomicity = Atomicity::of(namespace, self.io.config.atomic_unit);
        if blocks > 1 && !atomicity.is_some_and(|atomicity| atomicity.holds(extent.lba, blocks)) {
            return Err(StatusCode::AtomicWriteUnitExceeded.at(location::CDW12));
        }
        Ok(())
    }

    /// Goes on with the controller's pair, for which the way may be free now.
    pub(crate) fn go_on_fused(&mut self, memory: &dyn Memory) {
        let Some(Pair { compare, write, stage }) = self.io.commands.fused.of(self.host.id) else {
            return;
        };
        if stage == Stage::Waiting {
            if self.io.commands.slots.any(|slot| slot.nsid == compare.nsid) {
                return;
            }
            match self.io.transfer(memory, &compare, Transfer::Compare) {
                Ok(_) => self.io.commands.fused.set(Stage::Comparing),
                Err(failure) => {
                    self.host.post_failure(memory, compare.id(), failure, compare.nsid, 0);
                    self.fail_fused_write(memory, &write);
                }
            }
            return;
        }
        // Aborted: its request is nobody's.
        let under_way = if stage == Stage::Comparing { compare } else { write };
        if self.io.commands.slots.namespace_of(under_way.id()).is_none() {
            match stage {
                Stage::Comparing => self.fail_fused_write(memory, &write),
                _ => self.io.commands.fused.end(),
            }
            self.host.queues.wait_for_room();
        }
    }

    /// The Compare of a pair may have ended, with a failure or without: writes, or does not.
    pub(super) fn fused_compared(&mut self, memory: &dyn Memory, command: CommandId, equal: bool) {
        let Some(write) = self.io.commands.fused.compared(command) else { return };
        if !equal {
            return self.fail_fused_write(memory, &write);
        }
        match self.io.transfer(memory, &write, Transfer::Write) {
            Ok(_) => self.io.commands.fused.set(Stage::Writing),
            Err(failure) => {
                self.io.commands.fused.end();
                self.host.post_failure(memory, write.id(), failure, write.nsid, 0);
            }
        }
    }

    fn fail_fused_write(&mut self, memory: &dyn Memory, write: &SubmissionEntry) {
        self.io.commands.fused.end();
        let why = StatusCode::FailedFusedCommand.into();
        self.host.post_failure(memory, write.id(), why, write.nsid, 0);
    }
}
