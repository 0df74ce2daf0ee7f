//! The drives that machines share. Owns them, and their reports of the moment when the last command that
//! is waited for ended.

use stasis_block::clock::Nanos;
use stasis_drive::{Schedule, SharedDrive};
use stasis_run_events::SharedOutcome;

use super::changes::DriveChange;
use crate::error::Error;

/// The drives.
pub(super) struct SharedDrives {
    drives: Vec<SharedDrive>,
    /// None before that moment.
    reports: Vec<SharedOutcome>,
}

impl SharedDrives {
    /// Creates the state of `drives`.
    pub(super) fn new(drives: Vec<SharedDrive>) -> Self {
        Self { drives, reports: Vec::new() }
    }

    /// The commands begin at `now` (ns).
    pub(super) fn start(&self, now: Nanos) {
        self.drives.iter().for_each(|drive| drive.start(now));
    }

    /// The last command that is waited for ends at `now` (ns).
    pub(super) fn end(&mut self, now: Nanos) {
        self.reports = self.report(now);
    }

    /// Makes the changes of drives, and then of their scheduling: as it was, and as it becomes, where
    /// that differs.
    ///
    /// # Errors
    /// As of [`DriveChange::make`].
    pub(super) fn change(
        &self,
        drives: Vec<DriveChange>,
        schedules: Vec<Option<(Schedule, Schedule)>>,
        now: Nanos,
    ) -> Result<(), Error> {
        for (drive, change) in self.drives.iter().zip(drives) {
            drive.change(now, |control| change.make(control, now))?;
        }
        for (drive, schedule) in self.drives.iter().zip(schedules) {
            if let Some((was, to)) = schedule {
                drive.reschedule(now, &was, &to);
            }
        }
        Ok(())
    }

    /// The reports of that moment, or of `now` (ns), where it has not come.
    pub(super) fn outcome(self, now: Nanos) -> Vec<SharedOutcome> {
        match self.reports.is_empty() {
            true => self.report(now),
            false => self.reports,
        }
    }

    fn report(&self, now: Nanos) -> Vec<SharedOutcome> {
        self.drives.iter().map(|drive| drive.report(now)).collect()
    }
}
