//! Times at which a run takes its snapshots.

use stasis_run_events::{Instant, SnapshotJob};

use super::super::debug;
use super::super::run::Run;
use super::{Resumed, Snapshots, SNAPSHOT};
use crate::error::Error;

impl Run<'_> {
    /// Returns whether the commands have begun.
    pub(in super::super) fn has_begun(&self) -> bool {
        self.turn > 0 || self.common.statistics.running
    }

    /// Takes a snapshot, if it is time for one and the run is what it would be by itself. Returns the
    /// wishes of a run that continues from it.
    pub(in super::super) fn take_snapshot(&mut self) -> Result<Option<Resumed>, Error> {
        if !self.has_begun() {
            return Ok(None);
        }
        if let Some(config) = self.sources.snapshots() {
            self.wait_for_moments(&config.job)?;
            self.snapshots = Some(Box::new(Snapshots::new(config)));
        }
        let Some(snapshots) = &self.snapshots else { return Ok(None) };
        let scale = self.common.clock.scale();
        let begun = self.common.statistics.started_virtual;
        let at = scale.to_ns(self.instant).saturating_sub(begun);
        let is_disturbed =
            self.debug.is_some() || !self.branching.is_empty() || self.changes.have_come();
        if at < snapshots.due || is_disturbed || !self.common.statistics.running {
            return Ok(None);
        }
        // The events so far are told before.
        self.common.flush_records()?;
        let ahead = scale.to_ns(self.last_idle().max(self.instant)).saturating_sub(begun);
        let instant = Instant { at, ahead, turn: self.turn };
        let Some(snapshots) = &mut self.snapshots else { return Ok(None) };
        let taken = (snapshots.config.take)(&instant);
        let mut resumed = taken.map_err(|error| Error::Limit(format!("a snapshot: {error}")))?;
        if let Some(resumed) = &mut resumed {
            snapshots.config.job = resumed.snapshots.take().unwrap_or_default();
        }
        snapshots.plan(at);
        Ok(resumed)
    }

    /// Sets triggers for the moments of snapshots. A run that continues from one has those of the run
    /// that has taken it.
    fn wait_for_moments(&mut self, job: &SnapshotJob) -> Result<(), Error> {
        for moment in &job.moments {
            let Some(trigger) = debug::trigger(moment, SNAPSHOT) else { continue };
            self.add_trigger(trigger)?;
        }
        Ok(())
    }
}
