//! `stasis guest`: the system that runs in the virtual machine.

use std::process::ExitCode;

use anyhow::{Context, Result};
use stasis_experiment::GuestSpec;
use stasis_guest::build::{self, Guest, Recipe};

use crate::cli::GuestBuildArguments;
use crate::commands::run::progress::Steps;

/// The recipe of an experiment's guest.
pub fn recipe(spec: &GuestSpec) -> Recipe {
    let mut recipe = Recipe::default().with_packages(spec.packages.iter().cloned());
    if let Some(kernel) = &spec.kernel {
        recipe.kernel.clone_from(kernel);
    }
    if let Some(suite) = &spec.suite {
        recipe.suite.clone_from(suite);
    }
    recipe
}

/// Makes sure that the guest is there.
pub fn ensure(recipe: &Recipe) -> Result<Guest> {
    let cache = build::default_cache()
        .context("no place for the guest: set HOME or XDG_CACHE_HOME to a folder")?;
    let executable = std::env::current_exe().context("cannot find this program's own file")?;
    let mut steps = Steps::new();
    let guest = build::build(recipe, &executable, &cache, &mut |progress| {
        steps.step(progress.step, Some(progress.fraction));
    })?;
    steps.done();
    Ok(guest)
}

/// `stasis guest build`.
pub fn build(arguments: &GuestBuildArguments) -> Result<ExitCode> {
    let spec = GuestSpec {
        packages: arguments.packages.clone(),
        kernel: arguments.kernel.clone(),
        suite: arguments.suite.clone(),
        files: Vec::new(),
    };
    let guest = ensure(&recipe(&spec))?;
    println!("kernel {}: {}", guest.kernel_release, guest.vmlinux.display());
    println!("root file system: {}", guest.root.display());
    Ok(ExitCode::SUCCESS)
}
