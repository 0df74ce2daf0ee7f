//! The admin command set (NVMe 1.4 section 5).

mod command_sets;
mod events;
mod features;
mod format;
mod identify;
mod log;
mod queues;

pub use events::Events;
pub use features::{Features, NORMAL_TEMPERATURE, WARNING_TEMPERATURE};
pub use format::Formatting;
pub use log::{ErrorLog, SPARE_THRESHOLD};

use crate::command::{location, SubmissionEntry};
use crate::controller::Controller;
use crate::io::{FUSE, PSDT};
use crate::shadow::Shadow;
use crate::slots::CommandId;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{ocssd, vendor};
use crate::{Memory, PAGE_SIZE};

/// Opcodes (section 5, "Opcodes for Admin Commands").
pub mod opcode {
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNCHRONOUS_EVENT_REQUEST: u8 = 0x0c;
    pub const DIRECTIVE_SEND: u8 = 0x19;
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
    pub const DOORBELL_BUFFER_CONFIG: u8 = 0x7c;
    pub const FORMAT_NVM: u8 = 0x80;
}

impl Controller {
    pub(crate) fn execute_admin(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        // Section 4.2: over PCIe, admin commands take PRPs only.
        if command.flags & (FUSE | PSDT) != 0 {
            return Err(StatusCode::InvalidField.at(location::FLAGS));
        }
        match command.opcode {
            opcode::DELETE_SUBMISSION_QUEUE => self.delete_submission_queue(memory, command),
            opcode::CREATE_SUBMISSION_QUEUE => self.create_submission_queue(memory, command),
            opcode::GET_LOG_PAGE => self.get_log_page(memory, command),
            opcode::DELETE_COMPLETION_QUEUE => self.delete_completion_queue(command),
            opcode::CREATE_COMPLETION_QUEUE => self.create_completion_queue(memory, command),
            opcode::IDENTIFY => self.identify(memory, command),
            opcode::ABORT => Ok(Outcome::Done(self.abort(memory, command))),
            opcode::SET_FEATURES => self.set_features(memory, command),
            opcode::GET_FEATURES => self.get_features(memory, command),
            opcode::ASYNCHRONOUS_EVENT_REQUEST => self.request_event(memory, command),
            opcode::DOORBELL_BUFFER_CONFIG if self.config.shadow_doorbells => {
                self.configure_doorbell_buffers(memory, command)
            }
            opcode::DIRECTIVE_SEND => self.directive_send(command),
            opcode::DIRECTIVE_RECEIVE => self.directive_receive(memory, command),
            opcode::FORMAT_NVM => self.format(memory, command),
            ocssd::opcode::GEOMETRY if self.chunks(command.nsid).is_some() => {
                self.geometry(memory, command)
            }
            vendor::FIRST_OPCODE.. => self.vendor_command(memory, command),
            _ => Err(StatusCode::InvalidOpcode.at(location::OPCODE)),
        }
    }

    /// Abort (section 5.1). What the drive has begun it may still do, but the
    /// guest's memory is not touched for it any more.
    fn abort(&mut self, memory: &dyn Memory, command: &SubmissionEntry) -> u32 {
        let wanted = CommandId { sq: command.cdw10 as u16, cid: (command.cdw10 >> 16) as u16 };
        let mut found = wanted.sq == 0
            && (self.events.withdraw(wanted.cid) || self.vendor.withdraw(wanted.cid));
        self.slots.abandon(|id| id == wanted, |_| found = true);
        if found {
            self.post_failure(memory, wanted, StatusCode::AbortRequested.into(), 0, 0);
            self.go_on_formatting(memory);
        }
        // Dword 0 of the completion: bit 0 is set if nothing was aborted.
        u32::from(!found)
    }

    /// Doorbell Buffer Config (section 5.7).
    fn configure_doorbell_buffers(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let buffers = [(command.prp1, location::PRP1), (command.prp2, location::PRP2)];
        for (address, at) in buffers {
            let usable = address != 0
                && address % PAGE_SIZE as u64 == 0
                && memory.contains(address, PAGE_SIZE);
            if !usable {
                return Err(StatusCode::InvalidField.at(at));
            }
        }
        let shadow = Shadow::new(command.prp1, command.prp2);
        self.queues.set_shadow(memory, shadow, self.config.shadow)?;
        Ok(Outcome::Done(0))
    }
}
