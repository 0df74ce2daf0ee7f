//! Vendor specific admin commands: the drive carries them out (NVMe 1.4
//! section 5, opcodes C0h to FFh).

use std::collections::VecDeque;

use stasis_block::memory::{gather, scatter, Segment};
use stasis_block::{VendorCommand, VendorError};

use crate::command::{location, CommandId, SubmissionEntry};
use crate::controller_id::ControllerId;
use crate::io::Io;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

/// First opcode of a vendor's own.
pub const FIRST_OPCODE: u8 = 0xc0;
/// Maximum number of commands that wait for the drive at a time.
const MAX_WAITING: usize = 16;

/// A vendor specific command for the drive.
#[derive(Debug)]
pub struct VendorRequest {
    /// Its name, for [`crate::ControllerMut::complete_vendor`].
    pub tag: u32,
    /// The command to carry out.
    pub command: VendorCommand,
}

/// A command that the drive has not answered.
#[derive(Debug)]
struct Waiting {
    tag: u32,
    id: CommandId,
    /// Places of its data; empty if it has none.
    segments: Vec<Segment>,
}

/// The commands on their way to the drive, and those it has.
#[derive(Debug, Default)]
pub struct Vendor {
    next_tag: u32,
    waiting: Vec<Waiting>,
    outbox: VecDeque<VendorRequest>,
}

impl Vendor {
    /// Withdraws the command `id`; returns whether there was one. A later answer of the drive is
    /// dropped.
    pub fn withdraw(&mut self, id: CommandId) -> bool {
        let Some(at) = self.waiting.iter().position(|command| command.id == id) else {
            return false;
        };
        let tag = self.waiting.swap_remove(at).tag;
        self.outbox.retain(|request| request.tag != tag);
        true
    }

    /// Forgets the commands of a controller, as its reset does. Names are not used again, so that
    /// late answers find nothing.
    pub fn reset(&mut self, controller: ControllerId) {
        let Self { waiting, outbox, .. } = self;
        waiting.retain(|command| {
            let stays = command.id.controller != controller;
            if !stays {
                outbox.retain(|request| request.tag != command.tag);
            }
            stays
        });
    }

    /// The controller that a command came by, if it waits.
    pub fn controller_of(&self, tag: u32) -> Option<ControllerId> {
        self.waiting.iter().find(|command| command.tag == tag).map(|command| command.id.controller)
    }

    /// The next one for the drive.
    pub fn pop(&mut self) -> Option<VendorRequest> {
        self.outbox.pop_front()
    }

    /// The drive has carried out the command `tag`, or refused it: gives `data` to the guest if
    /// that is its direction. Says which command ends, and Dword 0 of its completion or why it
    /// failed; `None` if the tag does not wait.
    pub fn complete(
        &mut self,
        memory: &dyn Memory,
        tag: u32,
        result: Result<u32, VendorError>,
        data: &[u8],
    ) -> Option<(CommandId, Result<u32, Failure>)> {
        let at = self.waiting.iter().position(|command| command.tag == tag)?;
        let Waiting { id, segments, .. } = self.waiting.swap_remove(at);
        let outcome = match result {
            Ok(result) => match scatter(memory, &segments, data) {
                Ok(()) => Ok(result),
                Err(error) => Err(error.into()),
            },
            Err(VendorError::Opcode) => Err(StatusCode::InvalidOpcode.at(location::OPCODE)),
            Err(VendorError::Field) => Err(StatusCode::InvalidField.into()),
        };
        Some((id, outcome))
    }

    /// Takes a vendor specific command. Bits 1:0 of the opcode have the direction of its data, and
    /// Dword 10 the length in dwords (section 8.7).
    ///
    /// # Errors
    /// The data is too long or not in guest memory, or too many commands wait.
    pub fn execute(
        &mut self,
        io: &mut Io,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let (to_drive, to_host) = (command.opcode & 1 != 0, command.opcode & 2 != 0);
        let length = match to_drive || to_host {
            true => command.cdw10.checked_mul(4),
            false => Some(0),
        };
        let length = length.filter(|&length| length <= io.config.max_transfer);
        let length = length.ok_or(StatusCode::InvalidField.at(location::CDW10))?;
        if self.waiting.len() >= MAX_WAITING {
            return Err(StatusCode::InternalError.into());
        }
        let mut data = vec![0; length as usize];
        let segments = io.lend(|io, lease| {
            lease.segments = io.commands.buffers.segments_of(memory, command, data.len())?;
            if to_drive {
                gather(memory, &lease.segments, &mut data)?;
            }
            if !to_host {
                lease.segments.clear();
            }
            Ok::<_, Failure>(lease.take_places().0)
        })?;
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        self.waiting.push(Waiting { tag, id: command.id(), segments });
        let SubmissionEntry { opcode, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, .. } = *command;
        let dwords = [cdw10, cdw11, cdw12, cdw13, cdw14, cdw15];
        let command = VendorCommand { opcode, dwords, data };
        self.outbox.push_back(VendorRequest { tag, command });
        Ok(Outcome::Pending)
    }
}
