//! The admin command set (NVMe 1.4 section 5).

mod abort;
mod command_sets;
mod doorbell_buffers;
mod events;
mod features;
mod format;
mod identify;
mod log;
mod queues;

pub use abort::ABORT;
pub use doorbell_buffers::DOORBELL_BUFFER_CONFIG;
pub use events::{Events, ASYNCHRONOUS_EVENT_REQUEST};
pub use features::{Features, GET_FEATURES, NORMAL_TEMPERATURE, SET_FEATURES, WARNING_TEMPERATURE};
pub use format::{Formatting, FORMAT_NVM};
pub use identify::IDENTIFY;
pub use log::{ErrorLog, GET_LOG_PAGE, SPARE_THRESHOLD};
pub use queues::{
    CREATE_COMPLETION_QUEUE, CREATE_SUBMISSION_QUEUE, DELETE_COMPLETION_QUEUE,
    DELETE_SUBMISSION_QUEUE,
};

use crate::command::{location, SubmissionEntry};
use crate::controller::Controller;
use crate::io::{FUSE, PSDT};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{commands, vendor, Memory};

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
        match commands::ADMIN.find(command.opcode) {
            Some(known) => (known.execute)(self, memory, 0, command),
            None if command.opcode >= vendor::FIRST_OPCODE => self.vendor_command(memory, command),
            None => Err(StatusCode::InvalidOpcode.at(location::OPCODE)),
        }
    }
}
