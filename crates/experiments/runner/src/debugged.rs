//! A run that a debugger takes hold of.

use std::sync::Arc;

use anyhow::{anyhow, bail, Result};
use stasis_experiment::Engine;
use stasis_results::Drive;
use stasis_run_events::{DebugJob, Modules, Moment, SharedDebugger, Tasks, WriteEntry};

/// The debugger of a run.
#[derive(Debug, Clone)]
pub struct Debugged {
    /// Moment at which the run stops for the first time.
    pub at: At,
    /// The tasks of the guests' kernels, where their places are known.
    pub tasks: Option<Tasks>,
    /// The modules likewise.
    pub modules: Option<Modules>,
    /// The kernel's entries by which programs write, if a line's moment is to be its program's.
    pub writes: Vec<WriteEntry>,
    /// The wire to the debugger.
    pub debugger: SharedDebugger,
}

/// A moment as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// A moment that needs no drive's name.
    Moment(Moment),
    /// The named drive has delivered the I/O of this number among the submissions to it.
    Io(String, u64),
}

impl At {
    /// The moment in a run of `drives` under `engine`, of which `subject` takes hold there.
    ///
    /// # Errors
    /// If there is no such drive, or the engine does not stop where it is told to.
    pub(crate) fn moment(&self, subject: &str, engine: Engine, drives: &[Drive]) -> Result<Moment> {
        if engine != Engine::Exact {
            bail!("{subject} needs the engine exact, which repeats runs: --engine exact");
        }
        match self {
            Self::Moment(moment) => Ok(moment.clone()),
            Self::Io(name, order) => {
                let drive =
                    drives.iter().position(|drive| drive.name == *name).ok_or_else(|| {
                        let names: Vec<_> =
                            drives.iter().map(|drive| drive.name.as_str()).collect();
                        anyhow!(
                            "there is no drive {name} in this run; there is {}",
                            names.join(", ")
                        )
                    })?;
                Ok(Moment::Io { drive: u16::try_from(drive)?, order: *order })
            }
        }
    }
}

impl Debugged {
    /// The debugger's wishes of a run of `drives` under `engine`.
    ///
    /// # Errors
    /// If there is no such drive, or the engine has no debugger.
    pub(crate) fn job(&self, engine: Engine, drives: &[Drive]) -> Result<DebugJob> {
        let moment = self.at.moment("a debugger", engine, drives)?;
        let writes = match moment {
            Moment::Output(_) => self.writes.clone(),
            _ => Vec::new(),
        };
        Ok(DebugJob { moment, tasks: self.tasks, modules: self.modules, writes, again: None })
    }

    /// The wire, for one more holder.
    pub(crate) fn wire(&self) -> SharedDebugger {
        Arc::clone(&self.debugger)
    }
}
