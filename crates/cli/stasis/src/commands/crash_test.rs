//! `stasis crash-test`: one traced run, and the power cut many times.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use stasis_crash::Fault;
use stasis_crash_test::CrashTest;
use stasis_experiment::{Engine, Experiment};
use stasis_terminal::{answer, stop_on_signals, Terminal, STOPPED};

/// The exit status where something was found.
const FOUND: u8 = 1;
/// Arguments of `stasis crash-test`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The experiment runs once, with a trace of everything that its drives are asked. Then the power is cut
at many instants; of what the drive's cache may lose, something is lost: nothing, all, some, in
any order that flushes, barriers and durable writes allow, or torn between atomic units. The
drive's model says how much: nothing acknowledged with power-loss protection (plp) or without a
volatile cache, no more than the cache holds where it has a size, and anything since the last
flush where the model says nothing. Each state is compared with what was promised to the guest.
Always among the states are those that lose all that may be lost at the end, just after each line of
the command's output, and just before and after each flush; the seed draws the others.

The run works on copies: media of the experiment (file:, qcow2:) stay as they are. The trace and
the disks before the run are in the results' folder, and --trace uses them again.

A check is a command of the guest that looks at each state, such as fsck; it runs in a guest of
its own under stock QEMU, which has the same drives: interface, block size, namespaces, zones, names.
It finds the lines that the experiment's command had written by then in the file
$STASIS_OUTPUT_LINES. Status 0 says that all is well (and a line that begins with \"repaired\", that
it was made well); any other status is a finding. First it runs on the disks as they were before the
command, and as the finished command left them: it must pass there.

Examples:
  stasis crash-test crash.toml
  stasis crash-test crash.toml --check 'sh /root/crash-check.sh' --check-every 10
  stasis crash-test crash.toml --states 10000 --trace results
  stasis crash-test crash.toml --junit crash.xml
  stasis crash-test crash.toml --seed 3 --state 1234    # repeats one finding
  stasis crash-test crash.toml --trace results --state 1234 --keep-disk
  stasis crash-test crash.toml --inject dropped-barrier    # tests the test
  stasis crash-test crash.toml --log-writes drive0.log    # a kernel's log

Exit status: 0 if nothing was found, 1 if something was, 125 if the test failed, 130 if it was
stopped."
)]
pub struct Arguments {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    pub(super) experiment: PathBuf,
    /// How many power cuts; more where the states at lines and flushes are more
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    states: u64,
    /// Only the state with this number
    #[arg(long, value_name = "N", conflicts_with = "states")]
    state: Option<u64>,
    /// Seed of the power cuts
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = stasis_block::units::parse_seed)]
    seed: u64,
    /// Use the trace of an earlier test, in this folder, instead of a run
    #[arg(long, alias = "record", value_name = "DIR", conflicts_with_all = ["fault", "engine"])]
    pub(super) trace: Option<PathBuf>,
    /// Use a log of Linux's dm-log-writes, of the experiment's one drive, instead of a run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "fault", "engine"])]
    pub(super) log_writes: Option<PathBuf>,
    /// The disk as it was before the log, a raw image [default: the medium of the drive]
    #[arg(long, value_name = "IMAGE", requires = "log_writes")]
    pub(super) base: Option<PathBuf>,
    /// Folder for the results [default: the experiment's, or results]
    #[arg(long, value_name = "DIR")]
    pub(super) results: Option<PathBuf>,
    /// Run this on each state in a guest that has the same drives under the same names [default: the
    /// experiment's `check`]
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Longest that the check may take on one state [default: the experiment's `check-limit`, or 120s]
    #[arg(long, value_name = "DURATION", value_parser = stasis_block::units::parse_duration)]
    check_limit: Option<u64>,
    /// A flush covers nothing that was in flight when it was submitted
    #[arg(long)]
    strict: bool,
    /// Run the check on one of N states
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    check_every: u64,
    /// How many guests check at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    checkers: Option<std::num::NonZeroUsize>,
    /// Inject a fault below the guest: dropped-barrier, early-acknowledgement, swapped-tables or split-writes
    #[arg(long = "inject", alias = "plant", value_name = "FAULT", value_parser = fault)]
    fault: Option<Fault>,
    /// Where the machine runs: auto, kvm, softkvm or exact
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// Leave the disks of the state as raw files in the results folder: of --state, or else of the
    /// first finding
    #[arg(long)]
    keep_disk: bool,
    /// Write the findings as tests in JUnit's XML to this file, for continuous integration
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
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
    changed(arguments, |_| ())
}

/// The folder that the relative paths of the experiment at `path` start from, and the folder of the results:
/// `given`, or the experiment's `own`.
pub(super) fn folders(
    path: &Path,
    given: Option<&Path>,
    own: Option<PathBuf>,
) -> (PathBuf, PathBuf) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let base = parent.unwrap_or(Path::new(".")).to_owned();
    let results = match (given, own) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(folder)) => base.join(folder),
        (None, None) => PathBuf::from("results"),
    };
    (base, results)
}

/// The experiment, and the folder that its relative paths start from.
pub(super) fn joined(arguments: &Arguments) -> Result<(Experiment, PathBuf)> {
    let mut experiment = Experiment::read(&arguments.experiment)?;
    let own = experiment.results.take();
    let (base, results) = folders(&arguments.experiment, arguments.results.as_deref(), own);
    experiment.results = Some(results);
    if let Some(engine) = arguments.engine {
        experiment.engine = engine;
    }
    experiment.finish()?;
    Ok((experiment, base))
}

/// `stasis crash-test`, with a change of the experiment that is not in its words.
pub(super) fn changed(
    arguments: &Arguments,
    change: impl FnOnce(&mut Experiment),
) -> Result<ExitCode> {
    let (mut experiment, base) = joined(arguments)?;
    change(&mut experiment);
    let test = CrashTest {
        experiment: &experiment,
        path: &arguments.experiment,
        base: &base,
        states: arguments.states,
        state: arguments.state,
        seed: arguments.seed,
        trace: arguments.trace.as_deref(),
        log_writes: arguments.log_writes.as_deref(),
        before: arguments.base.as_deref(),
        check: arguments.check.as_deref(),
        check_limit: arguments.check_limit.map(std::time::Duration::from_nanos),
        strict: arguments.strict,
        check_every: arguments.check_every,
        checkers: arguments.checkers,
        fault: arguments.fault,
        keep_disk: arguments.keep_disk,
        junit: arguments.junit.as_deref(),
    };
    let stop = stop_on_signals()?;
    let tested = match test.run(&stop, &mut Terminal::new(false)) {
        Ok(tested) => tested,
        // Whatever the signal ended, it is no failure of the test.
        Err(error) if stop.load(Ordering::Relaxed) => {
            stasis_terminal::say!("stasis: stopped: {}", stasis_runner::failure::told(&error));
            return Ok(ExitCode::from(STOPPED));
        }
        Err(error) => return Err(error),
    };
    match arguments.json {
        true => answer::document(&(tested.json + "\n"))?,
        false => answer::text(&tested.report.text(&tested.file, &tested.page))?,
    }
    let outcome = &tested.report.outcome;
    Ok(ExitCode::from(match outcome.stopped || stop.load(Ordering::Relaxed) {
        true => STOPPED,
        false if !outcome.findings.is_empty() => FOUND,
        false => 0,
    }))
}
