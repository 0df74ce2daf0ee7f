//! Doorbell Buffer Config (NVMe 1.4 section 5.7).

use crate::command::{location, SubmissionEntry};
use crate::commands::{Registered, SUPPORTED};
use crate::controller::Controller;
use crate::shadow::Shadow;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

pub const DOORBELL_BUFFER_CONFIG: Registered = Registered {
    opcode: 0x7c,
    effects: SUPPORTED,
    announced: |config, _| config.shadow_doorbells,
    identify: 1 << 8,
    counts_as: None,
    execute: Controller::configure_doorbell_buffers,
};

impl Controller {
    fn configure_doorbell_buffers(
        &mut self,
        memory: &dyn Memory,
        _queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        if !self.config.shadow_doorbells {
            return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
        }
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
