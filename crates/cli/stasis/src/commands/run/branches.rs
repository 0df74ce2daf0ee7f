//! `stasis run --branch`: runs that are one run up to a moment, and each its own from there on.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use serde_json::json;
use stasis_experiment::{Engine, Experiment};
use stasis_report::{Column, Table};
use stasis_results::{units, Ios, ResultsFolder};
use stasis_runner::batch::{self, Batch};
use stasis_runner::provenance::words;
use stasis_runner::{Changed, Results, Runner};
use stasis_terminal::progress::Steps;
use stasis_terminal::{answer, ensure_guest, stop_on_signals, Terminal};

use super::super::symbols;
use super::described::joined;
use super::ending::finished;
use super::snapshots::{BranchWord, Branches};
use super::stdin::{self, Source};
use crate::arguments::RunArguments;

/// The branches of a command, a row each.
const TABLE_FILE: &str = "branches.csv";
/// The exit status of a run that could not be made.
const FAILED: u8 = 125;

/// A branch.
struct Branch {
    /// Its name, and that of its folder where there are several.
    name: String,
    experiment: Experiment,
    base: PathBuf,
    /// Files that it is described by.
    files: Vec<PathBuf>,
    /// Its value of `--branch`.
    word: String,
}

impl batch::Point for Branch {
    fn name(&self) -> Cow<'_, str> {
        self.name.as_str().into()
    }
}

/// Runs the branches of the run that `arguments` describe, with a change of the experiments that is not
/// in the words.
pub fn main(
    arguments: &RunArguments,
    wish: &Branches,
    stdin: Source,
    quiet: bool,
    change: &dyn Fn(&mut Experiment),
) -> Result<ExitCode> {
    ensure!(
        arguments.profile.is_none(),
        "--profile: a branch takes no samples; those of the run up to its moment are the run's"
    );
    let (mut run, base) = joined(arguments.clone())?;
    change(&mut run);
    run.engine = exact(run.engine);
    let own_words = matches!(stdin, Source::Own);
    let own = if own_words { stdin::given()? } else { None };
    let given = match stdin {
        Source::Kept(file) => file,
        Source::Own => own.as_ref().map(|file| file.path().to_owned()),
    };
    let given = given.filter(|_| run.guest.stdin.is_none());
    run.guest.stdin = run.guest.stdin.take().or_else(|| given.clone());
    let mut branches = Vec::new();
    for word in &wish.branches {
        let mut branch = branch(arguments, word)?;
        change(&mut branch.experiment);
        branch.experiment.engine = exact(branch.experiment.engine);
        branch.experiment.guest.stdin.clone_from(&run.guest.stdin);
        let twice = branches.iter().any(|other: &Branch| other.name == branch.name);
        ensure!(!twice, "--branch: two are called {}: name each once", branch.name);
        branches.push(branch);
    }
    let stop = stop_on_signals()?;
    let mut changed = Changed { run: &run, base: &base, at: wish.at.clone(), call: None };
    // All of them are checked before any is run.
    let mut has_commands = false;
    for branch in &branches {
        let own = changed.has_commands(&branch.experiment);
        has_commands |= own.with_context(|| branch.name.clone())?;
    }
    if has_commands {
        changed.call = Some(symbols::of_guest(&run, &base, &stop)?.call()?);
    }
    let one = Making {
        changed: &changed,
        wish,
        arguments,
        given: given.as_deref(),
        own_words,
        stop: &stop,
    };
    if let [branch] = &mut branches[..] {
        branch.experiment.results = run.results.clone();
        let results = one.run(branch, &mut Terminal::new(arguments.machine.console), false)?;
        return finished(&results, quiet);
    }
    let folder = run.results.clone().unwrap_or_else(|| PathBuf::from("results"));
    let mut claimed = ResultsFolder::claim(&folder, &stasis_runner::input::paths(&run, &base))?;
    for branch in &mut branches {
        claimed.file(&branch.name)?;
        branch.experiment.results = Some(folder.join(&branch.name));
    }
    ensure_guest(&stasis_runner::guest::recipe_of(&run), &stop)?;
    let (mut steps, mut ended) = (Steps::new(), 0);
    let outcomes = Batch::new(wish.jobs, &stop).run(
        &branches,
        |branch, turn| match turn.is_beside_others {
            // The lines of several guests would mix.
            true => one.run(branch, &mut |_: stasis_runner::Event<'_>| Ok(()), true),
            false => one.run(branch, &mut Terminal::new(arguments.machine.console), true),
        },
        |branch| {
            ended += usize::from(branch.is_some());
            let progress = format!("{ended} of {} branches", branches.len());
            steps.step(&progress, Some(ended as f64 / branches.len() as f64));
        },
    );
    drop(steps);
    claimed.begun_within();
    let (mut status, mut rows) = (0, Vec::new());
    for (branch, outcome) in branches.iter().zip(&outcomes) {
        match outcome {
            Some(Ok(results)) => {
                status = status.max(results.status);
                answer::push("runs", &answer::of_run(results))?;
                rows.push((branch, results));
                if let Some(message) = &results.message {
                    stasis_terminal::say!("stasis: {}: {message}", branch.name);
                }
            }
            Some(Err(message)) => {
                status = status.max(FAILED);
                answer::push("failed", &json!({ "name": branch.name, "message": message }))?;
                stasis_terminal::say!("stasis: {}: {message}", branch.name);
            }
            None => status = status.max(130),
        }
    }
    if rows.is_empty() {
        return Ok(ExitCode::from(status));
    }
    let path = claimed.file(TABLE_FILE)?;
    let table = csv(&rows);
    std::fs::write(&path, table).with_context(|| format!("cannot write {}", path.display()))?;
    claimed.finished()?;
    answer::put("results", &folder)?;
    answer::put("table", &path)?;
    if !quiet {
        answer::text(&text(&rows).to_text())?;
        stasis_terminal::say!("branches: {}", path.display());
    }
    Ok(ExitCode::from(status))
}

/// The parts that all branches of a command are made with.
struct Making<'a> {
    changed: &'a Changed<'a>,
    wish: &'a Branches,
    arguments: &'a RunArguments,
    given: Option<&'a Path>,
    /// True if `arguments` are this program's own words.
    own_words: bool,
    stop: &'a Arc<AtomicBool>,
}

