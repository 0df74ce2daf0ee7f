//! `stasis explore`: many runs with faults, and what breaks the experiment.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use stasis_experiment::{Engine, Experiment};
use stasis_explore::Exploration;
use stasis_terminal::{answer, stop_on_signals, Terminal, STOPPED};

use super::crash_test::folders;

/// The exit status where something was found.
const FOUND: u8 = 1;

/// Limit on the time where neither time nor runs have one.
const USUAL: Duration = Duration::from_secs(600);

/// Arguments of `stasis explore`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "First the experiment runs without faults, where it has to succeed; that run says at which moments
drives are flushed and operations acknowledged. Then it runs again and again, each time with other
faults: each fault alone in each phase, then several at random, mostly at such moments.

Faults are those of the experiment's [fault-space], with up to `draws` a run; without one, power cuts,
resets, pauses, slow and standing drives and parted networks, of machines with wait = false where there
are any. [[fault]] of the experiment is left out, but for those that a guest asks for.

A run fails if a kernel complains, a line matches one of [explore] `never`, a guest hangs or panics,
the command's status is not 0, no line or a second one matches one of [explore] `once`, or the run
comes to no end within its virtual time. A run in which no fault happened, or in which clients with
`history = true` have nothing acknowledged, counts apart.

Of the first run of each failure everything is left out that is not needed for it. What is left is a
scenario: finding-1.toml in the results folder, which `stasis run EXPERIMENT --scenario` repeats.
An exploration that was stopped goes on where it was, with the same words.

Examples:
  stasis explore examples/redis.toml
  stasis explore examples/redis.toml --for 1h --results found
  stasis explore examples/redis.toml --runs 200 --corpus scenarios --junit explore.xml

Exit status: 0 if nothing was found, 1 if something was, 125 if the exploration failed, 130 if it was
stopped."
)]
pub struct Arguments {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    experiment: PathBuf,
    /// Explore for so long, such as 30m; then findings are shortened [default: 10min, without --runs]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    time: Option<u64>,
    /// Explore with so many runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=stasis_explore::MAX_RUNS))]
    runs: Option<u64>,
    /// End with the first finding
    #[arg(long)]
    until_found: bool,
    /// Seed of the scenarios
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = stasis_block::units::parse_seed)]
    seed: u64,
    /// Folder for the results [default: the experiment's, or results]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Folder of scenarios that are tried first; findings are added to it
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// Branches from each of some twelve moments of a finding, to say when it became inevitable; 0: none
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=64))]
    branches: u64,
    /// Limit on the runs at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,
    /// The engine: exact, whose findings repeat, softkvm or kvm [default: the experiment's, or exact]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// Write the findings as tests in JUnit's XML to this file, for continuous integration
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A duration, in which `m` is a minute as for timeout(1).
fn time(word: &str) -> Result<u64, String> {
    let minutes =
        word.strip_suffix('m').filter(|count| count.ends_with(|c: char| c.is_ascii_digit()));
    let word = minutes.map_or(word.to_owned(), |count| format!("{count}min"));
    stasis_block::units::parse_duration(&word).map_err(|error| error.to_string())
}

/// `stasis explore`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let mut experiment = Experiment::read(&arguments.experiment)?;
    let own = experiment.results.take();
    let (base, results) = folders(&arguments.experiment, arguments.results.as_deref(), own);
    let engine = arguments.engine.unwrap_or(experiment.engine);
    // A finding is to repeat.
    let engine = if engine == Engine::Auto { Engine::Exact } else { engine };
    let is_said = experiment.engine == engine;
    experiment.engine = engine;
    let space = experiment.fault_space.take();
    // Those that a command asks for are part of what it does.
    experiment.faults.retain(|fault| fault.when.is_some());
    experiment.finish()?;
    let time = match (arguments.time, arguments.runs) {
        (None, None) => Some(USUAL),
        (time, _) => time.map(Duration::from_nanos),
    };
    let exploration = Exploration {
        experiment: &experiment,
        space: space.as_ref(),
        path: &arguments.experiment,
        base: &base,
        results: &results,
        time,
        runs: arguments.runs,
        until_found: arguments.until_found,
        seed: arguments.seed,
        names_engine: !is_said,
        branches: arguments.branches,
        jobs: arguments.jobs.map(usize::from),
        corpus: arguments.corpus.as_deref(),
        junit: arguments.junit.as_deref(),
    };
    let stop = stop_on_signals()?;
    let explored = match exploration.run(&stop, &mut Terminal::new(false)) {
        Ok(explored) => explored,
        // Whatever the signal ended, it is no failure of the exploration.
        Err(error) if stop.load(Ordering::Relaxed) => {
            stasis_terminal::say!("stasis: stopped: {}", stasis_runner::failure::told(&error));
            return Ok(ExitCode::from(STOPPED));
        }
        Err(error) => return Err(error),
    };
    match arguments.json {
        true => answer::document(&(explored.json + "\n"))?,
        false => answer::text(&explored.report.text(&explored.page))?,
    }
    Ok(ExitCode::from(match explored.report.stopped {
        true => STOPPED,
        false if !explored.report.findings.is_empty() => FOUND,
        false => 0,
    }))
}
