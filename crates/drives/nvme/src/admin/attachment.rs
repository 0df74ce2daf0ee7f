//! Namespace Attachment (NVMe 2.0 section 5.22): a host attaches namespaces to its controllers, and
//! detaches them.
//!
//! A host has a say in its own controllers only, and attaches only what is granted to it: other
//! hosts are strangers to it.

use stasis_nvme_layout::identify::IdList;
use stasis_nvme_layout::IntoBytes;

use crate::capsules::ConnectedHost;
use crate::changes::Change;
use crate::command::{location, of_any_namespace, SubmissionEntry, ALL_NAMESPACES};
use crate::context::{AdminCommand, ControllerMut};
use crate::controller_id::ControllerId;
use crate::registered::{always, CHANGES_INVENTORY, OF_NAMESPACE, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

pub const NAMESPACE_ATTACHMENT: AdminCommand = AdminCommand {
    opcode: of_any_namespace::NAMESPACE_ATTACHMENT,
    effects: SUPPORTED | CHANGES_INVENTORY | OF_NAMESPACE,
    announced: always,
    identify: 1 << 3,
    counts_as: None,
    during_sanitize: false,
    execute: attachment,
};

fn attachment(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    const ATTACH: u32 = 0;
    const DETACH: u32 = 1;
    let attach = match command.cdw10 & 0xf {
        ATTACH => true,
        DETACH => false,
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    };
    let nsid = command.nsid;
    if nsid == ALL_NAMESPACES {
        return Err(StatusCode::InvalidField.at(location::NSID));
    }
    controller.io.namespaces.existing(nsid)?;
    let mut page = IdList::default();
    controller.io.receive(memory, command, page.as_mut_bytes())?;
    let listed = parse_list(&page)?;
    let ControllerMut { io, host, .. } = controller;
    let nqn = host.connected.as_ref().map(|ConnectedHost { nqn, .. }| nqn.as_str());
    let attachments = &io.access.attachments;
    let private = attachments.is_private(nsid);
    let taken = private && attachments.is_attached(nsid);
    for &id in &listed {
        if !attachments.controllers().any(|other| other == id) {
            return Err(StatusCode::ControllerListInvalid.into());
        }
        if !attachments.is_of_same_host(id, host.id) || attach && !attachments.is_granted(nqn, nsid)
        {
            return Err(StatusCode::OperationDenied.at(location::NSID));
        }
        match (attach, attachments.has(id, nsid)) {
            (true, true) => return Err(StatusCode::NamespaceAlreadyAttached.into()),
            (false, false) => return Err(StatusCode::NamespaceNotAttached.into()),
            (true, false) if taken || private && listed.len() > 1 => {
                return Err(StatusCode::NamespaceIsPrivate.into());
            }
            _ => {}
        }
    }
    let on_pcie = nqn.is_none();
    for id in listed {
        io.access.attachments.set(id, nsid, attach);
        io.reports.changes.add(Change::Attachment(id, nsid));
    }
    if on_pcie {
        // The last one of several hosts to detach it decides how the next power cycle begins.
        let detached = !io.access.attachments.is_attached(nsid);
        io.access.attachments.set_detached(nsid, detached);
    }
    controller.report_changes(memory);
    Ok(Outcome::Done(0))
}

/// The identifiers of a Controller List, which ascend.
fn parse_list(page: &IdList) -> Result<Vec<ControllerId>, Failure> {
    let count = usize::from(page.count);
    let ids: Vec<_> = page.ids.iter().take(count).map(|id| ControllerId(id.get())).collect();
    if !(1..=page.ids.len()).contains(&count) || !ids.is_sorted_by(|one, other| one < other) {
        return Err(StatusCode::ControllerListInvalid.into());
    }
    Ok(ids)
}
