//! A run whose processors are sampled.

use anyhow::{bail, Result};
use stasis_block::clock::Nanos;
use stasis_experiment::Engine;
use stasis_results::Symbols;
use stasis_run_events::{KernelPlaces, Modules, Orc, ProfileJob, Threads};

/// The samples that are taken of a run, and the other times that are told of its guests.
#[derive(Debug, Clone)]
pub struct Profiled {
    /// Virtual time between two samples of a processor (ns); None for none.
    pub interval: Option<Nanos>,
    /// The kernel's functions.
    pub symbols: Symbols,
    /// The kernel's tables for unwinding its stacks.
    pub orc: Option<Orc>,
    /// Place of the names of threads in the kernel.
    pub threads: Option<Threads>,
    /// Place of the kernel's list of modules.
    pub modules: Option<Modules>,
    /// The kernel's places that tell the time of I/Os in it, if that is kept.
    pub places: Option<KernelPlaces>,
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
        let Self { symbols: _, interval, orc, threads, modules, places } = self.clone();
        Ok(ProfileJob { interval, orc, threads, modules, places })
    }
}
