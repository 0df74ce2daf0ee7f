//! Virtual time that does not run away while a person sits at the terminal of a guest's command
//! and nothing else is to happen.

use super::run::Run;
use super::vm::Machine;
use crate::error::Error;

impl Run<'_> {
    /// All processors are idle until `next` (ticks). Where a person can type, and no drive is at
    /// work, the virtual time since they were idle last takes as long by the wall clock, or until
    /// something is typed.
    pub(super) fn attend(&mut self, next: u64) -> Result<(), Error> {
        let since = std::mem::replace(&mut self.timeline.typing.idle_until, next);
        let attended = |machine: &Machine| {
            machine.channel.has_terminal() && machine.started.is_some() && machine.ended.is_none()
        };
        if !self.machines.iter().any(attended) || self.machines.iter().any(Machine::is_at_a_drive) {
            return Ok(());
        }
        let limit = self.timeline.clock.scale().to_ns(next.saturating_sub(since));
        self.timeline.typing.wait(limit).map_err(Error::Input)
    }
}
