//! What the agent in the guest tells, and what the machine makes of it.

use std::time::Duration;

use stasis_journal::{Ending, Entry, Stage};

use super::{After, Machine};
use crate::devices::Told;
use crate::error::Error;

impl Machine<'_> {
    /// The agent rang the channel's doorbell.
    pub(super) fn ring(&mut self) -> Result<After, Error> {
        self.flush_records()?;
        // What the guest tells has a time.
        self.journal.entry(Entry::Progress(self.clock.now_ns())).map_err(Error::Journal)?;
        let told = self.channel.doorbell(self.journal).map_err(Error::Journal)?;
        match told {
            Told::Nothing => {}
            Told::Started => {
                let frozen = self.frozen();
                self.statistics.start(self.clock.now_ns(), frozen);
                self.journal.entry(Entry::Stage(Stage::Running)).map_err(Error::Journal)?;
            }
            Told::Exited(status) => self.ended(Ending::Exited(status))?,
            Told::NotStarted(status, message) => {
                self.ended(Ending::NotStarted { status, message })?;
            }
            Told::Finished => {
                let ending = self.statistics.status.take().unwrap_or(Ending::Panicked);
                return Ok(After::End(ending));
            }
        }
        Ok(After::Continue)
    }

    pub(super) fn frozen(&self) -> Duration {
        self.drives.iter().map(|drive| drive.drive().frozen()).sum()
    }

    fn ended(&mut self, ending: Ending) -> Result<(), Error> {
        // What follows is the agent's own work, not the command's.
        self.statistics.finish(&self.clock, self.frozen());
        self.statistics.status = Some(ending);
        self.journal.entry(Entry::Stage(Stage::Collecting)).map_err(Error::Journal)
    }
}
