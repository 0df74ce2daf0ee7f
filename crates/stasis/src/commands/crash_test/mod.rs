//! `stasis crash-test`: one recorded run, and the power cut many times.

mod check;
mod disks;
pub mod power_cut;
mod report;
mod session;
#[cfg(test)]
mod tests;
mod together;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{bail, Context, Result};
use stasis_crash::Fault;
use stasis_experiment::{Engine, Experiment};
use stasis_report::ResultsFolder;
use stasis_runner::provenance::Provenance;
use stasis_runner::{guest, input, Recording, Runner, OUTPUT_FILE};
use stasis_terminal::progress::Steps;
use stasis_terminal::{ensure_guest, stop_on_signals, Terminal};

use check::GuestCheck;
use report::Report;
use session::{Looks, Outcome, Session};

/// The exit status where something was found.
const FOUND: u8 = 1;
/// The file with what came out.
const FILE: &str = "crash-test.json";
/// The page of it.
const PAGE: &str = "crash-test.html";

/// What `stasis crash-test` does.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The experiment runs once, with everything recorded that its drives are asked. Then the power is cut
at many instants; of what the drive's cache may lose, something is lost: nothing, all, some, in
any order that flushes, barriers and durable writes allow, or torn between atomic units. The
drive's model says how much: nothing acknowledged with power-loss protection (plp) or without a
volatile cache, no more than the cache holds where it has a size, and anything since the last
flush where the model says nothing. Each state is compared with what was promised to the guest.

The run works on copies: media of the experiment (file:, qcow2:) stay as they are. The record and
the disks before the run are in the results' folder, and --record uses them again.

