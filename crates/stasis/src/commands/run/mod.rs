//! `stasis run`: one experiment from its words to its report.

mod stdin;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, Result};
use stasis_block::units;
use stasis_crash_test::power_cut;
use stasis_experiment::{DriveSpec, Experiment, ExperimentError};
use stasis_runner::Runner;
use stasis_terminal::{stop_on_signals, Terminal};

use crate::cli::RunArguments;

/// `stasis run`.
pub fn main(arguments: RunArguments, quiet: bool) -> Result<ExitCode> {
    let (show_console, ios, timeline) = (arguments.console, arguments.ios, arguments.timeline);
    let power_cut = arguments.power_cut;
    let (mut experiment, base) = experiment(arguments)?;
    let stop = stop_on_signals()?;
    let given = match experiment.guest.stdin {
        Some(_) => None,
        None => stdin::given()?,
    };
    if let Some(file) = &given {
        experiment.guest.stdin = Some(file.path().to_owned());
    }
    let terminal = &mut Terminal::new(show_console);
    let run = match power_cut {
        Some(when) => power_cut::run(&experiment, &base, &stop, ios, when, terminal)?,
        None => {
            let runner = Runner::new(&experiment).base(&base).stop(&stop).ios(ios);
            runner.timeline(timeline).run(terminal)?
        }
    };
    if !quiet {
        eprint!("{}", stasis_report::text_summary(&run.summary));
        eprintln!("report: {}", run.folder.join(stasis_report::REPORT_FILE).display());
    }
    for warning in &run.summary.warnings {
        eprintln!("stasis: not to be trusted: {warning}");
    }
    if let Some(message) = &run.message {
        eprintln!("stasis: {message}");
    }
    Ok(ExitCode::from(run.status))
}

/// Joins the words and the file; returns the folder that the experiment's
/// relative paths start from.
pub(super) fn experiment(arguments: RunArguments) -> Result<(Experiment, PathBuf)> {
    let (mut experiment, base) = match &arguments.experiment {
        Some(path) => {
            let base = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            // A file of experiments has an ending; what has none is a command.
            let read = Experiment::read(path).map_err(|error| match error {
                ExperimentError::Read { .. } if path.extension().is_none() => {
                    anyhow!("{error}; a command goes after `--`: stasis run -- {}", path.display())
                }
                error => error.into(),
            });
            (read?, base.unwrap_or(Path::new(".")).to_owned())
        }
        None => (Experiment::default(), PathBuf::from(".")),
    };
    let duration = |word: &str, option: &str| {
        units::parse_duration(word).map_err(|error| anyhow!("{option}: {error}"))
    };
    for word in &arguments.drive {
        experiment.drives.push(DriveSpec::parse(word)?);
    }
    if let Some(vcpus) = arguments.vcpus {
        experiment.machine.vcpus = vcpus;
    }
    if let Some(memory) = &arguments.memory {
        experiment.machine.memory =
            units::parse_size(memory).map_err(|error| anyhow!("--memory: {error}"))?;
    }
    if arguments.cpu_speed.is_some() {
        experiment.machine.cpu_speed = arguments.cpu_speed;
    }
    if let Some(seed) = arguments.seed {
        experiment.seed = seed;
    }
    if let Some(results) = arguments.results {
        experiment.results = Some(results);
    } else if let Some(results) = &experiment.results {
        experiment.results = Some(base.join(results));
    }
    if let Some(engine) = arguments.engine {
        experiment.engine = engine;
    }
    if arguments.check.is_some() {
        experiment.check = arguments.check;
    }
    experiment.machine.rewind |= arguments.rewind;
    if let Some(limit) = &arguments.virtual_limit {
        experiment.virtual_limit = Some(duration(limit, "--virtual-limit")?);
    }
    if let Some(limit) = &arguments.wall_limit {
        experiment.wall_limit = Some(duration(limit, "--wall-limit")?);
    }
    let guest = arguments.guest;
    experiment.guest.files.extend(guest.files);
    experiment.guest.packages.extend(guest.packages);
    if guest.kernel.is_some() {
        experiment.guest.kernel = guest.kernel;
    }
    if guest.root.is_some() {
        experiment.guest.root = guest.root;
    }
    if !arguments.command.is_empty() {
        experiment.command = arguments.command;
    }
    experiment.finish()?;
    Ok((experiment, base))
}
