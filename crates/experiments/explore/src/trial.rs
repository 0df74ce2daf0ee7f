//! One run of the experiment with a scenario, and what was observed of it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use stasis_block::clock::Nanos;
use stasis_experiment::{Experiment, ExploreSpec, Scenario};
use stasis_history::{checkers, History, Judgement};
use stasis_results::{FaultInterval, Ios, HISTORY_FILE};
use stasis_run_events::Moment;
use stasis_runner::{At, Changed, Event, Results, Runner, Snapshotted};

use crate::verdict::{Observation, Watch};

/// Limit on the bytes of a line that are looked at.
const MAX_LINE: usize = 64 << 10;

/// The part that all runs of an exploration have in common.
#[derive(Debug)]
pub struct Trials<'a> {
    /// The experiment, finished, with no fault but those that a guest asks for.
    pub experiment: &'a Experiment,
    /// The experiment's file.
    pub path: &'a Path,
    /// Folder at which the experiment's relative paths start.
    pub base: &'a Path,
    /// Ends runs once it is raised.
    pub stop: &'a Arc<AtomicBool>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Trial {
    /// Its observation.
    pub observation: Observation,
    /// Times at which operations were acknowledged, since the machines' start (ns), rising.
    pub acknowledged: Vec<Nanos>,
    /// The time at which each fault happened first, since the commands' start (ns), if it did.
    pub happened: Vec<Option<Nanos>>,
    /// Time since the machines' start at which the last fault was over (ns).
    pub healed: Nanos,
    /// Length of the boot and of the commands (ns).
    pub span: (Nanos, Nanos),
    /// Words for the user, where the run ended early.
    pub message: Option<String>,
}

impl Trials<'_> {
    /// Runs a scenario; its results are in `folder`. `words`: the command line that repeats it.
    ///
    /// # Errors
    /// If the run cannot be made.
    pub fn run(
        &self,
        scenario: &Scenario,
        folder: &Path,
        ios: Ios,
        words: Vec<String>,
    ) -> Result<Trial> {
        self.make(scenario, None, folder, (ios, words))
    }

    /// Runs a scenario as a branch of the run of another one, from `at` on (ns since the commands' start).
    ///
    /// # Errors
    /// If the run cannot be made, or ends before that moment.
    pub fn branch(
        &self,
        scenario: &Scenario,
        (run, at): (&Scenario, Nanos),
        folder: &Path,
    ) -> Result<Trial> {
        self.make(scenario, Some((run, at)), folder, (Ios::None, Vec::new()))
    }

    fn make(
        &self,
        scenario: &Scenario,
        branch: Option<(&Scenario, Nanos)>,
        folder: &Path,
        (ios, words): (Ios, Vec<String>),
    ) -> Result<Trial> {
        let of_scenario = |scenario: &Scenario| {
            scenario.of(self.experiment).map_err(|error| {
                anyhow::Error::from(self.experiment.error(error)).context("a drawn fault cannot be")
            })
        };
        let run = branch.map(|(run, _)| of_scenario(run)).transpose()?;
        let changed = run.as_ref().zip(branch).map(|(run, (_, at))| Changed {
            run,
            base: self.base,
            at: Some(At::Moment(Moment::At(at))),
            call: None,
        });
        let mut experiment = of_scenario(scenario)?;
        experiment.results = Some(folder.to_owned());
        let mut watch = Watch::new(&experiment.explore, scenario)?;
        let mut streams = [const { Lines::new() }; 3];
        let mut observer = |event: Event<'_>| {
            let [output, errors, console] = &mut streams;
            match event {
                Event::Output(bytes) => output.take(bytes, &mut |line| watch.output(line)),
                Event::ErrorOutput(bytes) => errors.take(bytes, &mut |line| watch.output(line)),
                Event::Console(bytes) => console.take(bytes, &mut |line| watch.console(line)),
                _ => (),
            }
            Ok(())
        };
        let runner =
            Runner::new(&experiment).base(self.base).stop(self.stop).ios(ios).one_of_many();
        let runner = runner.reading(vec![self.path.to_owned()]).repeated_by(words);
        let runner = match &changed {
            Some(_) => {
                let from = Snapshotted { branches: true, ..Snapshotted::default() };
                runner.snapshots(Some(from)).changed(changed.as_ref())
            }
            None => runner,
        };
        let results = runner.run(&mut observer)?;
        let is_branch = |results: &Results| !results.summary.extra["branch"]["at_ns"].is_null();
        ensure!(changed.is_none() || is_branch(&results), "the branch's moment has not come");
        let [output, errors, console] = &mut streams;
        output.end(&mut |line| watch.output(line));
        errors.end(&mut |line| watch.output(line));
        console.end(&mut |line| watch.console(line));
        let mut trial = trial(results, watch.observation, self.experiment.faults.len());
        if experiment.history {
            trial.witness(&folder.join(HISTORY_FILE), &experiment.explore)?;
        }
        Ok(trial)
    }
}

