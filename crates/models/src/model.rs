//! The interface of a drive model.

use stasis_block::{Command, Tag};
use stasis_clock::Nanos;

/// A command that the model has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Which command.
    pub tag: Tag,
    /// When it completed (ns).
    pub at: Nanos,
}

/// A drive's behaviour in time, as a state machine over virtual time.
///
/// The caller submits commands in the order of time and calls
/// [`Model::advance`] at (or after) each [`Model::next_event`].
pub trait Model: Send {
    /// `command` reaches the drive at `now`. `tag` is unique among the commands
    /// in flight.
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command);

    /// When something next happens inside the drive, a completion among other
    /// things; `None` while nothing is under way.
    fn next_event(&self) -> Option<Nanos>;

    /// Moves the drive's time to `now` and appends what completed until then,
    /// in the order of completion.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>);
}
