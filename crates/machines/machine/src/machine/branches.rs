//! The beginning of branches. Steps of the run: each branch is of its [`Branching`].

use stasis_channel::Branch;

use super::branch::Branching;
use super::run::Run;
use crate::error::Error;

impl Run<'_> {
    /// The moment of a branch has come: the run becomes one of that command alone. `is_end`: the
    /// machine's own command has just ended.
    pub(super) fn become_branch(&mut self, branch: Branch, is_end: bool) -> Result<(), Error> {
        let number = branch.machine;
        self.branch_off(branch, is_end)?;
        // The run ends with that command, and waits for nobody else.
        for (other, machine) in self.machines.iter_mut().enumerate() {
            machine.progress.wait_for(other == number);
        }
        // It takes the time of its own command.
        self.bounds.limit(None);
        Ok(())
    }

    /// A machine's guest runs the branch's command from now on.
    pub(super) fn branch_off(&mut self, branch: Branch, is_end: bool) -> Result<(), Error> {
        let now = self.common.clock.now_ns();
        let machine = self.machines.get_mut(branch.machine);
        let machine = machine.ok_or(Error::Internal("no such machine"))?;
        self.branching.push(Branching::begin(machine, branch, is_end, now)?);
        Ok(())
    }
}
