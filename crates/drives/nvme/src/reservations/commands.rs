//! The commands of reservations (NVMe 1.4 sections 6.10 to 6.13).

use stasis_nvme_layout::reservations::{RegisteredController, ReservationStatus};
use stasis_nvme_layout::{IntoBytes, U64};

use crate::changes::Change;
use crate::command::{location, Dword, SubmissionEntry};
use crate::io::{Io, IoCommand};
use crate::narrow::count16;
use crate::registered::SUPPORTED;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::state::{Kind, ToHost};
use super::HostId;

/// Bit of ONCS that announces reservations.
const ONCS: u16 = 1 << 5;
/// Ignore Existing Key, in Dword 10.
const IGNORE_KEY: u32 = 1 << 3;

const fn command(opcode: u8, identify: u16, execute: crate::io::IoExecute) -> IoCommand {
    IoCommand {
        opcode,
        effects: SUPPORTED,
        announced: |_, _| true,
        identify,
        counts_as: None,
        during_sanitize: false,
        execute,
    }
}

pub const REGISTER: IoCommand = command(0x0d, ONCS, register);
pub const REPORT: IoCommand = command(0x0e, ONCS, report);
pub const ACQUIRE: IoCommand = command(0x11, ONCS, acquire);
pub const RELEASE: IoCommand = command(0x15, ONCS, release);

/// The host that sends a command about a namespace.
fn host(io: &Io, command: &SubmissionEntry) -> Result<HostId, Failure> {
    io.namespace(command.nsid)?;
    let host = io.access.reservations.host_of(command.controller);
    host.ok_or(StatusCode::InvalidOpcode.at(location::OPCODE))
}

/// The keys in a command's data.
fn keys<const COUNT: usize>(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<[u64; COUNT], Failure> {
    let mut keys = [U64::ZERO; COUNT];
    io.receive(memory, command, keys.as_mut_bytes())?;
    Ok(keys.map(U64::get))
}

/// The outcome of a change, whose notices go to their hosts.
fn end(
    io: &mut Io,
    nsid: u32,
    changed: Result<(), StatusCode>,
    notices: Vec<ToHost>,
) -> Result<Outcome, Failure> {
    for (host, notice) in notices {
        io.reports.changes.add(Change::Reservation(nsid, host, notice));
    }
    match changed {
        Ok(()) => Ok(Outcome::Done(0)),
        Err(status) => Err(status.at(location::CDW10)),
    }
}

/// Reservation Register (section 6.11).
fn register(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let host = host(io, command)?;
    // Persist Through Power Loss is always off: no change, or clear.
    if !matches!(command.cdw10 >> 30, 0 | 2) {
        return Err(StatusCode::InvalidField.at(location::CDW10 + 3));
    }
    let [current, new] = keys::<2>(io, memory, command)?;
    let current = (command.cdw10 & IGNORE_KEY == 0).then_some(current);
    let reservation = io.access.reservations.namespace_mut(command.nsid);
    let mut notices = Vec::new();
    let changed = match command.cdw10 & 7 {
        0 => reservation.register(host, new),
        1 => reservation.unregister(host, current, &mut notices),
        2 => reservation.replace(host, current, new),
        _ => Err(StatusCode::InvalidField),
    };
    end(io, command.nsid, changed, notices)
}

/// Reservation Acquire (section 6.10).
fn acquire(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let host = host(io, command)?;
    let kind = Kind::parse(command.cdw10.byte(1));
    let (Some(kind), 0) = (kind, command.cdw10 & IGNORE_KEY) else {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    };
    let [current, preempted] = keys::<2>(io, memory, command)?;
    let reservation = io.access.reservations.namespace_mut(command.nsid);
    let mut notices = Vec::new();
    let mut gone = Vec::new();
    let action = command.cdw10 & 7;
    let changed = match action {
        0 => reservation.acquire(host, current, kind),
        1 | 2 => reservation
            .preempt(host, current, preempted, kind, &mut notices)
            .map(|hosts| gone = hosts),
        _ => Err(StatusCode::InvalidField),
    };
    if action == 2 {
        // Preempt and Abort.
        gone.iter().for_each(|&host| io.abort_of_host(host, command.nsid));
    }
    end(io, command.nsid, changed, notices)
}

/// Reservation Release (section 6.13).
fn release(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let host = host(io, command)?;
    if command.cdw10 & IGNORE_KEY != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    let [key] = keys::<1>(io, memory, command)?;
    let kind = Kind::parse(command.cdw10.byte(1));
    let reservation = io.access.reservations.namespace_mut(command.nsid);
    let mut notices = Vec::new();
    let changed = match command.cdw10 & 7 {
        0 => reservation.release(host, key, kind, &mut notices),
        1 => reservation.clear(host, key, &mut notices),
        _ => Err(StatusCode::InvalidField),
    };
    end(io, command.nsid, changed, notices)
}

/// Reservation Report (section 6.12): with Host Identifiers of 128 bits, hence the extended data
/// structure only.
fn report(io: &mut Io, memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    const EXTENDED: u32 = 1;
    // The controller is not bound to one: the host may have several, or none now.
    const NO_CONTROLLER: u16 = 0xffff;
    host(io, command)?;
    if command.cdw11 & EXTENDED == 0 {
        return Err(StatusCode::HostIdentifierFormat.at(location::CDW11));
    }
    let length = io.length_of(command.cdw10, location::CDW10)?;
    let reservation = io.access.reservations.namespace_mut(command.nsid).clone();
    let registrants = reservation.registrants();
    let head = ReservationStatus {
        generation: reservation.generation.into(),
        rtype: reservation.kind().map_or(0, |kind| kind as u8),
        regctl: count16(registrants.len()).into(),
        ..Default::default()
    };
    let mut data = head.as_bytes().to_vec();
    for registrant in registrants {
        let controller = io.access.reservations.controllers_of(registrant.host).next();
        let entry = RegisteredController {
            cntlid: controller.map_or(NO_CONTROLLER, |controller| controller.0).into(),
            rcsts: reservation.is_holder(&registrant.host).into(),
            rkey: registrant.key.into(),
            hostid: registrant.host.identifier(),
            ..Default::default()
        };
        data.extend(entry.as_bytes());
    }
    io.send_of(memory, command, &data, length)?;
    Ok(Outcome::Done(0))
}
