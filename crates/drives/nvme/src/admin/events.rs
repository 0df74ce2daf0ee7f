//! Asynchronous Event Request (NVMe 1.4 section 5.2).

use crate::command::{location, SubmissionEntry};
use crate::context::ControllerMut;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use crate::context::AdminCommand;

pub const ASYNCHRONOUS_EVENT_REQUEST: AdminCommand = AdminCommand::plain(0x0c, request_event);

/// Completes when something happens.
fn request_event(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    if !controller.host.events.request(command.cid) {
        return Err(StatusCode::AsynchronousEventLimitExceeded.at(location::OPCODE));
    }
    controller.host.post_events(memory);
    Ok(Outcome::Pending)
}
