//! Whether blocks can be read and written: what Write Uncorrectable has marked.

use stasis_block::Operation;

use crate::controller::Controller;
use crate::io::Extent;
use crate::slots::Slot;
use crate::status::{Failure, StatusCode};

impl Controller {
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
