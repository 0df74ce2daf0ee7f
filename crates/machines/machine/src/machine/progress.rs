//! The progress of a machine from its boot to its end. Owns what its guest waits for, and when its
//! command began and ended, and how.

use stasis_block::clock::Nanos;
use stasis_run_events::Ending;

/// Limit on the returns of a machine that are kept.
const MAX_RETURNS: usize = 200;

/// The progress.
#[derive(Debug)]
pub(super) struct Progress {
    /// True if the run lasts until its command has ended.
    is_waited_for: bool,
    /// True if it has everything to begin with its command.
    is_prepared: bool,
    /// The processor on which its guest waits for its command.
    wanting: Option<usize>,
    /// True if its guest has been given that.
    is_commanded: bool,
    /// Time at which its command began (ns).
    started: Option<Nanos>,
    /// True if it boots again.
    is_back: bool,
    /// Times at which its command began again after a failure (ns), the first ones.
    returns: Vec<Nanos>,
    ended: Option<Nanos>,
    ending: Option<Ending>,
    /// True if its agent has no more messages: it does not run again.
    is_finished: bool,
}

impl Progress {
    /// Before the boot.
    pub(super) fn new(is_waited_for: bool) -> Self {
        Self {
            is_waited_for,
            is_prepared: false,
            wanting: None,
            is_commanded: false,
            started: None,
            is_back: false,
            returns: Vec::new(),
            ended: None,
            ending: None,
            is_finished: false,
        }
    }

    /// Returns whether the run lasts until its command has ended.
    pub(super) fn is_waited_for(&self) -> bool {
        self.is_waited_for
    }

    /// The run waits for its command from now on, or does not.
    pub(super) fn wait_for(&mut self, is_waited_for: bool) {
        self.is_waited_for = is_waited_for;
    }

    /// Returns whether the run goes on for its command, which has not ended.
    pub(super) fn holds_the_run(&self) -> bool {
        self.is_waited_for && self.ended.is_none()
    }

    /// Returns whether it has everything to begin with its command.
    pub(super) fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// Notes that the machine has everything to begin its command. Returns whether it had not
    /// before.
    pub(super) fn prepare(&mut self) -> bool {
        !std::mem::replace(&mut self.is_prepared, true)
    }

    /// Notes that the guest waits for its command on processor `index`.
    pub(super) fn want_command(&mut self, index: usize) {
        self.wanting = Some(index);
    }

    /// Returns whether its guest waits for its command.
    pub(super) fn is_wanting(&self) -> bool {
        self.wanting.is_some()
    }

    /// Returns whether its guest is not set up yet, so that it is waited for.
    pub(super) fn is_setting_up(&self) -> bool {
        let has_ended = self.is_finished || self.ended.is_some();
        !self.is_commanded && self.wanting.is_none() && !has_ended
    }

    /// Gives the guest its command if it waits for one. Returns the processor that waited.
    pub(super) fn take_command(&mut self) -> Option<usize> {
        let index = self.wanting.take()?;
        self.is_commanded = true;
        Some(index)
    }

    /// Notes that the machine boots again: no guest waits.
    pub(super) fn boot_again(&mut self) {
        self.wanting = None;
        self.is_back = true;
    }

    /// Notes that the command begins. Returns whether it is the first time: after another boot the
    /// figures do not begin again.
    pub(super) fn start(&mut self, now: Nanos) -> bool {
        let is_first = self.started.is_none();
        self.started.get_or_insert(now);
        if std::mem::take(&mut self.is_back) && self.returns.len() < MAX_RETURNS {
            self.returns.push(now);
        }
        is_first
    }

    /// Times at which its command began again after a failure (ns).
    pub(super) fn returns(&self) -> &[Nanos] {
        &self.returns
    }

    /// Time at which its command began (ns).
    pub(super) fn started(&self) -> Option<Nanos> {
        self.started
    }

    /// Notes that the command has ended, or cannot begin.
    pub(super) fn end(&mut self, now: Nanos, ending: Ending) {
        self.ended = Some(now);
        self.ending.get_or_insert(ending);
    }

    /// Returns whether its command has ended, or could not begin.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns whether its command has begun and not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.started.is_some() && self.ended.is_none()
    }

    /// Notes that the kernel has panicked: this replaces the command's ending.
    pub(super) fn panic(&mut self) {
        self.ending = Some(Ending::Panicked);
    }

    /// The ending of its command.
    pub(super) fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Notes that the agent has no more messages. A machine whose command has not ended has failed.
    pub(super) fn finish(&mut self) {
        self.ending.get_or_insert(Ending::Panicked);
        self.is_finished = true;
    }

    /// Notes that the machine stands still for good.
    pub(super) fn stand_still(&mut self) {
        self.is_finished = true;
    }

    /// Returns whether it does not run again.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Returns the virtual time of its command until `now` (ns), if it has begun.
    pub(super) fn took(&self, now: Nanos) -> Option<Nanos> {
        self.started.map(|started| self.ended.unwrap_or(now) - started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_is_a_command_that_begins_after_another_boot() {
        let mut progress = Progress::new(true);
        assert!(progress.start(10));
        // Another command of the same boot.
        assert!(!progress.start(20));
        assert_eq!(progress.returns(), [0; 0]);
        progress.boot_again();
        // It fails again before its command begins.
        progress.boot_again();
        assert!(!progress.start(50));
        progress.boot_again();
        progress.start(90);
        assert_eq!((progress.returns(), progress.started()), (&[50, 90][..], Some(10)));
        for at in 0..1000 {
            progress.boot_again();
            progress.start(100 + at);
        }
        assert_eq!(progress.returns().len(), MAX_RETURNS);
    }
}
