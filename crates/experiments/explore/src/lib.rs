//! Explorations: many runs of one experiment, each with other faults, until something breaks; and of
//! what broke it, what is enough.
//!
//! Promises:
//! - Run N of a seed has the same scenario however many runs there are, and on every computer.
//! - A run that says nothing, because no fault happened or nothing was done, never counts as passed.
//! - A finding is a scenario in a file: `stasis run EXPERIMENT --scenario FILE` repeats it.
//! - An exploration that was interrupted goes on with the runs that are missing.

mod draw;
mod findings;
mod inevitable;
mod log;
mod moments;
mod page;
mod report;
mod shorten;
mod space;
mod tally;
mod trial;
mod verdict;
mod words;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_experiment::{Engine, Experiment, FaultSpace, Scenario};
use stasis_report::{shell_word, Repeat};
use stasis_results::{
    Ios, KeptIos, ResultsFolder, EXPLORATION_FILE, EXPLORATION_PAGE, EXPLORATION_RUNS,
};
use stasis_runner::batch::{digest, Batch, Point, Turn};
use stasis_runner::provenance::Provenance;
use stasis_runner::{failure, input, Event, Observer};

use draw::Drawer;
pub use findings::Finding;
use inevitable::Search;
pub use inevitable::{Inevitable, Share};
pub use log::MAX_RUNS;
use log::{Entry, Heading, Log};
use moments::Moments;
pub use report::Report;
use space::Space;
use tally::{cuts_after_acknowledgement, Tally};
use trial::{Trial, Trials};
pub use verdict::{Failure, Oracle, Vacuity, Verdict};

/// Limit on the findings that are shortened; others are counted.
const MAX_FINDINGS: usize = 16;
/// Limit on the runs that one finding is shortened with.
const MAX_TRIES: u64 = 80;
/// Runs of a worker between two looks at what was found.
const ROUND: usize = 4;
/// Scenarios drawn in a row that were there before, after which the space counts as exhausted.
const MAX_REPEATED: u64 = 1000;
/// Level of the kernel's messages that reach its console: warnings, and what is worse.
const LOG_LEVEL: u8 = 5;
/// Time before the first fault at which a finding is stopped by the debugger (ns).
const BEFORE: Nanos = 1_000_000;
/// Runs after which an exploration ends in which no fault has happened.
const MIN_HAPPENED: u64 = 16;
/// Limit on the findings whose point of no return is looked for.
const MAX_DATED: u64 = 4;
/// Virtual time of a run where the experiment has no limit: so many times that of the run without
/// faults, and so much more (ns).
const MAX_TIME: (u64, Nanos) = (10, 60_000_000_000);

/// An exploration that is to be made.
#[derive(Debug)]
pub struct Exploration<'a> {
    /// The experiment, finished, with no fault but those that a guest asks for.
    pub experiment: &'a Experiment,
    /// Faults that can happen; by default the usual ones.
    pub space: Option<&'a FaultSpace>,
    /// The experiment's file.
    pub path: &'a Path,
    /// Folder at which the experiment's relative paths start.
    pub base: &'a Path,
    /// Folder for the results.
    pub results: &'a Path,
    /// Limit on the wall-clock time.
    pub time: Option<Duration>,
    /// Limit on the runs.
    pub runs: Option<u64>,
    /// True if it ends with the first finding.
    pub until_found: bool,
    /// Seed of the scenarios.
    pub seed: u64,
    /// True if the experiment's file has another engine, so that commands that repeat a finding name it.
    pub names_engine: bool,
    /// Branches from each moment that is looked at for a point of no return; 0 looks at none.
    pub branches: u64,
    /// Runs at a time; by default one for each processor.
    pub jobs: Option<usize>,
    /// Folder with scenarios that are tried first, and to which findings are added.
    pub corpus: Option<&'a Path>,
    /// File for the findings as tests in JUnit's XML.
    pub junit: Option<&'a Path>,
}

