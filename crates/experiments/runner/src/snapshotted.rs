//! Snapshots of a run, and a run that begins at one.

use anyhow::{bail, Result};
use stasis_block::clock::Nanos;
use stasis_emulated_host::StartAt;
use stasis_experiment::Engine;
use stasis_media::MediumSpec;

use crate::plan::RunPlan;

/// The use that a run makes of snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshotted {
    /// Virtual time between two that it takes (ns), if it does.
    pub every: Option<Nanos>,
    /// Where it begins.
    pub from: StartAt,
    /// Whether it begins there or not at all.
    pub must: bool,
}

impl Snapshotted {
    /// Checks that a run of `plan` under `engine` can take snapshots.
    ///
    /// # Errors
    /// The engine does not repeat a run, or a part of the run lies outside it.
    pub(crate) fn check(&self, engine: Engine, plan: &RunPlan, has_terminal: bool) -> Result<()> {
        // Without need of them, one that cannot use any begins at its beginning.
        if self.every.is_none() && !self.must {
            return Ok(());
        }
        if engine != Engine::Exact {
            bail!("snapshots need the engine exact, which repeats runs: --engine exact");
        }
        if has_terminal {
            bail!("a run on a terminal has no snapshots: nobody types the same again");
        }
        let outside = |medium: &MediumSpec| !matches!(medium, MediumSpec::Ram { .. });
        if let Some(drive) = plan.media().find(|drive| outside(&drive.spec.medium)) {
            bail!(
                "snapshots need each medium in RAM, which is a part of them: take medium=ram:SIZE \
                 for {}",
                drive.name
            );
        }
        Ok(())
    }
}
