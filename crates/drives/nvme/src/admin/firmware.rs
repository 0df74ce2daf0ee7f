//! Firmware Image Download and Firmware Commit (NVMe 2.0 sections 5.13 and 5.12).

use crate::changes::Change;
use crate::command::{location, Dword, SubmissionEntry};
use crate::context::{AdminCommand, ControllerMut};
use crate::event_log::Occurrence;
use crate::firmware::{Action, SLOTS};
use crate::registered::{always, OF_SUBSYSTEM, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

/// In OACS.
const DOWNLOAD_AND_COMMIT: u16 = 1 << 2;

pub const FIRMWARE_COMMIT: AdminCommand = AdminCommand {
    opcode: 0x10,
    effects: SUPPORTED | OF_SUBSYSTEM,
    announced: always,
    identify: DOWNLOAD_AND_COMMIT,
    counts_as: None,
    during_sanitize: false,
    execute: commit,
};

pub const FIRMWARE_IMAGE_DOWNLOAD: AdminCommand = AdminCommand {
    opcode: 0x11,
    effects: SUPPORTED | OF_SUBSYSTEM,
    announced: always,
    identify: DOWNLOAD_AND_COMMIT,
    counts_as: None,
    during_sanitize: false,
    execute: download,
};

/// FRMW of Identify Controller: the first slot is read only; how many there are; activation without
/// a reset.
pub const UPDATES: u8 = 1 | SLOTS << 1 | 1 << 4;
/// FWUG: pieces of an image may be of any dwords.
pub const GRANULARITY: u8 = 0xff;

fn download(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let ControllerMut { io, host, .. } = controller;
    let length = io.length_of(command.cdw10, location::CDW10)?;
    let offset = u64::from(command.cdw11) * 4;
    let mut data = vec![0; length as usize];
    io.receive(memory, command, &mut data)?;
    let taken = io.background.firmware.download(host.id, offset, &data);
    taken.map_err(|status| status.at(location::CDW11))?;
    Ok(Outcome::Done(0))
}

fn commit(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let (slot, number) = (command.cdw10.byte(0) & 7, command.cdw10.byte(0) >> 3 & 7);
    let action = Action::of(number).ok_or(StatusCode::InvalidField.at(location::CDW10))?;
    let ControllerMut { io, host, .. } = &mut *controller;
    let before = io.background.firmware.active();
    let committed = io.background.firmware.commit(host.id, action, slot);
    let status = committed.err().map_or(0, |status| status as u16);
    let event = Occurrence::FirmwareCommit {
        before,
        after: io.background.firmware.active(),
        action: number,
        slot: committed.unwrap_or(slot),
        status,
    };
    io.log_event(host.id, &event);
    committed.map_err(|status| status.at(location::CDW10))?;
    io.reports.changes.add(Change::Firmware { starts: action == Action::ActivateNow });
    controller.report_changes(memory);
    Ok(Outcome::Done(0))
}
