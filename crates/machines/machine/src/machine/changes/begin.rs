//! The moment at which a run becomes another.

use stasis_block::clock::Nanos;
use stasis_run_events::Moment;

use super::super::debug;
use super::super::run::Run;
use super::super::vm::Machine;
use super::CHANGE;
use crate::error::Error;

impl Run<'_> {
    /// The commands have begun, or go on from a snapshot: the run may be about to become another.
    fn changes_begin(&mut self) -> Result<(), Error> {
        let Some(config) = self.sources.changes() else { return Ok(()) };
        let due = match &config.moment {
            None | Some(Moment::Begin) => 0,
            Some(Moment::At(time)) => *time,
            Some(Moment::End) => Nanos::MAX,
            Some(moment) => {
                let trigger = debug::trigger(moment, CHANGE);
                self.add_trigger(trigger.ok_or(Error::Internal("no moment of changes"))?)?;
                Nanos::MAX
            }
        };
        let at_end = config.moment == Some(Moment::End);
        self.changes.expect(due, at_end, config.change);
        Ok(())
    }

    /// Returns the end of the time for which all processors are idle until `next` (ticks), as the
    /// changes may come before.
    pub(in super::super) fn idle_to_changes(&self, next: Option<u64>) -> Option<u64> {
        let Some(due) = self.changes.due() else { return next };
        let at = self.common.statistics.started_virtual.saturating_add(due);
        Some(next.unwrap_or(u64::MAX).min(self.common.clock.scale().to_ticks(at)))
    }

    /// Becomes another run, if it is the moment.
    pub(in super::super) fn change_if_due(&mut self) -> Result<(), Error> {
        if !self.common.statistics.running {
            return Ok(());
        }
        self.changes_begin()?;
        let now = self.common.clock.now_ns();
        let since = now.saturating_sub(self.common.statistics.started_virtual);
        let change = self.changes.take_due(since);
        change.map_or(Ok(()), |change| self.change(change, None))
    }

    /// The command of machine `number` has ended. Becomes another run if that is the moment; whether
    /// another command follows there.
    pub(in super::super) fn change_at_end(&mut self, number: usize) -> Result<bool, Error> {
        let goes_on = |(other, machine): (usize, &Machine)| {
            other != number && machine.progress.holds_the_run()
        };
        if self.machines.iter().enumerate().any(goes_on) {
            return Ok(false);
        }
        let Some(change) = self.changes.take_at_end() else { return Ok(false) };
        self.change(change, Some(number))?;
        Ok(self.branching.iter().any(|branching| branching.waits_for(number)))
    }
}
