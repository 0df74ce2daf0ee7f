//! Abort (NVMe 1.4 section 5.1). What the drive has begun it may still do, but the
//! guest's memory is not touched for it any more.

use crate::command::SubmissionEntry;
use crate::commands::Registered;
use crate::controller::Controller;
use crate::slots::CommandId;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

pub const ABORT: Registered = Registered::plain(0x08, Controller::abort);

impl Controller {
    fn abort(
        &mut self,
        memory: &dyn Memory,
        _queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let wanted = CommandId { sq: command.cdw10 as u16, cid: (command.cdw10 >> 16) as u16 };
        let mut found = wanted.sq == 0
            && (self.events.withdraw(wanted.cid) || self.vendor.withdraw(wanted.cid));
        self.slots.abandon(|id| id == wanted, |_| found = true);
        if found {
            self.post_failure(memory, wanted, StatusCode::AbortRequested.into(), 0, 0);
            self.go_on_formatting(memory);
        }
        // Dword 0 of the completion: bit 0 is set if nothing was aborted.
        Ok(Outcome::Done(u32::from(!found)))
    }
}
