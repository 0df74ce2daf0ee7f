//! A run that becomes another at a moment: a command of its own runs from there on.

use anyhow::{anyhow, Result};
use stasis_channel::{Branch, Call, Job};
use stasis_experiment::Engine;
use stasis_run_events::Moment;

use crate::attended::Attended;
use crate::debugged::At;
use crate::plan::PlannedMachine;

/// A branch of a run.
#[derive(Debug, Clone)]
pub struct Branched {
    /// Time at which it begins.
    pub at: At,
    /// The machine whose guest runs the command; the first, where none is named.
    pub machine: Option<String>,
    /// The command.
    pub command: Vec<String>,
    /// The way to call the guest's agent.
    pub call: Call,
    /// The terminal that the command runs on, if it does.
    pub terminal: Option<Attended>,
}

impl Branched {
    /// The moment and the branch in a run of `machines` and `drives` under `engine`.
    ///
    /// # Errors
    /// If there is no such drive or machine, or the engine does not repeat a run.
    pub(crate) fn plan(
        &self,
        engine: Engine,
        drives: &[stasis_results::Drive],
        machines: &[PlannedMachine],
    ) -> Result<(Moment, Branch)> {
        let moment = self.at.moment("a branch of a run", engine, drives)?;
        let machine = match &self.machine {
            None => 0,
            Some(name) => machines.iter().position(|one| one.name == *name).ok_or_else(|| {
                let names: Vec<_> = machines.iter().map(|one| one.name.as_str()).collect();
                match names.join(", ").as_str() {
                    "" => anyhow!("--machine: there is one machine, which has no name"),
                    names => anyhow!("--machine: there is no machine {name}; there is {names}"),
                }
            })?,
        };
        // As `docker exec` does: the container's user, environment and folder.
        let mut job = Job::new(self.command.clone());
        if let Some(first) = machines.get(machine).filter(|one| one.job.container.is_some()) {
            job.environment.clone_from(&first.job.environment);
            job.working_directory.clone_from(&first.job.working_directory);
            job.container.clone_from(&first.job.container);
        }
        if let Some(terminal) = &self.terminal {
            terminal.apply(&mut job);
        }
        Ok((moment, Branch { machine, job, call: self.call }))
    }
}
