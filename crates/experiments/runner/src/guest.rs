//! The guest of an experiment: made where it is not kept.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use stasis_experiment::{Experiment, GuestSpec};
use stasis_guest_image::{self as guest_image, Guest, Recipe};

use crate::program;

/// The recipe of an experiment's guest, with the images of all its machines.
pub fn recipe_of(experiment: &Experiment) -> Recipe {
    let machines = experiment.machine.all().iter();
    let images = machines.filter_map(|machine| experiment.image_of(machine));
    recipe(&GuestSpec { image: None, ..experiment.guest.clone() })
        .with_images(images.map(str::to_owned))
}

/// The recipe of a guest.
pub fn recipe(spec: &GuestSpec) -> Recipe {
    let mut recipe = Recipe::default().with_packages(spec.packages.iter().cloned());
    if let Some(kernel) = &spec.kernel {
        recipe.kernel.clone_from(kernel);
    }
    recipe.root.clone_from(&spec.root);
    recipe.images.extend(spec.image.clone());
    // Neither order nor repetition makes another guest.
    recipe.modules.clone_from(&spec.modules);
    recipe.modules.sort_unstable();
    recipe.modules.dedup();
    if let Some(suite) = &spec.suite {
        recipe.suite.clone_from(suite);
    }
    recipe
}

/// The folder where guests are kept.
///
/// # Errors
/// If no environment variable gives a place.
pub fn cache() -> Result<PathBuf> {
    guest_image::default_cache()
        .context("no place for the guest: set HOME or XDG_CACHE_HOME to a folder")
}

/// Makes the guest unless it is in the cache, or until `stop`; `step` receives the name of each step
/// and the progress (0 to 1).
///
/// # Errors
/// If the guest is not in the cache and cannot be made.
pub fn ensure(
    recipe: &Recipe,
    stop: &AtomicBool,
    step: &mut dyn FnMut(&str, Option<f64>),
) -> Result<Guest> {
    let (cache, executable) = (cache()?, program::for_guests()?);
    let guest = guest_image::build(recipe, &executable, &cache, stop, &mut |progress| {
        step(&progress.step, Some(progress.fraction));
    })?;
    Ok(guest)
}
