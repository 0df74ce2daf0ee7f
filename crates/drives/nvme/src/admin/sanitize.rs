//! Sanitize (NVMe 2.0 section 5.24): begins an operation, or leaves the failure of the last one.

use crate::command::{location, SubmissionEntry};
use crate::config::Config;
use crate::context::{AdminCommand, ControllerMut};
use crate::event_log::Occurrence;
use crate::registered::{ALONE, CHANGES_CONTENTS, OF_SUBSYSTEM, SUPPORTED};
use crate::sanitize::{field, Action};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

/// Exit Failure Mode, in Sanitize Action.
const EXIT_FAILURE_MODE: u32 = 1;

pub const SANITIZE: AdminCommand = AdminCommand {
    opcode: 0x84,
    effects: SUPPORTED | CHANGES_CONTENTS | ALONE | OF_SUBSYSTEM,
    announced: is_offered,
    identify: 0,
    counts_as: None,
    during_sanitize: true,
    execute: sanitize,
};

/// Chunks have states that an erasure behind them would contradict.
fn is_offered(config: &Config, _set: u8) -> bool {
    !config.has_chunks()
}

/// SANICAP of Identify Controller: crypto erase, block erase and overwrite; blocks stay allocated if
/// asked so, and the media are not modified afterwards.
pub fn capabilities(config: &Config) -> u32 {
    const NOT_MODIFIED_AFTERWARDS: u32 = 1 << 30;
    match is_offered(config, 0) {
        true => 1 | 1 << 1 | 1 << 2 | NOT_MODIFIED_AFTERWARDS,
        false => 0,
    }
}

fn sanitize(
    controller: &mut ControllerMut,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let io = &mut *controller.io;
    if !is_offered(&io.config, 0) {
        return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
    }
    if io.background.sanitize.is_under_way() {
        return Err(StatusCode::SanitizeInProgress.into());
    }
    if command.cdw10 & 7 == EXIT_FAILURE_MODE {
        return match io.background.sanitize.failed() {
            // An operation in restricted completion mode leaves only by another that succeeds.
            Some(restricted) if restricted => Err(StatusCode::SanitizeFailed.into()),
            Some(_) => {
                io.exit_sanitize_failure();
                Ok(Outcome::Done(0))
            }
            None => Ok(Outcome::Done(0)),
        };
    }
    if Action::of(command.cdw10).is_none() {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    let unrestricted = command.cdw10 & field::UNRESTRICTED != 0;
    if io.background.sanitize.failed() == Some(true) && unrestricted {
        return Err(StatusCode::SanitizeFailed.into());
    }
    if controller.formatting.is_under_way() {
        return Err(StatusCode::FormatInProgress.into());
    }
    let nsids: Vec<u32> = io.namespaces.nsids_on_drive().collect();
    for nsid in nsids {
        io.writable_namespace(nsid)?;
        let reserved = io.access.reservations.check(command.controller, nsid, None);
        reserved.map_err(|status| status.at(location::NSID))?;
    }
    let dwords = [command.cdw10, command.cdw11];
    let event = Occurrence::SanitizeStart { capabilities: capabilities(&io.config), dwords };
    io.log_event(command.controller, &event);
    io.begin_sanitize(command.cdw10, command.cdw11);
    Ok(Outcome::Done(0))
}