impl Making<'_> {
    /// Runs a branch; `keeps`: its output is kept in a file.
    fn run(
        &self,
        branch: &Branch,
        observer: &mut dyn stasis_runner::Observer,
        keeps: bool,
    ) -> Result<Results> {
        let ios: Ios = self.arguments.ios;
        let runner = Runner::new(&branch.experiment).base(&branch.base).stop(self.stop).ios(ios);
        let runner = runner.snapshots(Some(self.wish.snapshotted.clone()));
        let runner = runner.changed(Some(self.changed)).timeline(self.arguments.timeline);
        let runner = runner.reading(branch.files.clone()).given(self.given.map(Path::to_owned));
        let runner = match self.own_words {
            true => runner.repeated_by(words_of(&branch.word)),
            false => runner,
        };
        let results = match keeps {
            true => runner.keep_output().run(observer),
            false => runner.run(observer),
        };
        let results = results?;
        ensure!(
            changed_ns(&results).is_some(),
            "the moment of --from has not come: the run has ended before, after {}; its results are in {}",
            units::duration(results.summary.virtual_seconds * 1e9),
            results.folder.display()
        );
        Ok(results)
    }
}

/// A run that has branches repeats itself.
fn exact(engine: Engine) -> Engine {
    match engine {
        Engine::Auto => Engine::Exact,
        engine => engine,
    }
}

fn branch(arguments: &RunArguments, word: &BranchWord) -> Result<Branch> {
    let mut own = arguments.clone();
    let mut files: Vec<_> = arguments.experiment.iter().cloned().collect();
    let (name, word) = match word {
        BranchWord::Seed(seed) => {
            own.machine.seed = Some(*seed);
            (format!("seed-{seed}"), format!("seed={seed}"))
        }
        BranchWord::File(path) => {
            own.experiment = Some(path.clone());
            files.push(path.clone());
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            (name.into_owned(), path.to_string_lossy().into_owned())
        }
    };
    let (experiment, base) = joined(own).with_context(|| format!("--branch {word}"))?;
    Ok(Branch { name, experiment, base, files, word })
}

/// This program's words with one of the branches.
fn words_of(branch: &str) -> Vec<String> {
    let all = words::own();
    let own = words::own_words(&all);
    let (mut kept, mut skips) = (Vec::new(), false);
    for (place, word) in all.into_iter().enumerate() {
        let is_branch = place < own && (word == "--branch" || word == "--jobs");
        let has_value =
            place < own && (word.starts_with("--branch=") || word.starts_with("--jobs="));
        if place == own {
            kept.extend(["--branch".to_owned(), branch.to_owned()]);
        }
        if !std::mem::replace(&mut skips, is_branch) && !is_branch && !has_value {
            kept.push(word);
        }
    }
    if own == kept.len() || !kept.iter().any(|word| word == "--branch") {
        kept.extend(["--branch".to_owned(), branch.to_owned()]);
    }
    kept
}

/// A branch that has ended.
type Row<'a> = (&'a Branch, &'a Results);

fn changed_ns(results: &Results) -> Option<u64> {
    results.summary.extra.get("branch")?.get("at_ns")?.as_u64()
}

fn csv(rows: &[Row]) -> String {
    let mut text = "branch,seed,at_ns,ending,exit_status,virtual_seconds,ios\n".to_owned();
    for (branch, results) in rows {
        let at = changed_ns(results).map_or(String::new(), |at| at.to_string());
        let summary = &results.summary;
        text += &format!(
            "{},{},{at},{},{},{},{}\n",
            branch.name,
            branch.experiment.seed,
            summary.ending,
            summary.exit_status,
            summary.virtual_seconds,
            summary.ios()
        );
    }
    text
}

fn text(rows: &[Row]) -> Table {
    let mut columns = vec![Column::left("branch")];
    columns.extend(["seed", "from", "command", "I/Os"].map(Column::right));
    columns.push(Column::left("end"));
    let mut table = Table::new(columns);
    for (branch, results) in rows {
        let summary = &results.summary;
        table.push(vec![
            branch.name.clone(),
            branch.experiment.seed.to_string(),
            changed_ns(results).map_or("its end".into(), |at| units::duration(at as f64)),
            units::duration(summary.virtual_seconds * 1e9),
            units::count(summary.ios()),
            match (&summary.ending[..], summary.exit_status) {
                ("exited", 0) => String::new(),
                ("exited", status) => format!("status {status}"),
                (ending, _) => ending.replace('-', " "),
            },
        ]);
    }
    table
}
