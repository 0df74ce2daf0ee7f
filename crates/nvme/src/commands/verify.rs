//! Verify (NVMe 1.4 section 6.14): the drive reads the blocks, and nothing is
//! transferred.

use stasis_block::{Command, Operation};

use super::{always, Registered, SUPPORTED};
use crate::command::SubmissionEntry;
use crate::controller::Controller;
use crate::io::extent_of;
use crate::slots::{CommandId, Owner, Slot};
use crate::status::{Failure, Outcome};
use crate::Memory;

pub(super) const COMMAND: Registered = Registered {
    opcode: 0x0c,
    effects: SUPPORTED,
    announced: always,
    identify: 1 << 7,
    counts_as: Some(Operation::Verify),
    execute: Controller::verify,
};

impl Controller {
    fn verify(
        &mut self,
        _memory: &dyn Memory,
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
}
