//! Write Zeroes (NVMe 1.4 section 6.17).

use stasis_block::{Command, Operation};

use super::{always, Registered, CHANGES_CONTENTS, SUPPORTED};
use crate::command::SubmissionEntry;
use crate::controller::Controller;
use crate::io::extent_of;
use crate::slots::{CommandId, Owner, Slot};
use crate::status::{Failure, Outcome};
use crate::Memory;

pub(super) const COMMAND: Registered = Registered {
    opcode: 0x08,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 1 << 3,
    counts_as: Some(Operation::WriteZeroes),
    execute: Controller::write_zeroes,
};

impl Controller {
    fn write_zeroes(
        &mut self,
        _memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let namespace = self.writable_namespace(command.nsid)?;
        let extent = extent_of(namespace, command)?;
        self.check_writable(command.nsid, &extent)?;
        let operation = Operation::WriteZeroes;
        let fua = self.is_forced(command, operation);
        let owner = Owner::Command(CommandId { sq: queue, cid: command.cid });
        let zeroes = Command { fua, ..Command::new(operation, extent.offset, extent.length) };
        let slot = Slot::new(owner, &zeroes, command.nsid, extent.lba);
        self.request(queue, slot, zeroes);
        Ok(Outcome::Pending)
    }
}
