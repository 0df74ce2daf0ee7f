//! A run that becomes another at a moment: from there on it has another seed, other faults, and drives
//! with other settings. Up to the moment it is the run that it was.
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

/// Changes that are to come.
pub(super) struct Changes {
    /// When, in ns since the commands have begun; the greatest number until a trigger says so.
    due: Nanos,
    /// True if they come as the last command that the run waits for has ended.
    at_end: bool,
    change: Change,
}

impl Changes {
    /// The moment has come.
    pub(super) fn come(&mut self) {
        self.due = 0;
    }
}
