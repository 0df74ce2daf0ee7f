//! The state that a served NVMe drive keeps beside its medium.

use std::sync::Arc;

use anyhow::Result;
use stasis_experiment::DriveSpec;
use stasis_nvme::{Config, KeptState, StateError};
use stasis_runner::failure;
use stasis_runner::keep::{Before, Keep};
use stasis_serve::{FollowState, KeepState, NewNvme};

/// Makes the NVMe side of the drive `name` in the state that is kept beside its medium, which is
/// in use from now on. `follows`: the carrier keeps it before each completion that depends on it.
/// `make`: [`stasis_nvme::Subsystem::with_state`] or that of a controller.
///
/// # Errors
/// Another kind of drive has written the medium, or its state is not known.
pub fn restore<N>(
    config: Config,
    before: Option<Before>,
    spec: &DriveSpec,
    name: &str,
    follows: bool,
    make: impl FnOnce(Config, &KeptState) -> Result<N, StateError>,
) -> Result<NewNvme<N>> {
    config.check()?;
    let keep = before.map(|before| Keep::of(before, spec, &config)).transpose()?.flatten();
    let Some(keep) = keep else {
        let state = KeptState::as_made(&config);
        return Ok(NewNvme { nvme: make(config, &state)?, keep: None, follow: None });
    };
    keep.notes.iter().for_each(|note| stasis_serve::log::warn(name, note));
    let nvme = make(config, &keep.state)?;
    let keep = Arc::new(keep);
    let follow = match follows && keep.can_follow() {
        false => None,
        true => {
            let mut files = keep.begin_following()?;
            let keep = Arc::clone(&keep);
            let follow: FollowState = Box::new(move |state| {
                files.put(&state).map_err(|error| match keep.begin() {
                    Ok(()) => failure::told(&error),
                    // Then the next server finds the last state, which is an older one.
                    Err(worse) => format!(
                        "{}; {}: delete the state file before the next server begins",
                        failure::told(&error),
                        failure::told(&worse)
                    ),
                })
            });
            Some(follow)
        }
    };
    if follow.is_none() {
        keep.begin()?;
    }
    let end: KeepState =
        Box::new(move |state| keep.end(state).map_err(|error| failure::told(&error)));
    Ok(NewNvme { nvme, keep: Some(end), follow })
}
