//! Discovery controllers: which subsystems a host can connect to (NVMe-oF 1.1 section 4).

use stasis_nvme_layout::fabrics::{self as layout, DiscoveryHead};
use stasis_nvme_layout::identify::IdentifyController;
use stasis_nvme_layout::IntoBytes;

use crate::capsules::{DiscoveryEntry, ANY_CONTROLLER, DISCOVERY_NQN};
use crate::command::{location, Dword, SubmissionEntry};
use crate::context::{AdminCommand, ControllerMut};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{log_page, Memory};

use super::identify::{fill_any_controller, put_name, put_text};
use super::log::Part;

pub const DISCOVERY_LOG: AdminCommand = AdminCommand::plain(0x02, get_log_page);
pub const IDENTIFY_DISCOVERY: AdminCommand = AdminCommand::plain(0x06, identify);

/// Get Log Page: the discovery log (NVMe-oF 1.1 section 5.3).
fn get_log_page(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    if command.cdw10.byte(0) != log_page::DISCOVERY {
        return Err(StatusCode::InvalidLogPage.at(location::CDW10));
    }
    let part = Part::of(controller, command)?;
    let log = to_page(&controller.host.discovery);
    part.send(controller, memory, command, &log)?;
    Ok(Outcome::Done(0))
}

/// The discovery log page (NVMe-oF 1.1 figures 38 and 39).
fn to_page(entries: &[DiscoveryEntry]) -> Vec<u8> {
    const TCP: u8 = 3;
    const IPV4: u8 = 1;
    const IPV6: u8 = 2;
    const NVM_SUBSYSTEM: u8 = 2;
    // Secure channel not required; flow control may be turned off.
    const TREQ: u8 = 2 | 1 << 2;
    const ADMIN_QUEUE_SIZE: u16 = 32;
    // The generation: the list does not change while a controller exists.
    let (genctr, numrec) = (1.into(), (entries.len() as u64).into());
    let head = DiscoveryHead { genctr, numrec, ..Default::default() };
    let mut log = head.as_bytes().to_vec();
    for entry in entries {
        let mut record = layout::DiscoveryEntry {
            trtype: TCP,
            adrfam: if entry.address.is_ipv4() { IPV4 } else { IPV6 },
            subtype: NVM_SUBSYSTEM,
            treq: TREQ,
            portid: entry.path.into(),
            cntlid: ANY_CONTROLLER.into(),
            asqsz: ADMIN_QUEUE_SIZE.into(),
            ..Default::default()
        };
        put_text(&mut record.trsvcid, &entry.address.port().to_string());
        put_name(&mut record.subnqn, &entry.nqn);
        put_text(&mut record.traddr, &entry.address.ip().to_string());
        log.extend(record.as_bytes());
    }
    log
}

/// Identify of a discovery controller (NVMe-oF 1.1 section 4.2): the controller only.
fn identify(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    const CONTROLLER: u8 = 1;
    const CNTRLTYPE_DISCOVERY: u8 = 2;
    // Get Log Page with offsets.
    const LPA: u8 = 1 << 2;
    if command.cdw10.byte(0) != CONTROLLER {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    let mut page = IdentifyController::default();
    fill_any_controller(&mut page, controller);
    page.cntrltype = CNTRLTYPE_DISCOVERY;
    page.lpa = LPA;
    put_name(&mut page.subnqn, DISCOVERY_NQN);
    controller.io.send(memory, command, page.as_bytes())?;
    Ok(Outcome::Done(0))
}
