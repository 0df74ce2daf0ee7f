//! Abort (NVMe 1.4 section 5.1). The drive may still complete requests that it has begun, but they
//! no longer access the guest's memory.

use crate::command::{CommandId, Dword, SubmissionEntry};
use crate::context::ControllerMut;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use crate::context::AdminCommand;

pub const ABORT: AdminCommand = AdminCommand::plain(0x08, abort);

fn abort(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let wanted = CommandId {
        controller: command.controller,
        sq: command.cdw10.low(),
        cid: command.cdw10.high(),
    };
    let mut found = wanted.sq == 0
        && (controller.host.events.withdraw(wanted.cid) || controller.vendor.withdraw(wanted));
    let nsid = controller.io.commands.slots.namespace_of(wanted).unwrap_or(0);
    controller.io.commands.slots.abandon(|id| id == wanted, |_| found = true);
    found |= controller.io.background.lba_scans.end(wanted).is_some();
    if found {
        controller.host.post_failure(memory, wanted, StatusCode::AbortRequested.into(), nsid, 0);
        controller.go_on_formatting(memory);
        controller.go_on_fused(memory);
    }
    // Dword 0 of the completion: bit 0 is set if nothing was aborted.
    Ok(Outcome::Done(u64::from(!found)))
}
