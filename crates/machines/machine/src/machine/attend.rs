//! Virtual time that does not run away while a person sits at the terminal of a guest's command, or
//! a network leads outside, and nothing else is to happen. A step of the run: what is typed, and when
//! all were idle last, is of `typing`.

use super::run::Run;
use super::vm::Machine;
use crate::error::Error;

impl Run<'_> {
    /// All processors are idle until `next` (ticks). Where a person can type or a network leads
    /// outside, and no drive is at work, the virtual time since they were idle last takes as long
    /// by the wall clock, or until something is typed or a frame comes. Returns whether a frame has
    /// come, whose arrival can be before `next`.
    pub(super) fn attend(&mut self, next: u64) -> Result<bool, Error> {
        let since = std::mem::replace(&mut self.common.typing.idle_until, next);
        let attended =
            |machine: &Machine| machine.channel.has_terminal() && machine.progress.is_under_way();
        let typed = self.machines.iter().any(attended);
        let outside = self.common.next_crossing().is_some();
        if !typed && !outside || self.machines.iter().any(Machine::is_at_a_drive) {
            return Ok(false);
        }
        let limit = self.common.clock.scale().to_ns(next.saturating_sub(since));
        if typed {
            self.common.typing.wait(limit).map_err(Error::Input)?;
            return Ok(false);
        }
        let now = self.common.clock.now_ns();
        let came = self.common.networks.cross(now, limit).map_err(Error::Outside)?;
        if came {
            // The time that was waited for has not passed.
            self.common.typing.idle_until = since;
        }
        Ok(came)
    }

    /// Lets frames cross to and from outside, if it is time.
    pub(super) fn cross(&mut self) -> Result<(), Error> {
        if self.common.next_crossing().is_some_and(|at| at <= self.instant) {
            let now = self.common.clock.now_ns();
            self.common.networks.cross(now, 0).map_err(Error::Outside)?;
        }
        Ok(())
    }
}
