//! `stasis guest`: the system that runs in the virtual machine.

use std::process::ExitCode;

use anyhow::{Context, Result};
use stasis_experiment::{Experiment, GuestSpec};
use stasis_guest::build::{self, Guest, Recipe};

use crate::cli::GuestBuildArguments;
use crate::progress::Steps;

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
    let executable = crate::program::for_guests()?;
    let mut steps = Steps::new();
    let guest = build::build(recipe, &executable, &cache, &mut |progress| {
        steps.step(progress.step, Some(progress.fraction));
    })?;
    steps.done();
    Ok(guest)
}

/// The guest that the words ask for, or the experiment's; words win.
fn spec(arguments: &GuestBuildArguments) -> Result<GuestSpec> {
    let mut spec = match &arguments.experiment {
        Some(path) => {
            let mut experiment = Experiment::read(path)?;
            experiment.finish()?;
            experiment.guest
        }
        None => GuestSpec::default(),
    };
    spec.packages.extend(arguments.packages.iter().cloned());
    spec.kernel = arguments.kernel.clone().or(spec.kernel);
    spec.suite = arguments.suite.clone().or(spec.suite);
    Ok(spec)
}

/// `stasis guest build`.
pub fn build(arguments: &GuestBuildArguments) -> Result<ExitCode> {
    let guest = ensure(&recipe(&spec(arguments)?))?;
    println!("kernel {}: {}", guest.kernel_release, guest.vmlinux.display());
    println!("root file system: {}", guest.root.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiments_guest_is_built_and_words_win() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("experiment.toml");
        let text = "command = ['true']\n[guest]\npackages = ['jq']\nkernel = 'linux-image-amd64'\n";
        std::fs::write(&path, text).unwrap();
        let mut arguments = GuestBuildArguments {
            experiment: Some(path.clone()),
            packages: Vec::new(),
            kernel: None,
            suite: None,
        };
        let built = recipe(&spec(&arguments).unwrap());
        let mut experiment = Experiment::read(&path).unwrap();
        experiment.finish().unwrap();
        assert_eq!(built, recipe(&experiment.guest), "what `stasis run` builds");
        assert!(built.packages.contains(&"jq".to_owned()));
        assert_eq!(built.kernel, "linux-image-amd64");

        arguments.packages = vec!["ffmpeg".into()];
        arguments.kernel = Some("linux-image-cloud-amd64".into());
        arguments.suite = Some("trixie".into());
        let built = recipe(&spec(&arguments).unwrap());
        assert!(["jq", "ffmpeg"].iter().all(|name| built.packages.contains(&(*name).to_owned())));
        assert_eq!((&*built.kernel, &*built.suite), ("linux-image-cloud-amd64", "trixie"));
    }
}
