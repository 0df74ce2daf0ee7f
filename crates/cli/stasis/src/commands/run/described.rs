//! The experiment of a command: its file and its words, joined.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, Result};
use stasis_block::units;
use stasis_experiment::{Expectation, Experiment, ExperimentError, Scenario};
use stasis_program::here::{self, Here};

use crate::arguments::{MachineArguments, RunArguments};

/// The experiment of `stasis run`: the words and the file, joined.
pub fn joined(arguments: RunArguments) -> Result<(Experiment, PathBuf)> {
    let RunArguments {
        cpu_speed,
        rewind,
        expect,
        virtual_limit,
        wall_limit,
        check,
        command,
        scenario,
        ..
    } = arguments;
    let duration = |word: &Option<String>, option: &str| {
        let read = word.as_deref().map(units::parse_duration).transpose();
        read.map_err(|error| anyhow!("{option}: {error}"))
    };
    let virtual_limit = duration(&virtual_limit, "--virtual-limit")?;
    let wall_limit = duration(&wall_limit, "--wall-limit")?;
    let scenario = scenario.as_deref().map(Scenario::read).transpose()?;
    let (file, results) = (arguments.experiment.as_deref(), arguments.results);
    experiment(file, arguments.machine, results, |experiment| {
        experiment.machine.cpu_speed = cpu_speed.or(experiment.machine.cpu_speed);
        experiment.machine.rewind |= rewind;
        experiment.expectations.extend(expect.expect.into_iter().map(Expectation::of));
        experiment.virtual_limit = virtual_limit.or(experiment.virtual_limit);
        experiment.wall_limit = wall_limit.or(experiment.wall_limit);
        if check.is_some() {
            experiment.check = check;
        }
        if !command.is_empty() {
            experiment.command = command;
        }
        if let Some(scenario) = scenario {
            scenario.apply(experiment);
        }
    })
}

/// Returns whether a file could not be read.
fn is_unread(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ExperimentError::Read { .. }))
}

/// Joins an experiment's file, if there is one, the words for its machine, and the changes by
/// `more`; returns the folder that the experiment's relative paths start from.
pub fn experiment(
    file: Option<&Path>,
    words: MachineArguments,
    results: Option<PathBuf>,
    more: impl FnOnce(&mut Experiment),
) -> Result<(Experiment, PathBuf)> {
    let read = here::experiment(file, &words.drive).map_err(|error| match file {
        // A file of experiments has an ending; a name without one is a command.
        Some(path) if path.extension().is_none() && is_unread(&error) => {
            anyhow!("{error}; a command goes after `--`: stasis run -- {}", path.display())
        }
        _ => error,
    });
    let (mut experiment, base) = read?;
    let base = if base.as_os_str().is_empty() { PathBuf::from(".") } else { base };
    let here = Here::beside(&base)?;
    experiment.machine.vcpus = words.vcpus.unwrap_or(experiment.machine.vcpus);
    if let Some(memory) = &words.memory {
        experiment.machine.memory =
            units::parse_size(memory).map_err(|error| anyhow!("--memory: {error}"))?;
    }
    experiment.seed = words.seed.unwrap_or(experiment.seed);
    if let Some(results) = results {
        experiment.results = Some(results);
    } else if let Some(results) = &experiment.results {
        experiment.results = Some(base.join(results));
    }
    experiment.engine = words.engine.unwrap_or(experiment.engine);
    for word in words.guest.files {
        experiment.guest.files.push(here.file(word)?);
    }
    words.guest.system.apply(&mut experiment.guest);
    more(&mut experiment);
    experiment.finish()?;
    Ok((experiment, base))
}