/// Results of an exploration.
#[derive(Debug)]
pub struct Explored {
    /// The report.
    pub report: Report,
    /// The report as JSON, as in the results' folder.
    pub json: String,
    /// The page with the report.
    pub page: PathBuf,
}

/// A scenario that is to be run.
struct Drawn {
    run: u64,
    scenario: Scenario,
}

impl Point for Drawn {
    fn name(&self) -> Cow<'_, str> {
        self.run.to_string().into()
    }
}

/// A branch of a run that failed.
struct Branch {
    at: Nanos,
    number: u64,
}

impl Point for Branch {
    fn name(&self) -> Cow<'_, str> {
        format!("{} at {} ns", self.number, self.at).into()
    }
}

/// An exploration that goes on.
struct Session<'a> {
    exploration: &'a Exploration<'a>,
    trials: Trials<'a>,
    /// Seed and settings of every scenario.
    common: Scenario,
    space: Space,
    moments: Moments,
    log: Log,
    tally: Tally,
    findings: Vec<Finding>,
    /// Digests of the scenarios that were run.
    known: HashSet<u64>,
    begun: Instant,
    own_runs: u64,
    exhausted: bool,
}

impl Exploration<'_> {
    /// Explores. `stop` ends it early once it is set.
    ///
    /// # Errors
    /// If the experiment fails or does nothing without any fault, if nothing can befall it, or if no
    /// run can be made.
    pub fn run(&self, stop: &Arc<AtomicBool>, observer: &mut dyn Observer) -> Result<Explored> {
        let begun = Instant::now();
        if let Some(path) = self.junit {
            let inputs = [vec![self.path.to_owned()], input::paths(self.experiment, self.base)];
            stasis_runner::check_output(path, self.results, &inputs.concat())?;
        }
        let space = Space::new(self.experiment, self.space)
            .map_err(|mistake| self.experiment.error(mistake))?;
        ensure!(
            !space.candidates.is_empty(),
            "{}: nothing can befall it: it has no machine and no drive that a fault is for; give it a \
             drive, or say in [fault-space] what can happen",
            self.path.display()
        );
        let mut inputs = vec![self.path.to_owned()];
        inputs.extend(input::paths(self.experiment, self.base));
        let provenance = Provenance::begin(true).reading(&inputs);
        let heading = self.heading(&provenance.repeat())?;
        let log = self.results.join(EXPLORATION_RUNS);
        let mut results = match Log::is_there(&log, &heading)? {
            true => ResultsFolder::join(self.results)?,
            false => ResultsFolder::claim(self.results, &inputs)?,
        };
        let log = Log::open(results.file(EXPLORATION_RUNS)?, &heading)?;
        for name in ["baseline", "runs"] {
            results.file(name)?;
        }
        results.begun();
        let trials = Trials { experiment: self.experiment, path: self.path, base: self.base, stop };
        observer.event(Event::Step { name: "running it without faults", fraction: None })?;
        let (common, moments) = self.baseline(&trials)?;
        if stop.load(Ordering::Relaxed) {
            bail!("stopped before the first run with faults");
        }
        let mut session = Session {
            exploration: self,
            trials,
            common,
            space,
            moments,
            tally: Tally::default(),
            findings: Vec::new(),
            known: HashSet::new(),
            begun,
            own_runs: 0,
            exhausted: false,
            log,
        };
        session.go_on();
        session.explore(&mut results, observer)?;
        observer.event(Event::Ended)?;
        let report = session.report(provenance);
        let (file, page) = (results.file(EXPLORATION_FILE)?, results.file(EXPLORATION_PAGE)?);
        let json = serde_json::to_string_pretty(&report).context("cannot write the report")?;
        std::fs::write(&file, &json).with_context(|| format!("cannot write {}", file.display()))?;
        stasis_report::page::write(self.results, EXPLORATION_PAGE, &report.to_html())?;
        results.finished()?;
        if let Some(path) = self.junit {
            report.to_junit().write(path)?;
        }
        Ok(Explored { report, json, page })
    }

    /// The digest of all that decides what a run is: the files that it reads, and the program.
    fn heading(&self, repeat: &Repeat) -> Result<Heading> {
        let space = self.space.map(serde_json::to_value).transpose()?;
        let described = Experiment { results: None, ..self.experiment.clone() };
        let all = serde_json::json!({
            "version": stasis_runner::provenance::version(),
            "experiment": described,
            "space": space,
            "inputs": repeat.inputs,
        });
        Ok(Heading { digest: digest(all.to_string().as_bytes()), seed: self.seed })
    }

    /// Runs the experiment without faults; returns what all scenarios have in common, and the run's
    /// moments.
    fn baseline(&self, trials: &Trials<'_>) -> Result<(Scenario, Moments)> {
        let mut common = Scenario {
            seed: self.experiment.seed,
            log_level: Some(LOG_LEVEL),
            faults: self.experiment.faults.clone(),
            ..Scenario::default()
        };
        let folder = self.results.join("baseline");
        let words = vec!["stasis".to_owned(), "run".to_owned(), self.path.display().to_string()];
        let trial = trials.run(&common, &folder, Ios::Parquet, words)?;
        let Trial { observation, acknowledged, span, message, .. } = trial;
        let shown = folder.display();
        let name = self.path.display();
        match observation.verdict(&self.experiment.explore.once, 0) {
            Verdict::Passed => (),
            // Stopped by the user, which is no failure of the experiment's.
            _ if observation.ending == "cancelled" => (),
            Verdict::Failed(Failure { oracle, line }) => bail!(
                "{name} fails without any fault, so no run with faults would say anything: {}: {line}\n{}\
                 Its results are in {shown}",
                oracle.name(),
                message.map_or(String::new(), |text| text + "\n"),
            ),
            Verdict::Vacuous(Vacuity::Undecided) => bail!(
                "{name}: without any fault its history cannot be judged: {}. Its results are in {shown}",
                observation.undecided.unwrap_or_default()
            ),
            Verdict::Vacuous(_) => bail!(
                "{name} has `history = true`, and without any fault none of its operations was \
                 acknowledged: no run with faults would say anything. Its results are in {shown}"
            ),
            Verdict::Broken(why) => bail!("{name}: {why}"),
        }
        if self.experiment.virtual_limit.is_none() {
            let (times, more) = MAX_TIME;
            common.virtual_limit = Some(span.1.saturating_mul(times).saturating_add(more));
        }
        let moments = Moments::read(&mut KeptIos::open(&folder)?, &acknowledged, span)?;
        Ok((common, moments))
    }
}

