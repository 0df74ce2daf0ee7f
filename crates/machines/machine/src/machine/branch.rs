//! A branch of a run: from a moment on a command of its own runs in a guest, beside the run's own.
//! Several guests can have one each. Owns what a called agent is to be given, and until when it answers.
//!
//! The guest's agent sleeps while its command runs, and does not look whether something is wanted of
//! it: that would cost every run time. So the machine calls it by an interrupt of the guest's kernel
//! ([`stasis_channel::Call`]). Up to the moment the run is the run; the call makes it another.

use stasis_block::clock::Nanos;
use stasis_channel::Branch;

use super::vm::Machine;
use crate::error::Error;

/// Longest time for a called agent to answer (ns of virtual time): a guest that is busy lets it run
/// within milliseconds.
const PATIENCE: Nanos = 1_000_000_000;

/// A branch that has begun.
#[derive(Debug)]
pub(super) struct Branching {
    branch: Branch,
    /// Until when the agent is to answer (ns).
    until: Nanos,
    /// Place of the guest kernel's pointer in guest-physical memory, and the pointer's bytes
    /// before.
    called: Option<(u64, [u8; 8])>,
    /// True if the agent has asked for the command.
    has_asked: bool,
}

impl Branching {
    /// Becomes of `machine` at `now` (ns), when it is the moment. `is_end`: the machine's own command
    /// has just ended, and its agent is in a call.
    ///
    /// # Errors
    /// If the machine's guest has no command under way, or cannot be called.
    pub(super) fn begin(
        machine: &mut Machine,
        branch: Branch,
        is_end: bool,
        now: Nanos,
    ) -> Result<Self, Error> {
        let progress = &machine.progress;
        let runs = progress.is_under_way() && !progress.is_finished();
        if !runs || machine.faults.failures.is_off() {
            let name = match machine.name.as_str() {
                "" => "the guest".to_owned(),
                name => format!("the guest of {name}"),
            };
            let why = "runs no command at this moment: its agent takes none";
            return Err(Error::Limit(format!("{name} {why}")));
        }
        let called = match is_end {
            true => {
                machine.channel.something_is_to_run();
                None
            }
            false => Some(machine.call(branch.call)?),
        };
        Ok(Self { branch, until: now.saturating_add(PATIENCE), called, has_asked: false })
    }

    /// Returns whether the agent of machine `number` was called and has not asked.
    pub(super) fn waits_for(&self, number: usize) -> bool {
        self.branch.machine == number && !self.has_asked
    }

    /// Gives the agent of its machine the command.
    pub(super) fn give(&mut self, machine: &mut Machine) {
        self.has_asked = true;
        if let Some((address, before)) = self.called {
            // It was memory when the machine called.
            let _ = machine.memory.write(address, &before);
        }
        machine.channel.give_branch(&self.branch.job);
    }

    /// # Errors
    /// If the agent was called and has not answered by `now` (ns), or nothing `idle` can make it.
    pub(super) fn check(&self, now: Nanos, idle: bool) -> Result<(), Error> {
        if self.has_asked || !(idle || now >= self.until) {
            return Ok(());
        }
        let why = "the guest does not answer at this moment: its kernel takes no interrupts, or \
                   does not let process 1 run; `stasis debug` shows where it is";
        Err(Error::Limit(why.into()))
    }
}
