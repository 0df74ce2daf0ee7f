//! Place where a machine runs: this host's KVM, or a software host.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Result};
use stasis_experiment::Engine;
use stasis_qemu_vm::probe::{self, KvmState};
use stasis_run_events::{Ending, Outcome};

use crate::self_check::{self, Answer, Keeper};

/// Makes `auto` a choice; the others are taken at their word. KVM that has not been checked is,
/// where a check was provided ([`self_check::provide`]).
///
/// # Errors
/// If KVM is requested and not usable.
pub fn choose(engine: Engine) -> Result<Engine> {
    Ok(choose_checked(engine, &Arc::default())?.0)
}

/// Like [`choose`], but also returns a line for the user, if there is one. `stop` ends the check.
pub(crate) fn choose_checked(
    engine: Engine,
    stop: &Arc<AtomicBool>,
) -> Result<(Engine, Option<String>)> {
    if !matches!(engine, Engine::Auto | Engine::Kvm) {
        return Ok((engine, None));
    }
    let state = usable(engine)?;
    let provided = self_check::provided();
    let mut check = provided.map(|check| move || check(stop));
    let check = check.as_mut().map(|check| check as &mut dyn FnMut() -> Result<Answer>);
    Ok(self_check::decide(engine, &state, Keeper::here().as_ref(), check))
}

/// Returns the state of this machine's KVM.
///
/// # Errors
/// If `engine` is KVM, and KVM is not usable.
pub(crate) fn usable(engine: Engine) -> Result<KvmState> {
    match probe::probe() {
        KvmState::Usable => Ok(KvmState::Usable),
        state if engine == Engine::Kvm => {
            bail!("--engine kvm: {state}; --engine exact needs no KVM")
        }
        state => Ok(state),
    }
}

/// The outcome of a run that was ended from outside before its machine reported one.
pub fn unfinished(ending: Ending, virtual_ns: u64, wall: Duration) -> Outcome {
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    Outcome { virtual_ns, wall_ns, ..Outcome::of(ending) }
}
