//! `stasis run`: one experiment from its words to its report.

pub mod input;
pub mod progress;
pub mod relay;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use serde_json::Value;
use stasis_block::units;
use stasis_crash::RecordWriter;
use stasis_experiment::{DriveSpec, Engine, Experiment, ExperimentError};
use stasis_journal::{Ending, Outcome, Stage};
use stasis_report::{Ios, Recorder, ResultsFolder};

use crate::cli::RunArguments;
use crate::commands::crash_test::power_cut;
use crate::commands::guest;
use crate::engine::{self, Recording, Setting};
use crate::free_space;
use crate::provenance::Provenance;
use relay::Relay;

/// `stasis run`.
pub fn main(arguments: RunArguments, quiet: bool) -> Result<ExitCode> {
    let (show_console, ios) = (arguments.console, arguments.ios);
    let power_cut = arguments.power_cut;
    let (mut experiment, base) = experiment(arguments)?;
    let stop = stop_on_signals()?;
    let given = match experiment.guest.stdin {
        Some(_) => None,
        None => input::given()?,
    };
    if let Some(file) = &given {
        experiment.guest.stdin = Some(file.path().to_owned());
    }
    let show = Show { console: show_console, output: true, ios };
    let run = match power_cut {
        Some(when) => power_cut::run(&experiment, &base, &stop, show, when)?,
        None => execute(&experiment, &base, &stop, show)?,
    };
    if !quiet {
        eprint!("{}", stasis_report::text_summary(&run.summary));
        eprintln!("report: {}", run.folder.join(stasis_report::REPORT_FILE).display());
    }
    if let Some(message) = &run.message {
        eprintln!("stasis: {message}");
    }
    Ok(ExitCode::from(run.status))
}

/// A flag that Ctrl-C and SIGTERM set.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    crate::progress::stops_by_itself();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot handle signals")?;
    }
    Ok(stop)
}

/// What a run writes to the terminal beside its progress, and of its I/Os to its folder.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    /// What the guest's kernel says.
    pub console: bool,
    /// What the command prints; otherwise it goes to [`OUTPUT_FILE`].
    pub output: bool,
    /// How the I/Os are kept.
    pub ios: Ios,
}

/// The file in the results' folder with what a command printed that was not shown.
pub const OUTPUT_FILE: &str = "output.txt";

/// A run that has ended, one way or another.
pub struct Run {
    /// What was measured.
    pub summary: stasis_report::Summary,
    /// Where the results are.
    pub folder: PathBuf,
    /// The exit status for it.
    pub status: u8,
    /// What the user should know beside the command's own output.
    pub message: Option<String>,
    /// Wall-clock time of the command alone, by this machine's clock.
    pub command_wall: Option<Duration>,
}

/// Joins the words and the file; returns the folder that the experiment's
/// relative paths start from.
fn experiment(arguments: RunArguments) -> Result<(Experiment, PathBuf)> {
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
    experiment.guest.files.extend(arguments.files);
    experiment.guest.packages.extend(arguments.packages);
    if arguments.kernel.is_some() {
        experiment.guest.kernel = arguments.kernel;
    }
    if !arguments.command.is_empty() {
        experiment.command = arguments.command;
    }
    experiment.finish()?;
    Ok((experiment, base))
}

/// Runs `experiment`; `base` is where its relative paths start.
pub fn execute(
    experiment: &Experiment,
    base: &Path,
    stop: &Arc<AtomicBool>,
    show: Show,
) -> Result<Run> {
    execute_recorded(experiment, base, stop, show, None)
}

