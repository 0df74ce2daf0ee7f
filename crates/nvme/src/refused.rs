//! I/O commands that the controller refuses: for who keeps a record of every I/O.

use stasis_block::{Command, Operation, Refused};

use crate::command::SubmissionEntry;
use crate::commands;
use crate::controller::Controller;
use crate::status::StatusCode;

impl Controller {
    /// Notes that a command of an I/O queue was refused. What would have been no I/O, such
    /// as a report of zones, is not noted.
    pub(crate) fn log_refused(&mut self, queue: u16, entry: &SubmissionEntry, code: StatusCode) {
        let known = commands::IO.find(entry.opcode).filter(|_| queue != 0);
        let Some(operation) = known.and_then(|known| known.counts_as) else { return };
        if !self.outgoing.keeps_refused() {
            return;
        }
        let mut command = Command::new(operation, 0, 0);
        let ranged = matches!(
            operation,
            Operation::Read | Operation::Write | Operation::WriteZeroes | Operation::Verify
        );
        if let (Some(namespace), true) = (self.config.namespace(entry.nsid), ranged) {
            // What was asked, as far as numbers go: it may lie beyond the drive.
            let size = u64::from(namespace.block_size);
            let lba = u64::from(entry.cdw10) | u64::from(entry.cdw11) << 32;
            command.offset = lba.saturating_mul(size).saturating_add(namespace.start);
            command.length = (u64::from(entry.cdw12 & 0xffff) + 1) * size;
            command.fua = self.is_forced(entry, operation);
        }
        self.outgoing.refuse(Refused { queue, command, code: code as u16 });
    }
}
