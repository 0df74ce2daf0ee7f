//! Zone Management Send (ZNS 1.1 section 3.4.3): states are changed.

use stasis_block::{Command, Operation};

use crate::command::{location, SubmissionEntry};
use crate::commands::{Registered, CHANGES_CONTENTS, SUPPORTED};
use crate::controller::Controller;
use crate::io::starting_lba;
use crate::slots::{CommandId, Owner, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::set::{Action, State, ZoneSet};
use super::CSI;

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

pub const ZONE_MANAGEMENT_SEND: Registered = Registered {
    opcode: 0x79,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: |_, set| set == CSI,
    identify: 0,
    counts_as: None,
    execute: Controller::zone_management_send,
};

impl Controller {
    fn zone_management_send(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let blocks = self.writable_namespace(command.nsid)?.blocks;
        let set = &self.zoned_of(command)?.set;
        let lba = starting_lba(command);
        let all = command.cdw13 & SELECT_ALL != 0;
        let code = command.cdw13 as u8;
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
            action::SET_EXTENSION if !all => return self.set_extension(memory, command, index),
            action::FLUSH if !all => {
                if let Some(zoned) = self.zoned_mut(command.nsid) {
                    zoned.set.flush(lba).map_err(|status| status.at(location::CDW10))?;
                }
                return Ok(Outcome::Done(0));
            }
            _ => return Err(wrong_action),
        };
        if all {
            return self.act_on_all(queue, command, asked);
        }
        let Some(zoned) = self.zoned_mut(command.nsid) else { return Err(wrong_action) };
        let forgets = zoned.set.act(index, asked).map_err(|status| status.at(location::CDW10))?;
        if !forgets {
            return Ok(Outcome::Done(0));
        }
        let owner = Owner::Command(CommandId { sq: queue, cid: command.cid });
        self.discard_zones(queue, command.nsid, owner, index, 1);
        Ok(Outcome::Pending)
    }

    /// Select All. A reset asks the drive to forget each run of neighbours at
    /// once.
    fn act_on_all(
        &mut self,
        queue: u16,
        command: &SubmissionEntry,
        asked: Action,
    ) -> Result<Outcome, Failure> {
        let Some(zoned) = self.zoned_mut(command.nsid) else { return Ok(Outcome::Done(0)) };
        let set = &mut zoned.set;
        if asked == Action::Open {
            set.check_open_all().map_err(|status| status.at(location::CDW13))?;
        }
        // Chosen before any changes: a zone that makes way for another is not
        // meant.
        let states = set.zones().iter().enumerate();
        let meant = states.filter(|(_, zone)| ZoneSet::is_meant(asked, zone.state));
        let meant: Vec<usize> = meant.map(|(index, _)| index).collect();
        // First zone, count of zones.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for index in meant {
            let forgets = set.act(index, asked).map_err(|status| status.at(location::CDW13))?;
            match runs.last_mut() {
                _ if !forgets => {}
                Some((first, count)) if *first + *count == index => *count += 1,
                _ => runs.push((index, 1)),
            }
        }
        if runs.is_empty() {
            return Ok(Outcome::Done(0));
        }
        let id = CommandId { sq: queue, cid: command.cid };
        let group = self.slots.insert_group(id, runs.len() as u32, false);
        for (part, (first, count)) in runs.into_iter().enumerate() {
            let owner = Owner::Part { group, part: part as u32 };
            self.discard_zones(queue, command.nsid, owner, first, count);
        }
        Ok(Outcome::Pending)
    }

    fn discard_zones(&mut self, queue: u16, nsid: u32, owner: Owner, first: usize, count: usize) {
        let Some(zoned) = self.zoned(nsid) else { return };
        let block = zoned.block;
        let (lba, blocks) = (zoned.set.start(first), count as u64 * zoned.set.size);
        let command = Command::new(Operation::Discard, lba * block, blocks * block);
        self.request(queue, Slot::new(owner, &command, nsid, lba), command);
    }

    fn set_extension(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        index: usize,
    ) -> Result<Outcome, Failure> {
        let set = &self.zoned_of(command)?.set;
        set.check_extension(index).map_err(|status| status.at(location::CDW13))?;
        let mut data = vec![0; set.extension_size()];
        self.receive(memory, command, &mut data)?;
        if let Some(zoned) = self.zoned_mut(command.nsid) {
            zoned.set.set_extension(index, &data);
        }
        Ok(Outcome::Done(0))
    }
}

impl ZoneSet {
    /// Whether these blocks are whole zones without data, as those that a
    /// reset has asked the drive to forget.
    pub fn is_reset(&self, lba: u64, blocks: u64) -> bool {
        let whole = lba.is_multiple_of(self.size) && blocks.is_multiple_of(self.size);
        let first = self.index(lba);
        let count = (blocks / self.size) as usize;
        let zones = self.zones().get(first..first + count);
        whole
            && count > 0
            && zones.is_some_and(|zones| zones.iter().all(|zone| zone.state == State::Empty))
    }
}
