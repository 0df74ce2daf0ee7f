//! A run that becomes another at a moment: from there on it has another seed, other faults, and drives
//! with other settings. Up to the moment it is the run that it was. Owns the changes that are to come.
//!
//! The moment lies between two turns of the processors, at the first where everything has reached its
//! time. What is under way then goes on: a command in flight ends as it would have, a machine that is
//! off comes back.

mod apply;
mod begin;
mod config;

use stasis_block::clock::Nanos;

use super::snapshots::SNAPSHOT;

pub use config::{
    BeginSource, Change, ChangeConfig, ChangeSource, DriveChange, MachineChange, MachineFaults,
    ModelChange,
};

/// The number of the trigger that brings the moment about.
pub(super) const CHANGE: u16 = SNAPSHOT - 1;

/// The changes of a run. Owns those that are to come, and whether they have.
#[derive(Default)]
pub(super) struct Changes {
    coming: Option<Box<Coming>>,
    have_come: bool,
}

struct Coming {
    /// When, in ns since the commands have begun; the greatest number until a trigger says so.
    due: Nanos,
    /// True if they come as the last command that the run waits for has ended.
    at_end: bool,
    change: Change,
}

impl Changes {
    fn expect(&mut self, due: Nanos, at_end: bool, change: Change) {
        self.coming = Some(Box::new(Coming { due, at_end, change }));
    }

    /// The moment has come, if any is waited for.
    pub(super) fn come(&mut self) {
        if let Some(coming) = &mut self.coming {
            coming.due = 0;
        }
    }

    /// Returns whether the run has become another.
    pub(super) fn have_come(&self) -> bool {
        self.have_come
    }

    /// The time since the commands have begun at which the moment comes (ns), where it is known.
    fn due(&self) -> Option<Nanos> {
        self.coming.as_ref().map(|coming| coming.due).filter(|due| *due != Nanos::MAX)
    }

    /// The changes, if their moment has come by `now` (ns since the commands have begun).
    fn take_due(&mut self, now: Nanos) -> Option<Change> {
        self.take_if(|coming| now >= coming.due)
    }

    /// The changes, if they come as the last command has ended.
    fn take_at_end(&mut self) -> Option<Change> {
        self.take_if(|coming| coming.at_end)
    }

    fn take_if(&mut self, is_moment: impl FnOnce(&Coming) -> bool) -> Option<Change> {
        let coming = self.coming.take_if(|coming| is_moment(coming))?;
        self.have_come = true;
        Some(coming.change)
    }
}
