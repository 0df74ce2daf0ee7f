//! Discovery controllers: which subsystems a host can connect to (NVMe-oF 1.1 section 4).

use crate::capsules::{DiscoveryEntry, DISCOVERY_NQN, IOCCSZ, IORCSZ};
use crate::command::{location, SubmissionEntry};
use crate::context::AdminCommand;
use crate::context::ControllerMut;
use crate::events::MAX_EVENT_REQUESTS;
use crate::keep_alive;
use crate::registers::VERSION;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{log_page, sgl, Memory, PAGE_SIZE};

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
    let dwords = u64::from(command.cdw10 >> 16) | u64::from(command.cdw11 & 0xffff) << 16;
    let length = (dwords + 1) * 4;
    let offset = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
    if length > u64::from(controller.io.config.max_transfer) {
        return Err(StatusCode::InvalidField.at(location::CDW10 + 2));
    }
    let log = to_page(&controller.host.discovery);
    let rest = usize::try_from(offset).ok().filter(|at| at % 4 == 0).and_then(|at| log.get(at..));
    let rest = rest.ok_or(StatusCode::InvalidField.at(location::CDW12))?;
    controller.io.send_of(memory, command, rest, length)?;
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
    const ANY_CONTROLLER: u16 = 0xffff;
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
        raw[4..6].copy_from_slice(&1u16.to_le_bytes());
        raw[6..8].copy_from_slice(&ANY_CONTROLLER.to_le_bytes());
        raw[8..10].copy_from_slice(&ADMIN_QUEUE_SIZE.to_le_bytes());
        put_padded(&mut raw[32..64], &entry.address.port().to_string());
        raw[256..256 + entry.nqn.len().min(255)]
            .copy_from_slice(&entry.nqn.as_bytes()[..entry.nqn.len().min(255)]);
        put_padded(&mut raw[512..768], &entry.address.ip().to_string());
    }
    log
}

/// Text padded with spaces.
fn put_padded(field: &mut [u8], text: &str) {
    field.fill(b' ');
    field[..text.len()].copy_from_slice(text.as_bytes());
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
    let config = &controller.io.config;
    let mut page = [0; PAGE_SIZE];
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    put(4, &[b' '; 60]);
    put(4, config.serial.as_bytes());
    put(24, config.model.as_bytes());
    put(64, &[b' '; 8]);
    put(64, config.firmware.as_bytes());
    put(77, &[(config.max_transfer / PAGE_SIZE as u32).trailing_zeros() as u8]);
    put(78, &controller.host.id.0.to_le_bytes());
    put(80, &VERSION.to_le_bytes());
    put(111, &[CNTRLTYPE_DISCOVERY]);
    put(259, &[MAX_EVENT_REQUESTS as u8 - 1]);
    put(261, &[LPA]);
    put(320, &keep_alive::GRANULARITY.to_le_bytes());
    put(514, &config.queue_entries.to_le_bytes());
    put(536, &sgl::FABRICS_SUPPORT.to_le_bytes());
    put(768, DISCOVERY_NQN.as_bytes());
    put(1792, &IOCCSZ.to_le_bytes());
    put(1796, &IORCSZ.to_le_bytes());
    controller.io.send(memory, command, &page)?;
    Ok(Outcome::Done(0))
}
