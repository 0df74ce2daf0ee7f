//! Format NVM (NVMe 1.4 section 5.23): a namespace's contents go, and its
//! blocks may get another size.

use stasis_block::Operation;

use crate::command::{location, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::context::ControllerMut;
use crate::event_log::Occurrence;
use crate::formatting::Then;
use crate::registered::{
    always, ALONE, CHANGES_CAPABILITIES, CHANGES_CONTENTS, OF_NAMESPACE, SUPPORTED,
};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use crate::context::AdminCommand;

/// FNA of Identify Controller: a namespace is formatted and erased alone; cryptographic erase.
pub const FNA: u8 = 1 << 2;

pub const FORMAT_NVM: AdminCommand = AdminCommand {
    opcode: 0x80,
    effects: SUPPORTED | CHANGES_CONTENTS | CHANGES_CAPABILITIES | ALONE | OF_NAMESPACE,
    announced: always,
    identify: 1 << 1,
    counts_as: None,
    during_sanitize: false,
    execute: format,
};

fn format(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let nsids: Vec<u32> = match command.nsid {
        ALL_NAMESPACES => {
            let all = controller.io.access.attachments.namespaces(command.controller);
            all.filter(|&nsid| controller.io.namespaces.is_on_drive(nsid)).collect()
        }
        nsid => vec![nsid],
    };
    let invalid_format = StatusCode::InvalidFormat.at(location::CDW10);
    // MSET: metadata behind the data. PIL: protection information first.
    let (extended, first) = (command.cdw10 >> 4 & 1 == 1, command.cdw10 >> 8 & 1 == 1);
    let number = command.cdw10 & 0xf | (command.cdw10 >> 12 & 3) << 4;
    let protection = command.cdw10.byte(0) >> 5;
    let format = controller.format_of(number, extended, protection, first);
    let format = format.ok_or(invalid_format)?;
    let erase = match command.cdw10 >> 9 & 7 {
        0 => Operation::Discard,
        // User data erase, and cryptographic erase, which has no key here:
        // either way nothing can be read any more.
        1 | 2 => controller.io.config.erasure(),
        _ => return Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
    };
    if controller.formatting.is_under_way() {
        return Err(StatusCode::FormatInProgress.into());
    }
    controller.check_access()?;
    let reserved = controller.io.access.reservations.check(command.controller, command.nsid, None);
    reserved.map_err(|status| status.at(location::NSID))?;
    for &nsid in &nsids {
        let namespace = controller.io.writable_namespace(nsid)?;
        let bytes = controller.io.namespaces.capacity(nsid);
        // Pairs have one format, the first.
        let fits = match namespace.key_value {
            Some(_) => number == 0,
            None => namespace.can_have_blocks_of(format, bytes),
        };
        if !fits {
            return Err(invalid_format);
        }
    }
    let dword10 = command.cdw10;
    let event = Occurrence::FormatStart { nsid: command.nsid, abilities: FNA, dword10 };
    controller.io.log_event(command.controller, &event);
    controller.formatting.begin(controller.io, command.id(), nsids, Then::Format(format), erase);
    controller.go_on_formatting(memory);
    Ok(Outcome::Pending)
}
