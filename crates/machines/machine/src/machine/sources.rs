//! The wishes for a run that are known only when its commands begin. Owns whoever tells of them: each
//! is asked once.

use stasis_run_events::ProfileJob;

use super::changes::{BeginSource, Change, ChangeConfig, ChangeSource};
use super::config::ProfileSource;
use super::debug::{DebugConfig, DebugSource};
use super::program_source::ProgramSource;
use super::snapshots::{Resumed, SnapshotConfig, SnapshotSource};
use crate::error::Error;

/// The sources, if there are any.
pub(super) struct Sources {
    begin: Option<BeginSource>,
    debug: Option<DebugSource>,
    snapshots: Option<SnapshotSource>,
    change: Option<ChangeSource>,
    profile: Option<ProfileSource>,
    /// Tells of the files of guests' programs, for their stacks: as often as it is asked.
    programs: Option<ProgramSource>,
}

impl Sources {
    /// Creates the sources; none has been asked yet.
    pub(super) fn new(
        begin: Option<BeginSource>,
        debug: Option<DebugSource>,
        snapshots: Option<SnapshotSource>,
        change: Option<ChangeSource>,
        profile: Option<ProfileSource>,
        programs: Option<ProgramSource>,
    ) -> Self {
        Self { begin, debug, snapshots, change, profile, programs }
    }

    /// The run continues from a snapshot, where these are the wishes.
    pub(super) fn resume(&mut self, resumed: Resumed) {
        let Resumed { debug, profile, change, .. } = resumed;
        self.debug = Some(Box::new(|| debug));
        self.profile = Some(Box::new(|| profile));
        self.change = Some(Box::new(|| change));
    }

    /// The parts of the run that begin with the commands, if any do.
    ///
    /// # Errors
    /// The changes cannot be read.
    pub(super) fn begin(&mut self) -> Result<Option<Change>, Error> {
        self.begin.take().map(|source| source()).transpose().map_err(Error::Input)
    }

    /// The debugger, if one takes hold of the run.
    pub(super) fn debugger(&mut self) -> Option<DebugConfig> {
        self.debug.take()?()
    }

    /// The snapshots to take, if any are.
    pub(super) fn snapshots(&mut self) -> Option<SnapshotConfig> {
        self.snapshots.take()?()
    }

    /// The changes by which the run becomes another, if it does.
    pub(super) fn changes(&mut self) -> Option<ChangeConfig> {
        self.change.take()?()
    }

    /// The samples to take, if any are.
    pub(super) fn samples(&mut self) -> Option<ProfileJob> {
        self.profile.take()?()
    }

    /// Whoever tells of the files of guests' programs.
    pub(super) fn programs(&self) -> Option<ProgramSource> {
        self.programs.clone()
    }
}
