//! I/O Management Receive and Send, of Flexible Data Placement (NVMe TP4146).

use stasis_nvme_layout::{IntoBytes, U16};

use crate::command::{location, Dword, SubmissionEntry};
use crate::io::{Io, IoCommand};
use crate::registered::SUPPORTED;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::state::PlacementState;

/// Management operations, in Dword 10 of I/O Management Receive and Send.
const NO_ACTION: u8 = 0;
const RECLAIM_UNITS: u8 = 1;

pub const IO_MANAGEMENT_RECEIVE: IoCommand = IoCommand {
    opcode: 0x12,
    effects: SUPPORTED,
    announced: |config, _| config.has_fdp(),
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: io_management_receive,
};

pub const IO_MANAGEMENT_SEND: IoCommand = IoCommand {
    opcode: 0x1d,
    effects: SUPPORTED,
    announced: |config, _| config.has_fdp(),
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: io_management_send,
};

/// I/O Management Receive.
fn io_management_receive(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let block_size = io.namespace(command.nsid)?.block_size;
    let group = io.namespaces.endurance_group(command.nsid);
    let Io { placement, namespaces, .. } = &mut *io;
    let handles = namespaces.handles(command.nsid);
    let PlacementState::Fdp(groups) = placement else {
        return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
    };
    let fdp = groups.enabled_mut(group)?;
    let data = match command.cdw10.byte(0) {
        NO_ACTION => return Ok(Outcome::Done(0)),
        RECLAIM_UNITS => fdp.status(handles, block_size),
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    };
    let length = io.length_of(command.cdw11, location::CDW11)?;
    io.send_of(memory, command, &data, length)?;
    Ok(Outcome::Done(0))
}

/// I/O Management Send.
fn io_management_send(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let nsid = command.nsid;
    io.writable_namespace(nsid)?;
    let group = io.namespaces.endurance_group(nsid);
    let PlacementState::Fdp(groups) = &io.placement else {
        return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
    };
    let places = groups.enabled(group)?.places(io.namespaces.handles(nsid));
    match command.cdw10.byte(0) {
        NO_ACTION => return Ok(Outcome::Done(0)),
        RECLAIM_UNITS => {}
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    }
    let invalid = StatusCode::InvalidField.at(location::CDW10 + 2);
    let count = (command.cdw10 >> 16) as usize + 1;
    if count > places {
        return Err(invalid);
    }
    let mut identifiers = vec![U16::ZERO; count];
    io.receive(memory, command, identifiers.as_mut_bytes())?;
    let now = io.features(command.controller).timestamp_at(io.now);
    let Io { placement, namespaces, .. } = &mut *io;
    let handles = namespaces.handles(nsid);
    let PlacementState::Fdp(groups) = placement else { return Err(invalid) };
    let fdp = groups.enabled_mut(group)?;
    let identifiers = identifiers.into_iter().map(U16::get);
    if identifiers.clone().any(|identifier| !fdp.is_place(handles, identifier)) {
        return Err(invalid);
    }
    for identifier in identifiers {
        fdp.update((nsid, handles), identifier, now);
    }
    Ok(Outcome::Done(0))
}
