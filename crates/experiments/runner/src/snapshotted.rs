//! Snapshots of a run, and a run that begins at one.

use anyhow::{bail, Result};
use stasis_block::clock::Nanos;
use stasis_emulated_host::StartAt;
use stasis_experiment::Engine;
use stasis_results::Drive;
use stasis_run_events::SnapshotJob;

use crate::debugged::At;
use crate::plan::RunPlan;

/// The use that a run makes of snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshotted {
    /// Virtual time between two that it takes (ns), where it takes any by time.
    pub every: Option<Nanos>,
    /// Moments at which it takes others.
    pub at: Vec<At>,
    /// Moment at which it begins.
    pub from: StartAt,
    /// True if it begins there or not at all.
    pub must: bool,
    /// True if it is a branch of the run that has kept them.
    pub branches: bool,
}

impl Snapshotted {
    /// Returns whether the run takes any.
    pub fn takes(&self) -> bool {
        self.every.is_some() || !self.at.is_empty()
    }

    /// The snapshots to take of a run of `drives` under `engine`, if any are.
    ///
    /// # Errors
    /// If there is no such drive, or the engine does not repeat a run.
    pub(crate) fn job(&self, engine: Engine, drives: &[Drive]) -> Result<Option<SnapshotJob>> {
        let moments = self.at.iter().map(|at| at.moment("a snapshot", engine, drives));
        let job = SnapshotJob { every: self.every, moments: moments.collect::<Result<_>>()? };
        Ok(self.takes().then_some(job))
    }

    /// Checks that a run of `plan` under `engine` can take snapshots.
    ///
    /// # Errors
    /// The engine does not repeat a run, or a part of the run lies outside it.
    pub(crate) fn check(&self, engine: Engine, plan: &RunPlan, has_terminal: bool) -> Result<()> {
        // Without need of them, one that cannot use any begins at its beginning.
        if !self.takes() && !self.must && !self.branches {
            return Ok(());
        }
        if engine != Engine::Exact {
            bail!("snapshots need the engine exact, which repeats runs: --engine exact");
        }
        if has_terminal {
            bail!("a run on a terminal has no snapshots: nobody types the same again");
        }
        if let Some(drive) = plan.media().find(|drive| !drive.is_inside()) {
            bail!(
                "snapshots need each medium in RAM, a file or a device, whose changes are a part of \
                 them: take medium=ram:SIZE or file:PATH for {}, which is on {}",
                drive.name,
                drive.spec.medium.label()
            );
        }
        Ok(())
    }
}
