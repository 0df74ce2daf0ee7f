//! A run whose processors are sampled.

use anyhow::{bail, Result};
use stasis_block::clock::Nanos;
use stasis_experiment::Engine;
use stasis_report::Symbols;
use stasis_run_events::{Orc, ProfileJob};

/// The profile of a run.
#[derive(Debug, Clone)]
pub struct Profiled {
    /// Virtual time between two samples of a processor (ns).
    pub interval: Nanos,
    /// The kernel's functions.
    pub symbols: Symbols,
    /// The kernel's tables for unwinding its stacks.
    pub orc: Option<Orc>,
}

impl Profiled {
    /// The samples that the machine takes under `engine`.
    ///
    /// # Errors
    /// If the engine does not sample.
    pub(crate) fn job(&self, engine: Engine) -> Result<ProfileJob> {
        if engine != Engine::Exact {
            bail!("a profile needs the engine exact, whose samples take no time: --engine exact");
        }
        Ok(ProfileJob { interval: self.interval, orc: self.orc })
    }
}
