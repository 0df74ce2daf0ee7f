//! Namespace Management (NVMe 2.0 section 5.23): a host creates namespaces of the subsystem's
//! unallocated capacity, and deletes them.
//!
//! A host deletes only what is granted to it and what no other host has: others are strangers to
//! it. A private namespace is granted to its creator, a shared one to every host.

use stasis_nvme_layout::identify::NamespaceCreation;
use stasis_nvme_layout::IntoBytes;

use crate::capsules::ConnectedHost;
use crate::command::{location, of_any_namespace, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::config::NVM_COMMAND_SET;
use crate::context::{AdminCommand, ControllerMut};
use crate::formatting::{Then, MANAGEMENT_DELETE};
use crate::metadata::BlockFormat;
use crate::placement::PlacementState;
use crate::registered::{always, CHANGES_CONTENTS, CHANGES_INVENTORY, OF_SUBSYSTEM, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{ana, Memory};

pub const NAMESPACE_MANAGEMENT: AdminCommand = AdminCommand {
    opcode: of_any_namespace::NAMESPACE_MANAGEMENT,
    effects: SUPPORTED | CHANGES_CONTENTS | CHANGES_INVENTORY | OF_SUBSYSTEM,
    announced: always,
    identify: 1 << 3,
    counts_as: None,
    during_sanitize: false,
    execute: manage,
};

/// Select: creation.
const CREATE: u32 = 0;

fn manage(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    match command.cdw10 & 0xf {
        CREATE => create(controller, memory, command),
        MANAGEMENT_DELETE => delete(controller, memory, command),
        _ => Err(StatusCode::InvalidField.at(location::CDW10)),
    }
}

/// The fields of Identify Namespace that a host gives of a new one (section 5.23, "Host Software
/// Specified Fields").
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    blocks: u64,
    format: BlockFormat,
    /// The endurance group and the NVM set; 0: any.
    home: (u16, u16),
    shared: bool,
    /// The reclaim unit handles of its placement handles.
    handles: Vec<u8>,
}

impl Wanted {
    fn parse(page: &NamespaceCreation, controller: &ControllerMut) -> Result<Self, Failure> {
        let (size, capacity) = (page.nsze.get(), page.ncap.get());
        let NamespaceCreation { flbas: format, dps: protection, nmic: sharing, .. } = *page;
        // The number of the format is in bits 6:5 and 3:0; bit 4: metadata behind the data. Of the
        // protection bit 3 tells that it is first.
        let number = format & 0xf | (format >> 5 & 3) << 4;
        let (extended, first) = (format >> 4 & 1 == 1, protection >> 3 & 1 == 1);
        let protection = protection & 7 | protection & 0xf0;
        let format = controller.format_of(number.into(), extended, protection, first);
        let format = format.ok_or(StatusCode::InvalidFormat)?;
        if size == 0 || capacity > size || sharing > 1 {
            return Err(StatusCode::InvalidField.into());
        }
        if capacity < size {
            return Err(StatusCode::ThinProvisioningNotSupported.into());
        }
        if !matches!(page.anagrpid.get(), 0 | ana::GROUP) {
            return Err(StatusCode::AnaGroupIdentifierInvalid.into());
        }
        let (set, group) = (page.nvmsetid.get(), page.endgid.get());
        let endurance = &controller.io.endurance;
        // A set is named with its group; either can be left to the controller (section 8.12.1).
        let is_home = match (group, set) {
            (0, 0) => true,
            (group, 0) => endurance.group(group).is_some(),
            _ => endurance.parts().iter().any(|part| (part.group, part.set) == (group, set)),
        };
        // Logical Block Storage Tag Mask.
        if !is_home || page.lbstm != 0 {
            return Err(StatusCode::InvalidField.into());
        }
        let handles = handles_of(page, controller, group)?;
        Ok(Self { blocks: size, format, home: (group, set), shared: sharing == 1, handles })
    }
}

/// The Placement Handle List of a new namespace (NVMe TP4146): different reclaim unit handles of its
/// endurance group.
fn handles_of(
    page: &NamespaceCreation,
    controller: &ControllerMut,
    group: u16,
) -> Result<Vec<u8>, Failure> {
    let count = usize::from(page.nphndls.get());
    if count == 0 {
        return Ok(Vec::new());
    }
    let PlacementState::Fdp(groups) = &controller.io.placement else {
        return Err(StatusCode::InvalidField.into());
    };
    let mut enabled =
        groups.iter().filter(|(id, fdp)| fdp.is_enabled() && (group == 0 || *id == group));
    let (_, fdp) = enabled.next().ok_or(StatusCode::FdpDisabled)?;
    let wrong = StatusCode::InvalidPlacementHandles;
    let listed = page.phndl.get(..count).ok_or(wrong)?;
    let mut handles = Vec::new();
    for handle in listed {
        let handle = fdp.handle(&[], handle.get()).filter(|handle| !handles.contains(handle));
        handles.push(handle.ok_or(wrong)?);
    }
    Ok(handles)
}

fn create(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    if command.nsid != 0 {
        return Err(StatusCode::InvalidField.at(location::NSID));
    }
    if command.cdw11.byte(3) != NVM_COMMAND_SET {
        return Err(StatusCode::CommandSetNotSupported.at(location::CDW11 + 3));
    }
    let mut page = NamespaceCreation::default();
    controller.io.receive(memory, command, page.as_mut_bytes())?;
    let Wanted { blocks, format, home, shared, handles } = Wanted::parse(&page, controller)?;
    let ControllerMut { io, host, .. } = &mut *controller;
    let nqn = host.connected.as_ref().map(|ConnectedHost { nqn, .. }| nqn.as_str());
    let nsid = io.create_namespace((blocks, format), home, shared, (nqn, handles))?;
    if let Some(event) = io.namespace_event(CREATE, nsid) {
        io.log_event(host.id, &event);
    }
    Ok(Outcome::Done(nsid.into()))
}

fn delete(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let ControllerMut { io, host, .. } = &*controller;
    let nsids = match command.nsid {
        ALL_NAMESPACES => io.namespaces.nsids_on_drive().collect(),
        nsid => vec![nsid],
    };
    if controller.formatting.is_under_way() {
        return Err(StatusCode::FormatInProgress.into());
    }
    let nqn = host.connected.as_ref().map(|ConnectedHost { nqn, .. }| nqn.as_str());
    for &nsid in &nsids {
        io.namespaces.existing(nsid)?;
        let attachments = &io.access.attachments;
        let strange = |id| attachments.has(id, nsid) && !attachments.is_of_same_host(id, host.id);
        let stays = !io.namespaces.is_on_drive(nsid);
        if stays || !attachments.is_granted(nqn, nsid) || attachments.controllers().any(strange) {
            return Err(StatusCode::OperationDenied.at(location::NSID));
        }
        io.writable_namespace(nsid)?;
        let reserved = io.access.reservations.check(command.controller, nsid, None);
        reserved.map_err(|status| status.at(location::NSID))?;
    }
    controller.check_access()?;
    // A later namespace finds nobody's data there.
    let erase = controller.io.config.erasure();
    controller.formatting.begin(controller.io, command.id(), nsids, Then::Delete, erase);
    controller.go_on_formatting(memory);
    Ok(Outcome::Pending)
}
