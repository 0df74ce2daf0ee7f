//! Asynchronous Event Request (NVMe 1.4 section 5.2).

use crate::command::{location, SubmissionEntry};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::context::{Admin, AdminCommand};

pub const ASYNCHRONOUS_EVENT_REQUEST: AdminCommand = AdminCommand::plain(0x0c, request_event);

/// Completes when something happens.
fn request_event(
    admin: &mut Admin,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    if !admin.host.events.request(command.cid) {
        return Err(StatusCode::AsynchronousEventLimitExceeded.at(location::OPCODE));
    }
    admin.host.post_events(memory);
    Ok(Outcome::Pending)
}
