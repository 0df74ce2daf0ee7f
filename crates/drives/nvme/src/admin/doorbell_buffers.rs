//! Doorbell Buffer Config (NVMe 1.4 section 5.7).

use crate::command::{location, SubmissionEntry};
use crate::context::ControllerMut;
use crate::registered::{OF_CONTROLLER, SUPPORTED};
use crate::shadow::Shadow;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

use crate::context::AdminCommand;

pub const DOORBELL_BUFFER_CONFIG: AdminCommand = AdminCommand {
    opcode: 0x7c,
    effects: SUPPORTED | OF_CONTROLLER,
    announced: |config, _| config.shadow_doorbells,
    identify: 1 << 8,
    counts_as: None,
    during_sanitize: false,
    execute: configure_doorbell_buffers,
};

fn configure_doorbell_buffers(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    if !controller.io.config.shadow_doorbells {
        return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
    }
    let buffers = [(command.prp1, location::PRP1), (command.prp2, location::PRP2)];
    for (address, at) in buffers {
        let usable =
            address != 0 && address % PAGE_SIZE as u64 == 0 && memory.contains(address, PAGE_SIZE);
        if !usable {
            return Err(StatusCode::InvalidField.at(at));
        }
    }
    let shadow = Shadow::new(command.prp1, command.prp2);
    controller.host.queues.set_shadow(memory, shadow, controller.io.config.shadow)?;
    Ok(Outcome::Done(0))
}
