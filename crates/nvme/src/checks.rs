//! Commands about whether blocks can be read: Verify and Write Uncorrectable
//! (NVMe 1.4 sections 6.14 and 6.16).

use stasis_block::{Command, Operation};

use crate::command::SubmissionEntry;
use crate::controller::Controller;
use crate::io::{extent_of, Extent};
use crate::slots::{CommandId, Owner, Slot};
use crate::status::{Failure, Outcome, StatusCode};

impl Controller {
    /// Verify: the drive reads the blocks, and nothing is transferred.
    pub(crate) fn verify(
        &mut self,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let extent = extent_of(self.io_namespace(command.nsid)?, command)?;
        self.check_readable(command.nsid, &extent)?;
        let fua = self.is_forced(command, Operation::Verify);
        let verify =
            Command { fua, ..Command::new(Operation::Verify, extent.offset, extent.length) };
        let owner = Owner::Command(CommandId { sq: queue, cid: command.cid });
        let slot = Slot::new(owner, &verify, command.nsid, extent.lba);
        self.request(queue, slot, verify);
        Ok(Outcome::Pending)
    }

    /// Write Uncorrectable: the blocks cannot be read until they are written.
    pub(crate) fn write_uncorrectable(
        &mut self,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let extent = extent_of(self.writable_namespace(command.nsid)?, command)?;
        self.check_zones(command.nsid, Operation::Write, &extent)?;
        let marks = self.namespaces.marks_mut(command.nsid);
        if !marks.is_some_and(|marks| marks.insert(extent.range())) {
            return Err(StatusCode::InternalError.into());
        }
        self.enter_zones(command.nsid, Operation::Write, extent.offset, extent.length);
        Ok(Outcome::Done(0))
    }

    /// Whether the blocks can be read: none is marked as uncorrectable.
    pub(crate) fn check_readable(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        let marks = self.namespaces.marks(nsid).filter(|marks| !marks.is_empty());
        if marks.is_some_and(|marks| marks.overlaps(&extent.range())) {
            return Err(StatusCode::UnrecoveredReadError.into());
        }
        self.check_zones(nsid, Operation::Read, extent)
    }

    /// Whether the marks of the blocks can be cleared when they are written,
    /// which can make two ranges of one.
    pub(crate) fn check_clearing(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        let marks = self.namespaces.marks(nsid).filter(|marks| marks.is_full());
        if marks.is_some_and(|marks| marks.overlaps(&extent.range())) {
            return Err(StatusCode::WriteFault.into());
        }
        Ok(())
    }

    /// Whether the blocks can be written now.
    pub(crate) fn check_writable(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        self.check_clearing(nsid, extent)?;
        self.check_zones(nsid, Operation::Write, extent)
    }

    /// A request has given blocks new contents.
    pub(crate) fn clear_marks(&mut self, slot: &Slot) {
        let changes = matches!(
            slot.operation,
            Operation::Write | Operation::WriteZeroes | Operation::Discard | Operation::Copy
        );
        if !changes {
            return;
        }
        let Some(marks) = self.namespaces.marks_mut(slot.nsid) else { return };
        if !marks.is_empty() {
            marks.remove(slot.offset..slot.offset + slot.length);
        }
    }
}
