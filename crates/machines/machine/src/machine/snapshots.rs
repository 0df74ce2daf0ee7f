//! Snapshots of a run, each between two turns of its processors.
//!
//! To take one is the business of whoever runs this program: it stores the whole program, with the run
//! in it. So a snapshot takes no time of the run, and the run goes on as if there had been none, here or
//! in another program that continues from it.

use std::io;

use stasis_block::clock::Nanos;
use stasis_run_events::Instant;

use super::debug::DebugConfig;
use super::run::Run;
use crate::error::Error;

/// The snapshots to take of a run.
pub struct SnapshotConfig {
    /// Virtual time between two (ns); none are taken, where there is none.
    pub every: Option<Nanos>,
    /// Takes one.
    pub take: TakeSnapshot,
}

/// Takes a snapshot at this instant. Returns what a run that continues from it is to do beside what it
/// would do anyway; None in the run itself.
pub type TakeSnapshot = Box<dyn FnMut(&Instant) -> io::Result<Option<Resumed>>>;

/// The wishes of a run that continues from a snapshot.
#[derive(Debug, Default)]
pub struct Resumed {
    /// Virtual time between two further snapshots (ns), if they are taken.
    pub every: Option<Nanos>,
    /// The debugger, if one takes hold of the run.
    pub debug: Option<DebugConfig>,
}

/// Called when the commands begin: the snapshots to take of the run, if any are.
pub type SnapshotSource = Box<dyn FnOnce() -> Option<SnapshotConfig>>;

/// The snapshots of a run.
pub(super) struct Snapshots {
    config: SnapshotConfig,
    /// When the next is due (ns since the commands have begun).
    due: Nanos,
}

impl Snapshots {
    fn plan(&mut self, now: Nanos) {
        self.due = match self.config.every {
            Some(every) => (now / every.max(1) + 1).saturating_mul(every.max(1)),
            None => Nanos::MAX,
        };
    }
}

impl Run<'_> {
    /// The commands have begun: snapshots may be taken.
    pub(super) fn snapshots_begin(&mut self) {
        self.snapshots = self.snapshot_source.take().and_then(|source| source()).map(|config| {
            let mut snapshots = Snapshots { config, due: 0 };
            snapshots.plan(0);
            Box::new(snapshots)
        });
    }

    /// Whether the commands have begun.
    pub(super) fn has_begun(&self) -> bool {
        self.turn > 0 || self.timeline.statistics.running
    }

    /// Takes a snapshot, if it is time for one and the run is what it would be by itself.
    pub(super) fn take_snapshot(&mut self) -> Result<(), Error> {
        let Some(snapshots) = &self.snapshots else { return Ok(()) };
        let scale = self.timeline.clock.scale();
        let begun = self.timeline.statistics.started_virtual;
        let at = scale.to_ns(self.instant).saturating_sub(begun);
        let is_disturbed = self.debug.is_some() || self.branching.is_some();
        if at < snapshots.due || is_disturbed || !self.timeline.statistics.running {
            return Ok(());
        }
        // What has happened so far is told before.
        self.timeline.flush_records()?;
        let ahead = scale.to_ns(self.last_idle().max(self.instant)).saturating_sub(begun);
        let instant = Instant { at, ahead, turn: self.turn };
        let Some(snapshots) = &mut self.snapshots else { return Ok(()) };
        let taken = (snapshots.config.take)(&instant);
        let resumed = taken.map_err(|error| Error::Limit(format!("a snapshot: {error}")))?;
        let mut debug = None;
        if let Some(resumed) = resumed {
            snapshots.config.every = resumed.every;
            debug = resumed.debug;
        }
        snapshots.plan(at);
        if let Some(debug) = debug {
            self.debug_source = Some(Box::new(move || Some(debug)));
            self.debug_begins()?;
        }
        Ok(())
    }
}
