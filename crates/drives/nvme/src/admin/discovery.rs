//! Discovery controllers: which subsystems a host can connect to (NVMe-oF 1.1 section 4).

use crate::capsules::{DiscoveryEntry, ANY_CONTROLLER, DISCOVERY_NQN};
use crate::command::{location, SubmissionEntry};
use crate::context::{AdminCommand, ControllerMut};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{log_page, Memory, PAGE_SIZE};

use super::identify::{fill_any_controller, put_text};
use super::log::Part;

/// Length of an entry of the log, and of its header, in bytes.
const ENTRY: usize = 1024;

pub const DISCOVERY_LOG: AdminCommand = AdminCommand::plain(0x02, get_log_page);
pub const IDENTIFY_DISCOVERY: AdminCommand = AdminCommand::plain(0x06, identify);

/// Get Log Page: the discovery log (NVMe-oF 1.1 section 5.3).
fn get_log_page(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    if command.cdw10 as u8 != log_page::DISCOVERY {
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
    let mut log = vec![0; ENTRY * (1 + entries.len())];
    // The generation: the list does not change while a controller exists.
    log[0] = 1;
    log[8..16].copy_from_slice(&(entries.len() as u64).to_le_bytes());
    for (raw, entry) in log.chunks_exact_mut(ENTRY).skip(1).zip(entries) {
        raw[0] = TCP;
        raw[1] = if entry.address.is_ipv4() { IPV4 } else { IPV6 };
        raw[2] = NVM_SUBSYSTEM;
        raw[3] = TREQ;
        raw[4..6].copy_from_slice(&entry.path.to_le_bytes());
        raw[6..8].copy_from_slice(&ANY_CONTROLLER.to_le_bytes());
        raw[8..10].copy_from_slice(&ADMIN_QUEUE_SIZE.to_le_bytes());
        put_text(&mut raw[32..64], &entry.address.port().to_string());
        raw[256..256 + entry.nqn.len().min(255)]
            .copy_from_slice(&entry.nqn.as_bytes()[..entry.nqn.len().min(255)]);
        put_text(&mut raw[512..768], &entry.address.ip().to_string());
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
    if command.cdw10 as u8 != CONTROLLER {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    let mut page = [0; PAGE_SIZE];
    fill_any_controller(&mut page, controller);
    page[111] = CNTRLTYPE_DISCOVERY;
    page[261] = LPA;
    page[768..768 + DISCOVERY_NQN.len()].copy_from_slice(DISCOVERY_NQN.as_bytes());
    controller.io.send(memory, command, &page)?;
    Ok(Outcome::Done(0))
}
