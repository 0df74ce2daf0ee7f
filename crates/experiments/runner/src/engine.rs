//! Where a machine runs: on this host's KVM, or inside a software host.

use std::time::Duration;

use anyhow::{bail, Result};
use stasis_experiment::Engine;
use stasis_qemu_vm::probe::{self, KvmState};
use stasis_run_events::{Ending, Outcome};

/// Why a run has no outcome of its own.
#[derive(Debug)]
pub enum RunError {
    /// It was ended from outside.
    Ended(Ending),
    /// It could not start or go on.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for RunError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Makes `auto` a choice; the others are taken at their word.
pub fn choose(engine: Engine) -> Result<Engine> {
    match engine {
        Engine::Auto => Ok(match probe::probe() {
            KvmState::Usable => Engine::Kvm,
            _ => Engine::Exact,
        }),
        Engine::Kvm => match probe::probe() {
            KvmState::Usable => Ok(Engine::Kvm),
            state => bail!("--engine kvm: {state}; --engine exact needs no KVM"),
        },
        other => Ok(other),
    }
}

/// The outcome of a run that was ended from outside before it could say one.
pub fn unfinished(ending: Ending, virtual_ns: u64, wall: Duration) -> Outcome {
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    Outcome { virtual_ns, wall_ns, ..Outcome::of(ending) }
}
