//! Zone Management Send (ZNS 1.1 section 3.4.3): states are changed.

use stasis_block::{Command, Operation};

use crate::command::{location, Dword, SubmissionEntry};
use crate::io::{Io, IoCommand};
use crate::registered::{CHANGES_CONTENTS, SUPPORTED};
use crate::slots::{Owner, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::config::CSI;
use super::set::{Action, ZoneSet};

/// Zone Send Action, in Dword 13.
mod action {
    pub const CLOSE: u8 = 0x01;
    pub const FINISH: u8 = 0x02;
    pub const OPEN: u8 = 0x03;
    pub const RESET: u8 = 0x04;
    pub const OFFLINE: u8 = 0x05;
    pub const SET_EXTENSION: u8 = 0x10;
    pub const FLUSH: u8 = 0x11;
}

/// Select All, in Dword 13.
const SELECT_ALL: u32 = 1 << 8;
/// Zone Random Write Area Allocation, in Dword 13.
const ALLOCATE_ZRWA: u32 = 1 << 9;

pub const ZONE_MANAGEMENT_SEND: IoCommand = IoCommand {
    opcode: 0x79,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: |_, set| set == CSI,
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: zone_management_send,
};

fn zone_management_send(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let blocks = io.writable_namespace(command.nsid)?.blocks;
    let set = &io.namespaces.zoned(command.nsid)?.set;
    let lba = command.starting_lba();
    let all = command.cdw13 & SELECT_ALL != 0;
    let code = command.cdw13.byte(0);
    let wrong_action = StatusCode::InvalidField.at(location::CDW13);
    if !all {
        if lba >= blocks {
            return Err(StatusCode::LbaOutOfRange.at(location::CDW10));
        }
        if code != action::FLUSH && !lba.is_multiple_of(set.size) {
            return Err(StatusCode::InvalidField.at(location::CDW10));
        }
    }
    let index = if all { 0 } else { set.index(lba) };
    let asked = match code {
        action::CLOSE => Action::Close,
        action::FINISH => Action::Finish,
        action::OPEN if command.cdw13 & ALLOCATE_ZRWA == 0 => Action::Open,
        action::OPEN if !all => Action::OpenRandom,
        action::RESET => Action::Reset,
        action::OFFLINE => Action::Offline,
        action::SET_EXTENSION if !all => return set_extension(io, memory, command, index),
        action::FLUSH if !all => {
            if let Some(zoned) = io.namespaces.zones_mut(command.nsid) {
                zoned.set.flush(lba).map_err(|status| status.at(location::CDW10))?;
            }
            return Ok(Outcome::Done(0));
        }
        _ => return Err(wrong_action),
    };
    if all {
        return act_on_all(io, command, asked);
    }
    let Some(zoned) = io.namespaces.zones_mut(command.nsid) else { return Err(wrong_action) };
    let rest = zoned.set.rest(index).filter(|_| asked == Action::Finish);
    let forgets = zoned.set.act(index, asked).map_err(|status| status.at(location::CDW10))?;
    let (operation, blocks) = match rest {
        Some(rest) => (Operation::WriteZeroes, rest),
        None if forgets => (Operation::Discard, (zoned.set.start(index), zoned.set.size)),
        None => return Ok(Outcome::Done(0)),
    };
    ask(io, command, Owner::Command(command.id()), operation, blocks);
    Ok(Outcome::Pending)
}

/// Select All. A reset asks the drive to forget each run of neighbours at
/// once; a finish that fills zones fills each by itself.
fn act_on_all(io: &mut Io, command: &SubmissionEntry, asked: Action) -> Result<Outcome, Failure> {
    let Some(zoned) = io.namespaces.zones_mut(command.nsid) else { return Ok(Outcome::Done(0)) };
    let set = &mut zoned.set;
    if asked == Action::Open {
        set.check_open_all().map_err(|status| status.at(location::CDW13))?;
    }
    // Chosen before any changes: a zone that makes way for another is not
    // meant.
    let states = set.zones().iter().enumerate();
    let meant = states.filter(|(_, zone)| ZoneSet::is_meant(asked, zone.state));
    let meant: Vec<usize> = meant.map(|(index, _)| index).collect();
    // First block, and how many.
    let mut runs: Vec<(Operation, (u64, u64))> = Vec::new();
    for index in meant {
        let rest = set.rest(index).filter(|_| asked == Action::Finish);
        let forgets = set.act(index, asked).map_err(|status| status.at(location::CDW13))?;
        let (start, size) = (set.start(index), set.size);
        match (rest, runs.last_mut()) {
            (Some(rest), _) => runs.push((Operation::WriteZeroes, rest)),
            _ if !forgets => {}
            (_, Some((_, (first, count)))) if *first + *count == start => *count += size,
            _ => runs.push((Operation::Discard, (start, size))),
        }
    }
    if runs.is_empty() {
        return Ok(Outcome::Done(0));
    }
    let id = command.id();
    let group = io.commands.slots.insert_group(id, runs.len(), false);
    for (part, (operation, blocks)) in (0..).zip(runs) {
        ask(io, command, Owner::Part { group, part }, operation, blocks);
    }
    Ok(Outcome::Pending)
}

/// Asks the drive to forget blocks of zones, or to fill them: the first, and how many.
fn ask(
    io: &mut Io,
    command: &SubmissionEntry,
    owner: Owner,
    operation: Operation,
    (lba, blocks): (u64, u64),
) {
    let nsid = command.nsid;
    let Some(zoned) = io.namespaces.zones(nsid) else { return };
    let block = zoned.block;
    let asked = Command::new(operation, lba * block, blocks * block);
    io.request(command.sq, Slot::new(owner, &asked, nsid, lba), asked);
}

fn set_extension(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    index: usize,
) -> Result<Outcome, Failure> {
    let set = &io.namespaces.zoned(command.nsid)?.set;
    set.check_extension(index).map_err(|status| status.at(location::CDW13))?;
    let mut data = vec![0; set.extension_size()];
    io.receive(memory, command, &mut data)?;
    if let Some(zoned) = io.namespaces.zones_mut(command.nsid) {
        zoned.set.set_extension(index, &data);
    }
    Ok(Outcome::Done(0))
}
