//! Snapshots of a run, each between two turns of its processors.
//!
//! To take one is the business of whoever runs this program: it stores the whole program, with the run
//! in it. So a snapshot takes no time of the run, and the run goes on as if there had been none, here or
//! in another program that continues from it. Owns which are to come, and when the next is due.

mod take;

use std::io;

use stasis_block::clock::Nanos;
use stasis_run_events::{Instant, ProfileJob, SnapshotJob};

use super::changes::ChangeConfig;
use super::debug::DebugConfig;
use super::triggers::MOMENT;

/// The snapshots to take of a run.
pub struct SnapshotConfig {
    /// The instants of them.
    pub job: SnapshotJob,
    /// Takes one.
    pub take: TakeSnapshot,
}

/// Takes a snapshot at this instant. Returns what a run that continues from it is to do beside what it
/// would do anyway; None in the run itself.
pub type TakeSnapshot = Box<dyn FnMut(&Instant) -> io::Result<Option<Resumed>>>;

/// The wishes of a run that continues from a snapshot.
#[derive(Default)]
pub struct Resumed {
    /// The further snapshots, if any are taken.
    pub snapshots: Option<SnapshotJob>,
    /// The debugger, if one takes hold of the run.
    pub debug: Option<DebugConfig>,
    /// The samples to take of the run, if any are.
    pub profile: Option<ProfileJob>,
    /// The changes by which it becomes another run, if it does.
    pub change: Option<ChangeConfig>,
}

/// Called when the commands begin: the snapshots to take of the run, if any are.
pub type SnapshotSource = Box<dyn FnOnce() -> Option<SnapshotConfig>>;

/// The number of the triggers of snapshots: there are fewer faults.
pub(super) const SNAPSHOT: u16 = MOMENT - 1;

/// The snapshots of a run.
pub(super) struct Snapshots {
    config: SnapshotConfig,
    /// Time at which the next is due (ns since the commands have begun).
    due: Nanos,
}

impl Snapshots {
    fn new(config: SnapshotConfig) -> Self {
        let mut snapshots = Self { config, due: 0 };
        snapshots.plan(0);
        snapshots
    }

    /// The moment of one has come.
    pub(super) fn come(&mut self) {
        self.due = 0;
    }

    fn plan(&mut self, now: Nanos) {
        self.due = match self.config.job.every {
            Some(every) => (now / every.max(1) + 1).saturating_mul(every.max(1)),
            None => Nanos::MAX,
        };
    }
}
