//! Keep Alive (NVMe 1.4 section 5.18).

use crate::command::SubmissionEntry;
use crate::context::ControllerMut;
use crate::status::{Failure, Outcome};
use crate::Memory;

use crate::context::AdminCommand;

pub const KEEP_ALIVE: AdminCommand = AdminCommand::plain(0x18, keep_alive);

fn keep_alive(
    controller: &mut ControllerMut,
    _memory: &dyn Memory,
    _command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let now = controller.host.now;
    controller.host.keep_alive.restart(now);
    Ok(Outcome::Done(0))
}