impl Session<'_> {
    /// Counts the runs of an exploration that was interrupted.
    fn go_on(&mut self) {
        let (entries, findings) = self.log.take();
        for entry in entries {
            self.known.insert(of_scenario(&entry.scenario(&self.common)));
            self.tally.add(&entry, &self.moments);
        }
        self.findings = findings;
    }

    fn drawer(&self) -> Drawer<'_> {
        Drawer {
            experiment: self.exploration.experiment,
            space: &self.space,
            moments: &self.moments,
            seed: self.exploration.seed,
            common: &self.common,
        }
    }

    fn jobs(&self) -> usize {
        Batch::new(self.exploration.jobs, self.trials.stop).jobs()
    }

    /// Share of the work that is done; none where it has no limit.
    fn fraction(&self) -> Option<f64> {
        self.fraction_after(self.tally.counts.runs)
    }

    /// Share of the work that is done after so many runs.
    fn fraction_after(&self, done: u64) -> Option<f64> {
        let of_time = self
            .exploration
            .time
            .map(|time| self.begun.elapsed().as_secs_f64() / time.as_secs_f64().max(1e-3));
        let of_runs = self.exploration.runs.map(|runs| done as f64 / runs.max(1) as f64);
        let more = of_time.into_iter().chain(of_runs).fold(None, |most: Option<f64>, share| {
            Some(most.map_or(share, |most| most.max(share)))
        });
        more.map(|share| share.min(1.0))
    }

    fn is_over(&self) -> bool {
        self.trials.stop.load(Ordering::Relaxed)
            || self.fraction().is_some_and(|share| share >= 1.0)
            || self.exhausted
            || self.exploration.until_found && !self.findings.is_empty()
    }

    fn explore(&mut self, results: &mut ResultsFolder, observer: &mut dyn Observer) -> Result<()> {
        self.try_corpus(results, observer)?;
        // Some runs of the round that was interrupted are there, and known.
        let mut next = self.log.next.saturating_sub((self.jobs() * ROUND) as u64);
        while !self.is_over() {
            let points = self.draw(&mut next);
            if points.is_empty() {
                self.exhausted = true;
                break;
            }
            self.run_all(&points, observer)?;
            self.shorten_new(results, observer)?;
            let counts = self.tally.counts;
            ensure!(
                counts.runs < MIN_HAPPENED || counts.no_fault < counts.runs,
                "in none of the first {} runs a fault happened: the command may have ended before, or no \
                 trigger came; say in [fault-space] what can happen, and when",
                counts.runs
            );
            if let Some(why) = self.tally.broken.as_ref().filter(|_| counts.broken == counts.runs) {
                bail!("none of the first {} runs could be made: {why}", counts.runs);
            }
        }
        Ok(())
    }

    /// Draws a round's scenarios.
    fn draw(&mut self, next: &mut u64) -> Vec<Drawn> {
        let runs = self.exploration.runs.unwrap_or(MAX_RUNS);
        let remaining = runs.saturating_sub(self.tally.counts.runs);
        let count = (self.jobs() * ROUND).min(usize::try_from(remaining).unwrap_or(usize::MAX));
        let (mut points, mut repeated) = (Vec::new(), 0);
        while points.len() < count && repeated < MAX_REPEATED && *next < MAX_RUNS {
            let run = *next;
            *next += 1;
            let scenario = self.drawer().scenario(run);
            let is_bare = scenario.faults.len() == self.common.faults.len();
            if is_bare || !self.known.insert(of_scenario(&scenario)) {
                repeated += 1;
                continue;
            }
            points.push(Drawn { run, scenario });
        }
        points
    }

    /// Runs scenarios, and counts what became of each.
    fn run_all(&mut self, points: &[Drawn], observer: &mut dyn Observer) -> Result<()> {
        let over = AtomicBool::new(false);
        let mut observed = Ok(());
        let deadline = self.exploration.time.map(|time| self.begun + time);
        let (mut done, found) = (self.tally.counts.runs, self.tally.groups.len());
        let stop = self.trials.stop;
        let entries = self.side_by_side(points, &over, |has_ended| {
            done += u64::from(has_ended);
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if late || stop.load(Ordering::Relaxed) || observed.is_err() {
                over.store(true, Ordering::Relaxed);
            }
            if observed.is_ok() && has_ended {
                let name = progress(done, found);
                let fraction = self.fraction_after(done);
                observed = observer.event(Event::Step { name: &name, fraction });
            }
        })?;
        observed?;
        for entry in entries.into_iter().flatten() {
            self.tally.add(&entry, &self.moments);
            self.own_runs += 1;
            self.log.add_run(entry)?;
        }
        Ok(())
    }

    /// Shortens the failures that have no finding yet.
    fn shorten_new(
        &mut self,
        results: &mut ResultsFolder,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let groups = self.tally.groups.clone();
        for group in groups {
            let known = self.findings.iter().any(|one| one.signature == group.signature);
            if known || self.findings.len() >= MAX_FINDINGS || self.is_stopped() {
                continue;
            }
            let Some(&run) = group.runs.first() else { continue };
            let Some(entry) = self.log.entry(run)? else { continue };
            let scenario = entry.scenario(&self.common);
            self.shorten(run, &group.signature, scenario, results, observer)?;
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.trials.stop.load(Ordering::Relaxed)
    }

    fn shorten(
        &mut self,
        run: u64,
        signature: &str,
        scenario: Scenario,
        results: &mut ResultsFolder,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let number = self.findings.len() as u64 + 1;
        let own = self.common.faults.len();
        let faults_before = scenario.faults.len().saturating_sub(own);
        let (mut best, mut tries) = (scenario, 0);
        let fraction = self.fraction();
        let name = format!("finding {number}: what is enough for it");
        observer.event(Event::Step { name: &name, fraction })?;
        let jobs = self.jobs();
        let mut refuted = HashSet::new();
        'better: while tries < MAX_TRIES && !self.is_stopped() {
            let seed = self.exploration.experiment.seed;
            let all = shorten::simpler(&best, &self.moments, seed);
            let untried = all.into_iter().filter(|one| !refuted.contains(&of_scenario(one)));
            let candidates: Vec<_> =
                untried.map(|scenario| Drawn { run: u64::MAX, scenario }).collect();
            for some in candidates.chunks(jobs) {
                tries += some.len() as u64;
                let verdicts = self.verdicts(some)?;
                let fails = |verdict: &Verdict| match verdict {
                    Verdict::Failed(failure) => failure.signature() == signature,
                    _ => false,
                };
                for (candidate, verdict) in some.iter().zip(&verdicts) {
                    if fails(verdict) {
                        best = candidate.scenario.clone();
                        continue 'better;
                    }
                    refuted.insert(of_scenario(&candidate.scenario));
                }
                if tries >= MAX_TRIES || self.is_stopped() {
                    break;
                }
            }
            break;
        }
        if self.is_stopped() {
            // An exploration that goes on shortens it anew.
            return Ok(());
        }
        let found = (run, faults_before, tries);
        self.keep(number, found, signature, best, (results, observer))
    }

    /// Looks for the point of no return of a failure, by branches of the run of `scenario`, which `trial` was.
    fn inevitable(
        &self,
        (number, scenario): (u64, &Scenario),
        trial: &Trial,
        signature: &str,
        observer: &mut dyn Observer,
    ) -> Result<Option<Inevitable>> {
        let exploration = self.exploration;
        let first = trial.happened.iter().flatten().min();
        let Some(first) = first.filter(|_| exploration.experiment.engine == Engine::Exact) else {
            return Ok(None);
        };
        let (own, once) = (self.common.faults.len(), &exploration.experiment.explore.once);
        let folder = exploration.results.join("runs");
        let mut search = Search::new(first.saturating_sub(BEFORE), trial.span.1);
        loop {
            let moments = search.next();
            let name = format!("finding {number}: when it became inevitable");
            observer.event(Event::Step { name: &name, fraction: Some(search.fraction()) })?;
            let numbers = || 0..exploration.branches;
            let points: Vec<Branch> = moments
                .iter()
                .flat_map(|&at| numbers().map(move |number| Branch { at, number }))
                .collect();
            if points.is_empty() {
                return Ok(search.end());
            }
            let run = |point: &Branch, turn: Turn| {
                let branch =
                    inevitable::branch(scenario, &trial.happened, own, (point.at, point.number));
                let own = folder.join(turn.worker.to_string());
                let trial = self.trials.branch(&branch, (scenario, point.at), &own)?;
                Ok(trial.observation.verdict(once, branch.faults.len()))
            };
            let outcomes = Batch::new(exploration.jobs, self.trials.stop).run(&points, run, |_| ());
            if let Some(Err(why)) = outcomes.iter().flatten().find(|outcome| outcome.is_err()) {
                let warning = format!("no branch of a finding's run could be made: {why}");
                observer.event(Event::Warning(&warning))?;
                return Ok(None);
            }
            if self.is_stopped() {
                return Ok(None);
            }
            for &at in &moments {
                let own = points.iter().zip(&outcomes).filter(|(point, _)| point.at == at);
                // One that could not be made says nothing.
                let ended: Vec<_> =
                    own.filter_map(|(_, outcome)| outcome.as_ref()?.as_ref().ok()).collect();
                let fails = |verdict: &&&Verdict| match verdict {
                    Verdict::Failed(failure) => failure.signature() == signature,
                    _ => false,
                };
                let failed = ended.iter().filter(fails).count();
                search.add(at, (failed as u64, ended.len() as u64));
            }
        }
    }

    /// The verdicts on scenarios that run side by side.
    fn verdicts(&self, points: &[Drawn]) -> Result<Vec<Verdict>> {
        let verdict = |entry: Option<Entry>| {
            entry.map_or(Verdict::Vacuous(Vacuity::NoFault), |entry| entry.verdict)
        };
        let ended = self.side_by_side(points, self.trials.stop, |_| ())?;
        Ok(ended.into_iter().map(verdict).collect())
    }

    /// Runs scenarios side by side, until `stop` is set; a run that was stopped has no entry.
    fn side_by_side(
        &self,
        points: &[Drawn],
        stop: &AtomicBool,
        mut on_progress: impl FnMut(bool),
    ) -> Result<Vec<Option<Entry>>> {
        let trials = &self.trials;
        let folder = self.exploration.results.join("runs");
        let once = &self.exploration.experiment.explore.once;
        let run = |drawn: &Drawn, turn: Turn| {
            let own = folder.join(turn.worker.to_string());
            let trial = trials.run(&drawn.scenario, &own, Ios::None, Vec::new());
            Ok(entry(drawn, trial, once))
        };
        let batch = Batch::new(self.exploration.jobs, stop);
        let outcomes = batch.run(points, run, |ended| on_progress(ended.is_some()));
        let ended = |outcome: Option<Result<Option<Entry>, String>>| match outcome {
            Some(outcome) => outcome.map_err(anyhow::Error::msg),
            None => Ok(None),
        };
        outcomes.into_iter().map(ended).collect()
    }

    /// Leaves a finding: its scenario, and the results of a run with it.
    fn keep(
        &mut self,
        number: u64,
        (run, faults_before, tries): (u64, usize, u64),
        signature: &str,
        scenario: Scenario,
        (results, observer): (&mut ResultsFolder, &mut dyn Observer),
    ) -> Result<()> {
        let name = format!("finding-{number}");
        let (file, folder) = (results.file(&format!("{name}.toml"))?, results.file(&name)?);
        let text = results.file(&format!("{name}.md"))?;
        let words = |command: &str| -> Vec<String> {
            let (path, file) = (self.exploration.path.display(), file.display());
            let mut words = vec![
                "stasis".to_owned(),
                command.to_owned(),
                path.to_string(),
                "--scenario".to_owned(),
                file.to_string(),
            ];
            if self.exploration.names_engine && command == "run" {
                let engine = self.exploration.experiment.engine.name();
                words.extend(["--engine".to_owned(), engine.to_owned()]);
            }
            words
        };
        let line = |words: Vec<String>| -> String {
            let shown: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
            shown.join(" ")
        };
        write(&file, &scenario.to_toml(signature))?;
        let trial = self.trials.run(&scenario, &folder, Ios::Parquet, words("run"))?;
        let once = &self.exploration.experiment.explore.once;
        let (failure, repeats) = match trial.observation.verdict(once, scenario.faults.len()) {
            Verdict::Failed(failure) => {
                let repeats = failure.signature() == signature;
                (failure, repeats)
            }
            _ => (Failure { oracle: Oracle::Status, line: signature.to_owned() }, false),
        };
        let inevitable = match repeats && number <= MAX_DATED && self.exploration.branches > 0 {
            true => self.inevitable((number, &scenario), &trial, signature, observer)?,
            false => None,
        };
        let first = trial.happened.iter().flatten().min();
        let before = first.map_or(0, |first| first.saturating_sub(BEFORE));
        let at = ["--at".to_owned(), units::format_duration(before)];
        let finding = Finding {
            number,
            signature: signature.to_owned(),
            failure,
            run,
            faults_before,
            tries,
            scenario,
            inevitable,
            repeats,
            repeat: line(words("run")),
            debug: line([words("debug"), at.to_vec()].concat()),
            file,
            results: folder,
        };
        let heading = format!("{}\n{}", finding.title(), finding.repeat);
        write(&finding.file, &finding.scenario.to_toml(&heading))?;
        let experiment = std::fs::read_to_string(self.exploration.path).unwrap_or_default();
        write(&text, &finding.to_markdown(&experiment, &trial.message.unwrap_or_default()))?;
        if let Some(corpus) = self.exploration.corpus {
            let kept = corpus.join(format!("{:016x}.toml", of_scenario(&finding.scenario)));
            write(&kept, &finding.scenario.to_toml(&heading))?;
        }
        self.log.add_finding(&finding)?;
        self.findings.push(finding);
        Ok(())
    }

    /// Runs the scenarios of the corpus.
    fn try_corpus(
        &mut self,
        results: &mut ResultsFolder,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let Some(corpus) = self.exploration.corpus else { return Ok(()) };
        std::fs::create_dir_all(corpus)
            .with_context(|| format!("cannot make {}", corpus.display()))?;
        let entries = std::fs::read_dir(corpus)
            .with_context(|| format!("cannot read {}", corpus.display()))?;
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        for (place, path) in (0..).zip(paths) {
            let scenario = Scenario::read(&path)?;
            if !self.known.insert(of_scenario(&scenario)) || self.is_over() {
                continue;
            }
            let drawn = Drawn { run: MAX_RUNS + place, scenario };
            self.run_all(std::slice::from_ref(&drawn), observer)?;
        }
        self.shorten_new(results, observer)
    }

    fn report(self, provenance: Provenance) -> Report {
        let seconds = self.begun.elapsed().as_secs_f64();
        let singles = self.drawer().singles();
        let repeat_exploration = Some(provenance.repeat());
        let mut provenance = provenance.fields();
        Repeat::take(&mut provenance);
        Report {
            experiment: self.exploration.path.to_owned(),
            seed: self.exploration.seed,
            singles,
            counts: self.tally.counts,
            landed: self.tally.landed(),
            groups: self.tally.groups,
            findings: self.findings,
            broken_reason: self.tally.broken,
            exhausted: self.exhausted,
            stopped: self.trials.stop.load(Ordering::Relaxed),
            seconds,
            runs_per_hour: self.own_runs as f64 * 3600.0 / seconds.max(1e-3),
            repeat_exploration,
            provenance,
        }
    }
}

