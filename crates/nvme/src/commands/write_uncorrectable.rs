//! Write Uncorrectable (NVMe 1.4 section 6.16): the blocks cannot be read until
//! they are written.

use stasis_block::Operation;

use super::{always, Registered, CHANGES_CONTENTS, SUPPORTED};
use crate::command::SubmissionEntry;
use crate::controller::Controller;
use crate::io::extent_of;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

pub(super) const COMMAND: Registered = Registered {
    opcode: 0x04,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 1 << 1,
    counts_as: None,
    execute: Controller::write_uncorrectable,
};

impl Controller {
    fn write_uncorrectable(
        &mut self,
        _memory: &dyn Memory,
        _queue: u16,
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
}
