//! Flush (NVMe 1.4 section 6.8), of one namespace or of all.

use stasis_block::Operation;

use super::{always, Registered, SUPPORTED};
use crate::command::SubmissionEntry;
use crate::controller::Controller;
use crate::io::ALL_NAMESPACES;
use crate::slots::{CommandId, Owner};
use crate::status::{Failure, Outcome};
use crate::Memory;

pub(super) const COMMAND: Registered = Registered {
    opcode: 0x00,
    effects: SUPPORTED,
    announced: always,
    identify: 0,
    counts_as: Some(Operation::Flush),
    execute: Controller::flush,
};

impl Controller {
    fn flush(
        &mut self,
        _memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let id = CommandId { sq: queue, cid: command.cid };
        if command.nsid == ALL_NAMESPACES {
            let count = self.config.namespaces.len() as u32;
            for nsid in 1..=count {
                self.io_namespace(nsid)?;
            }
            let group = self.slots.insert_group(id, count, false);
            for nsid in 1..=count {
                self.request_flush(queue, nsid, Owner::Part { group, part: nsid - 1 });
            }
        } else {
            self.io_namespace(command.nsid)?;
            self.request_flush(queue, command.nsid, Owner::Command(id));
        }
        Ok(Outcome::Pending)
    }
}