/// The entry of a run; none of one that was stopped.
fn entry(drawn: &Drawn, trial: Result<Trial>, once: &[String]) -> Option<Entry> {
    let Drawn { run, scenario } = drawn;
    let faults = scenario.faults.clone();
    let mut entry = Entry {
        run: *run,
        seed: scenario.seed,
        happened_ns: vec![None; faults.len()],
        cut_after_acknowledgement: false,
        verdict: Verdict::Passed,
        faults,
    };
    match trial {
        Ok(Trial { observation, .. }) if observation.ending == "cancelled" => return None,
        Ok(Trial { observation, happened, acknowledged, span, .. }) => {
            let since: Vec<Nanos> =
                acknowledged.iter().map(|at| at.saturating_sub(span.0)).collect();
            entry.cut_after_acknowledgement =
                cuts_after_acknowledgement(&entry.faults, &happened, &since);
            entry.happened_ns = happened;
            entry.verdict = observation.verdict(once, entry.faults.len());
        }
        Err(error) => entry.verdict = Verdict::Broken(failure::told(&error)),
    }
    Some(entry)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The work so far, in words.
fn progress(runs: u64, findings: usize) -> String {
    let runs_word = if runs == 1 { "run" } else { "runs" };
    let findings_word = if findings == 1 { "finding" } else { "findings" };
    format!("exploring: {runs} {runs_word}, {findings} {findings_word}")
}

/// A digest of a scenario, the same on every computer.
fn of_scenario(scenario: &Scenario) -> u64 {
    let digest = digest(scenario.to_toml("").as_bytes());
    // A digest is hexadecimal.
    u64::from_str_radix(&digest[..16], 16).unwrap_or_default()
}
