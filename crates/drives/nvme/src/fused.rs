//! The fused pair Compare and Write (NVM Command Set 1.0 section 3.4): the write takes place if the
//! comparison finds the blocks equal, and nothing comes in between.
//!
//! While a pair is under way no controller begins another I/O command, and the pair begins once
//! nothing of its namespace is under way.

use crate::command::{CommandId, SubmissionEntry};
use crate::controller_id::ControllerId;

/// The pair under way, if there is one.
#[derive(Debug, Default)]
pub struct Fused(Option<Pair>);

/// A Compare and the Write that follows it, of the same blocks.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub compare: SubmissionEntry,
    pub write: SubmissionEntry,
    pub stage: Stage,
}

/// Progress of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The pair waits for the commands before it.
    Waiting,
    /// Its blocks are being compared.
    Comparing,
    /// The blocks were equal, and are being written.
    Writing,
}

impl Fused {
    /// Returns whether a pair is under way.
    pub fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// The controller that waits to begin with its pair.
    pub fn waiting(&self) -> Option<ControllerId> {
        let waits = self.0.as_ref().filter(|pair| pair.stage == Stage::Waiting);
        waits.map(|pair| pair.compare.controller)
    }

    /// A pair is under way from now on.
    pub fn begin(&mut self, compare: SubmissionEntry, write: SubmissionEntry) {
        self.0 = Some(Pair { compare, write, stage: Stage::Waiting });
    }

    /// The pair of a controller.
    pub fn of(&self, controller: ControllerId) -> Option<Pair> {
        self.0.filter(|pair| pair.compare.controller == controller)
    }

    /// The pair has come to this stage.
    pub fn set(&mut self, stage: Stage) {
        if let Some(pair) = &mut self.0 {
            pair.stage = stage;
        }
    }

    /// The Write of a pair whose Compare is this command, and has ended.
    pub fn compared(&self, command: CommandId) -> Option<SubmissionEntry> {
        let pair = self.0.filter(|pair| pair.stage == Stage::Comparing)?;
        (pair.compare.id() == command).then_some(pair.write)
    }

    /// The pair has ended.
    pub fn end(&mut self) {
        self.0 = None;
    }

    /// Drops the pair of a controller, as its reset does.
    pub fn reset(&mut self, controller: ControllerId) {
        if self.of(controller).is_some() {
            self.end();
        }
    }
}