A check is a command of the guest that looks at each state, such as fsck; it runs in a guest of
its own under stock QEMU. It finds the lines that the experiment's command had written by then in
the file $STASIS_OUTPUT_LINES. Status 0 says that all is well (and a line that begins with
\"repaired\", that it was made well); any other status is a finding.

Examples:
  stasis crash-test crash.toml
  stasis crash-test crash.toml --check 'mount /dev/vda /mnt && umount /mnt && fsck.ext4 -fn /dev/vda' --check-every 10
  stasis crash-test crash.toml --states 10000 --record results
  stasis crash-test crash.toml --seed 3 --state 1234      repeats one finding
  stasis crash-test crash.toml --inject dropped-barrier   tests the test

Exit status: 0 if nothing was found, 1 if something was, 125 if the test failed, 130 if it was
stopped."
)]
pub struct Arguments {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    experiment: PathBuf,
    /// How many power cuts
    #[arg(long, value_name = "N", default_value_t = 1000)]
    states: u64,
    /// Only the state with this number
    #[arg(long, value_name = "N", conflicts_with = "states")]
    state: Option<u64>,
    /// Seed of the power cuts
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Use the record of an earlier test, in this folder, instead of a run
    #[arg(long, value_name = "DIR", conflicts_with_all = ["fault", "engine"])]
    record: Option<PathBuf>,
    /// Folder for the results [default: the experiment's, or results]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Run this on each state in a guest, with the drives as /dev/vda, /dev/vdb, ... [default: the
    /// experiment's `check`]
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Run the check on one of N states
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    check_every: u64,
    /// How many guests check at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    checkers: Option<std::num::NonZeroUsize>,
    /// Inject a fault below the guest: dropped-barrier, early-acknowledgement or swapped-tables
    #[arg(long = "inject", alias = "plant", value_name = "FAULT", value_parser = fault)]
    fault: Option<Fault>,
    /// Where the machine runs: auto, kvm, softkvm or exact
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn fault(word: &str) -> Result<Fault, String> {
    Fault::parse(word).ok_or_else(|| {
        let names = Fault::ALL.map(Fault::name);
        format!("must be one of {}", names.join(", "))
    })
}

/// `stasis crash-test`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let mut experiment = Experiment::read(&arguments.experiment)?;
    let parent = arguments.experiment.parent().filter(|parent| !parent.as_os_str().is_empty());
    let base = parent.unwrap_or(Path::new(".")).to_owned();
    let folder = match (&arguments.results, &experiment.results) {
        (Some(folder), _) => folder.clone(),
        (None, Some(folder)) => base.join(folder),
        (None, None) => PathBuf::from("results"),
    };
    experiment.results = Some(folder.clone());
    if let Some(engine) = arguments.engine {
        experiment.engine = engine;
    }
    experiment.finish()?;
    if experiment.drives.is_empty() {
        bail!("{}: it has no drives to cut the power of", arguments.experiment.display());
    }
    let stop = stop_on_signals()?;
    let provenance = Provenance::begin(true);
    let mut recording = Recording { folder: folder.clone(), fault: arguments.fault };
    match &arguments.record {
        Some(earlier) => recording.folder.clone_from(earlier),
        None => record(&experiment, &base, &stop, &recording)?,
    }
    let mut results = ResultsFolder::join(&folder)?;
    let session = Session::open(&recording.file())?;
    let command = arguments.check.as_ref().or(experiment.check.as_ref());
    let (session, outcome, seconds) = match command {
        None => explore(arguments, session, &stop)?,
        Some(command) => {
            let files = input::pack(&experiment.guest, &base)?;
            let guest = ensure_guest(&guest::recipe(&experiment.guest))?;
            let check = || GuestCheck::new(guest.clone(), command, &files, &stop);
            explore_in_guests(arguments, session, &recording.file(), check, &stop)?
        }
    };
    let report = Report::new(arguments, &session, &outcome, seconds, &recording, provenance);
    let (path, page) = (results.file(FILE)?, results.file(PAGE)?);
    let json = serde_json::to_string_pretty(&report).context("cannot write the report")?;
    std::fs::write(&path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    report.page().write(&folder, PAGE)?;
    stasis_terminal::print(&if arguments.json { json + "\n" } else { report.text(&path, &page) })?;
    Ok(ExitCode::from(match outcome {
        Outcome { stopped: true, .. } => 130,
        Outcome { findings, .. } if !findings.is_empty() => FOUND,
        _ => 0,
    }))
}

/// Runs the experiment and leaves its record.
fn record(
    experiment: &Experiment,
    base: &Path,
    stop: &Arc<AtomicBool>,
    recording: &Recording,
) -> Result<()> {
    let runner = Runner::new(experiment).base(base).stop(stop).keep_output().record(recording);
    let run = runner.run(&mut Terminal::new(false))?;
    if run.status != 0 {
        let message = run.message.unwrap_or_default();
        let output = run.folder.join(OUTPUT_FILE);
        bail!(
            "the run that is to be recorded ended with status {}: {message} (its output is in {})",
            run.status,
            output.display()
        );
    }
    Ok(())
}

/// The states that are asked for.
fn cuts(arguments: &Arguments, session: &Session) -> Vec<stasis_crash::Cut> {
    let numbers = match arguments.state {
        Some(number) => number..number.saturating_add(1),
        None => 0..arguments.states,
    };
    session.cuts(arguments.seed, session.trace.span(), numbers)
}

fn explore(
    arguments: &Arguments,
    mut session: Session,
    stop: &Arc<AtomicBool>,
) -> Result<(Session, Outcome, f64)> {
    let cuts = cuts(arguments, &session);
    let mut steps = Steps::new();
    let begun = Instant::now();
    let mut second = qemu_img_finds;
    let mut looks = Looks {
        native: true,
        check: None,
        check_every: arguments.check_every,
        second: Some(&mut second),
        second_every: 500,
        keep: None,
    };
    let total = cuts.len() as u64;
    let mut outcome = Outcome::default();
    session.explore(&cuts, &mut looks, &mut outcome, |outcome| {
        if outcome.cuts.is_multiple_of(16) {
            steps.count("power cuts", outcome.cuts, total);
        }
        !stop.load(Ordering::Relaxed)
    })?;
    Ok((session, outcome, begun.elapsed().as_secs_f64()))
}

/// The same with a check, in several guests at once.
fn explore_in_guests(
    arguments: &Arguments,
    session: Session,
    record: &Path,
    check: impl Fn() -> Result<GuestCheck>,
    stop: &Arc<AtomicBool>,
) -> Result<(Session, Outcome, f64)> {
    let cuts = cuts(arguments, &session);
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let count = arguments.checkers.map_or_else(processors, usize::from).min(cuts.len().max(1));
    let checks = (0..count).map(|_| check()).collect::<Result<_>>()?;
    let mut steps = Steps::new();
    let begun = Instant::now();
    let total = cuts.len() as u64;
    let outcome = together::explore(record, &cuts, checks, arguments.check_every, stop, |done| {
        steps.count("power cuts", done, total);
    })?;
    Ok((session, outcome, begun.elapsed().as_secs_f64()))
}

/// What `qemu-img check` has against an image; nothing where it is not there.
fn qemu_img_finds(image: &File) -> Result<Option<String>> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let mut command = Command::new("qemu-img");
    command.args(["check", "-f", "qcow2", &path]).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(_) => return Ok(None),
    };
    Ok(match output.status.code() {
        // 3: leaks, which are harmless.
        Some(0 | 3) => None,
        code => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            Some(format!("qemu-img check ({code:?}): {}", text.trim()))
        }
    })
}