/// `own`: number of the faults that are the experiment's own.
fn trial(results: Results, observation: Observation, own: usize) -> Trial {
    let Results { summary, message, .. } = results;
    let ns = |seconds: f64| (seconds * 1e9).round() as Nanos;
    let span = (ns(summary.boot_virtual_seconds), ns(summary.virtual_seconds));
    let faults = summary.faults();
    let first = faults.iter().map(|fault| fault.first_ns);
    let happened = first.map(|at| Some(at?.saturating_sub(span.0))).collect();
    let ends = faults.iter().flat_map(|fault| &fault.intervals).map(FaultInterval::over_ns);
    let healed = ends.max().unwrap_or(span.0);
    let observation = Observation {
        status: summary.status(),
        happened: faults.iter().skip(own).map(|fault| fault.happened).sum(),
        ending: summary.ending,
        ..observation
    };
    Trial { observation, acknowledged: Vec::new(), happened, healed, span, message }
}

impl Trial {
    /// Looks at the history that clients have written, none where no operation began.
    fn witness(&mut self, path: &Path, spec: &ExploreSpec) -> Result<()> {
        let named = || path.display().to_string();
        let lines = match File::open(path) {
            Ok(file) => BufReader::new(file).split(b'\n').collect::<Result<Vec<_>, _>>(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let history = History::from_lines(lines.with_context(named)?).with_context(named)?;
        let done = history.operations().iter().filter(|operation| operation.is_ok());
        self.acknowledged = done.filter_map(|operation| operation.end?.time).collect();
        self.acknowledged.sort_unstable();
        self.observation.acknowledged = Some(self.acknowledged.len() as u64);
        for checker in &spec.history {
            self.judge(checker.check(&history, spec.isolation));
        }
        if let Some(within) = spec.progress {
            let end = self.span.0.saturating_add(self.span.1);
            let judgement = checkers::progress(&history, self.healed, within, end);
            let first = judgement.contradictions.into_iter().next();
            self.observation.stuck = first.map(|found| found.message);
        }
        Ok(())
    }

    fn judge(&mut self, judgement: Judgement) {
        let Judgement { contradictions, undecided, .. } = judgement;
        let first = contradictions.into_iter().next();
        let first = first.map(|found| format!("{}: {}", found.kind, found.message));
        self.observation.contradiction = self.observation.contradiction.take().or(first);
        self.observation.undecided =
            self.observation.undecided.take().or(undecided.into_iter().next());
    }
}

/// Bytes as lines.
#[derive(Debug)]
struct Lines(Vec<u8>);

impl Lines {
    const fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes bytes, and gives each complete line on.
    fn take(&mut self, bytes: &[u8], line: &mut dyn FnMut(&str)) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end(line),
                _ if self.0.len() < MAX_LINE => self.0.push(byte),
                _ => (),
            }
        }
    }

    fn end(&mut self, line: &mut dyn FnMut(&str)) {
        if !self.0.is_empty() {
            line(&String::from_utf8_lossy(&self.0));
            self.0.clear();
        }
    }
}
