//! The state that a served NVMe drive keeps beside its medium.

use std::sync::Arc;

use anyhow::Result;
use stasis_experiment::DriveSpec;
use stasis_nvme::{Config, KeptState, StateError};
use stasis_runner::failure;
use stasis_runner::keep::{Before, Follow, Keep};
use stasis_serve::{FollowState, KeepState, NewNvme};

/// Makes the NVMe side of the drive `name` in the state that is kept beside its medium, which is
/// in use from now on; its carrier is to keep the state before each completion that depends on it,
/// where that can be done. `make`: [`stasis_nvme::Subsystem::with_state`] or that of a controller.
///
/// # Errors
/// Another kind of drive has written the medium, or its state is not known.
pub fn restore<N>(
    config: Config,
    before: Option<Before>,
    spec: &DriveSpec,
    name: &str,
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
    let follow = if keep.can_follow() {
        Some(follow(&keep)?)
    } else {
        keep.begin()?;
        None
    };
    let end: KeepState =
        Box::new(move |state| keep.end(state).map_err(|error| failure::told(&error)));
    Ok(NewNvme { nvme, keep: Some(end), follow })
}

/// Keeps a drive's state while it is in use. Where the drive's contents are what they are without
/// it, there are no files before the first change.
fn follow(keep: &Arc<Keep>) -> Result<FollowState> {
    let mut files = None;
    if keep.state.governs_contents() {
        files = Some(keep.begin_following()?);
    } else {
        keep.begin()?;
    }
    let keep = Arc::clone(keep);
    Ok(Box::new(move |state| {
        put(&keep, &mut files, &state).map_err(|error| match keep.begin() {
            Ok(()) => failure::told(&error),
            // Then the next server finds the last state, which is an older one.
            Err(worse) => format!(
                "{}; {}: delete the state file before the next server begins",
                failure::told(&error),
                failure::told(&worse)
            ),
        })
    }))
}

fn put(keep: &Keep, files: &mut Option<Follow>, state: &KeptState) -> Result<()> {
    let files = match files {
        Some(files) => files,
        None => files.insert(keep.begin_following()?),
    };
    files.put(state)
}