/// The same, with what its drives are asked written down.
pub fn execute_recorded(
    experiment: &Experiment,
    base: &Path,
    stop: &Arc<AtomicBool>,
    show: Show,
    recording: Option<&Recording>,
) -> Result<Run> {
    let begun = Instant::now();
    let folder = experiment.results.clone().unwrap_or_else(|| PathBuf::from("results"));
    let input = input::pack(&experiment.guest, base)?;
    engine::look_at_drives(experiment, base)?;
    let chosen = engine::choose(experiment.engine)?;
    let guest = guest::ensure(&guest::recipe(&experiment.guest))?;
    let engine = chosen;
    let provenance = Provenance::begin(engine != Engine::Kvm);
    let mut claimed = ResultsFolder::claim(&folder)?;
    if recording.is_some() {
        claimed.file(engine::RECORD_FILE)?;
        for index in 0..experiment.drives.len() {
            claimed.file(&Recording::before(index))?;
        }
    }
    let setting = Setting { experiment, base, guest: &guest, input: &input, engine, recording };
    let prepared = setting.prepare()?;

    let recorder = Recorder::within(claimed, prepared.drives(), show.ios)?;
    let paths = prepared.paths();
    let mut relay = Relay::new(recorder, show, prepared.machines())?;
    if let Some(recording) = recording {
        let path = recording.file();
        let begun = File::create(&path)
            .and_then(|file| RecordWriter::new(BufWriter::new(file), &prepared.head()));
        relay.record = Some(begun.with_context(|| format!("cannot write {}", path.display()))?);
    }
    let result = prepared.run(&mut relay, stop);
    if let Some(record) = relay.record.take() {
        record.finish().context("cannot write the record of the run")?;
    }
    let words = relay.last_words();
    let (stage, failed) = (relay.stage, relay.failed.take());
    let reached = relay.virtual_ns;
    let started = relay.started;
    let command_wall = relay.command_wall;
    let (recorder, outcome) = relay.finish().context("cannot unpack the guest's /results")?;

    let (mut outcome, mut message) = match (outcome, failed, result) {
        (Some(outcome), _, _) => (outcome, None),
        (None, Some(failed), _) => bail!(failed),
        (None, None, Ok(())) => bail!("the machine ended without saying how"),
        // Stopped or out of time, and no answer: what is known is kept.
        (None, None, Err(engine::RunError::Ended(ending))) if stage >= Stage::Booting => {
            let virtual_ns = started.map_or(0, |started| reached - started);
            (engine::unfinished(ending, virtual_ns, begun.elapsed()), None)
        }
        (None, None, Err(engine::RunError::Ended(_))) => bail!("stopped before the guest booted"),
        (None, None, Err(engine::RunError::Failed(error))) => return Err(error),
    };
    if let Some(text) = describe(&outcome, experiment, &words) {
        message = Some(text);
    }
    for (error, path) in outcome.medium_errors.iter_mut().zip(&paths) {
        // The reason that there mostly is, which a software host does not hear of.
        if let (Some(error), Some(full)) = (error, path.as_deref().and_then(free_space::full)) {
            *error = format!("{error}; {full}");
        }
    }
    let mut extra = provenance.fields();
    extra.insert("command".into(), experiment.command.clone().into());
    extra.insert("seed".into(), experiment.seed.into());
    if experiment.machine.several().is_empty() {
        extra.insert("vcpus".into(), experiment.machine.vcpus.into());
        extra.insert("memory".into(), experiment.machine.memory.into());
    }
    extra.insert("kernel".into(), Value::String(guest.kernel_release.clone()));
    extra.insert("guest_date".into(), guest.date.into());
    extra.insert("guest".into(), guest.digest.clone().into());
    extra.insert("guest_recipe".into(), serde_json::to_value(&guest.recipe)?);
    let summary = recorder.finish(&outcome, chosen.name(), begun.elapsed(), extra)?;
    let status = stasis_report::exit_status(&outcome.ending);
    Ok(Run { summary, folder, status: u8::try_from(status).unwrap_or(1), message, command_wall })
}

/// What the user should know of an end that is not the command's own.
fn describe(outcome: &Outcome, experiment: &Experiment, words: &str) -> Option<String> {
    let limit = |limit: Option<u64>| units::format_duration(limit.unwrap_or(0));
    let console = |text: &str| {
        if words.is_empty() {
            format!("{text}; --console shows what its kernel says")
        } else {
            format!("{text}. Its kernel's last words:\n{words}")
        }
    };
    Some(match &outcome.ending {
        // 128 and SIGKILL, which nobody but the kernel sends unless it is told to.
        Ending::Exited(137) => format!(
            "the command was killed (status 137), as a guest without free memory does it: it has {}; \
             --memory 2GiB, say, gives it more",
            units::format_size(experiment.machine.memory)
        ),
        Ending::Exited(_) => return None,
        Ending::NotStarted { message, .. } => message.clone(),
        Ending::Panicked => console("the guest's kernel panicked or reset the machine"),
        Ending::Hung => {
            console("the guest hangs: every processor is idle and nothing can wake one")
        }
        Ending::VirtualLimit => {
            format!("the limit of {} of virtual time was reached", limit(experiment.virtual_limit))
        }
        Ending::WallLimit => {
            format!("the limit of {} of wall-clock time was reached", limit(experiment.wall_limit))
        }
        Ending::Cancelled => "stopped; the results so far are kept".into(),
    })
}
