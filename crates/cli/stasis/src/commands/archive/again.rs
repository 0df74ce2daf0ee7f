//! Makes an archive's results again.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{bail, ensure, Context, Result};
use stasis_experiment::{Engine, Experiment};
use stasis_program::beside;
use stasis_report::Repeat;
use stasis_results::STDIN_FILE;
use stasis_runner::provenance::words::own_words;
use stasis_terminal::answer;

use super::command::{Made, Parse};
use super::inputs::{inputs, NEITHER};
use super::whole::Whole;
use crate::arguments::RunArguments;
use crate::commands;
use crate::commands::run::stdin::Source;

/// The program of publications.
const REPRODUCE: &str = "stasis-reproduce";

/// The part of an experiment that its words leave to the machine: the guest's release, and the
/// engine.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    suite: Option<String>,
    engine: Option<Engine>,
}

impl Origin {
    /// Digest of results.
    pub fn of(results: &Whole) -> Self {
        let summary = results.first.as_ref();
        let recipe = summary.and_then(|summary| summary.extra.get("guest_recipe"));
        let suite = recipe.and_then(|recipe| recipe["suite"].as_str()).map(str::to_owned);
        let engine = summary.and_then(|summary| summary.engine.parse::<Engine>().ok());
        Self { suite, engine }
    }

    /// Gives it to an experiment that does not say.
    pub fn apply(&self, experiment: &mut Experiment) {
        if experiment.guest.root.is_none() && experiment.guest.image.is_none() {
            experiment.guest.suite = experiment.guest.suite.take().or_else(|| self.suite.clone());
        }
        if experiment.engine == Engine::Auto {
            experiment.engine = self.engine.unwrap_or_default();
        }
    }
}

/// The standard input that results have kept.
fn kept_stdin(results: &Whole) -> Option<PathBuf> {
    Some(results.folder.join(STDIN_FILE)).filter(|file| file.exists())
}

/// A run whose results are there, in the folder in which they were made.
pub struct RunAgain {
    /// Its words, without the folder of results.
    pub arguments: RunArguments,
    /// The standard input that it had.
    pub stdin: Option<PathBuf>,
    /// Its guest's release and its engine.
    pub origin: Origin,
}

impl RunAgain {
    /// Reads the run of a folder of results; `parse` reads command lines.
    ///
    /// # Errors
    /// The results are of another command, or a file that the run read has changed.
    pub fn of(results: &Path, parse: Parse) -> Result<Self> {
        let whole = Whole::read(results)?;
        let Made::Run(arguments) = parse(&whole.words)? else {
            bail!("{} is not of one `stasis run`", results.display());
        };
        let recorded = whole.first.as_ref().and_then(|summary| Repeat::of(&summary.extra));
        for input in recorded.map(|repeat| repeat.inputs).unwrap_or_default() {
            ensure!(
                stasis_runner::provenance::is_unchanged(&input),
                "{} is not as the run in {} read it: the moment would be another run's; call this \
                 in the folder of that run",
                input.path,
                results.display()
            );
        }
        let (stdin, origin) = (kept_stdin(&whole), Origin::of(&whole));
        Ok(Self { arguments: *arguments, stdin, origin })
    }
}

/// Runs the command of `words` in the current folder, whose files are below `tree`, with its
/// results in `results`. The release and the engine are those of `first`.
pub fn make(
    words: &[String],
    parse: Parse,
    first: &Whole,
    tree: &Path,
    results: &Path,
    quiet: bool,
) -> Result<()> {
    let command = parse(words)?;
    if let Made::Sweep = command {
        // The package looks at the files itself: only it knows which a study names.
        let mut words: Vec<_> = words[1..].iter().map(Into::into).collect();
        let quiet = quiet.then(|| "--quiet".into());
        words.extend(["--within".into(), tree.into(), "--results".into(), results.into()]);
        words.extend(quiet);
        let status = commands::sweep::ended(&words)?;
        ensure!(status.success() || status.code() == Some(1), "the study cannot be repeated");
        return Ok(());
    }
    // Whoever made the archive may be nobody's friend: nothing but its own files is read or
    // written.
    for path in inputs(words, parse)? {
        let full =
            path.canonicalize().with_context(|| format!("{} is not in it", path.display()))?;
        ensure!(full.starts_with(tree), "{} leads out of it", path.display());
    }
    let origin = Origin::of(first);
    let change = |experiment: &mut Experiment| origin.apply(experiment);
    // The command's own status is among the figures.
    match command {
        Made::Run(mut run) => {
            run.results = Some(results.to_owned());
            let stdin = Source::Kept(kept_stdin(first));
            commands::run::changed(*run, stdin, quiet, change)?;
        }
        Made::Sim(mut sim) => {
            results.clone_into(&mut sim.results);
            stasis_simulation::main(&sim, quiet)?;
        }
        Made::On(mut on) => {
            on.results = Some(results.to_owned());
            commands::on::changed(*on, quiet, change)?;
        }
        Made::CrashTest(mut test) => {
            test.results = Some(results.to_owned());
            test.junit = None;
            commands::crash_test::changed(&test, change)?;
        }
        Made::Reproduce => {
            let mut words = words.to_vec();
            let own = own_words(&words);
            let results = results.to_str().context("--results is no text")?;
            let mut more = vec!["--results".to_owned(), results.to_owned()];
            if !words.iter().any(|word| word.starts_with("--engine")) {
                more.extend(origin.engine.map(|engine| format!("--engine={}", engine.name())));
            }
            words.splice(own..own, more);
            words.extend(quiet.then(|| "--quiet".to_owned()));
            let words = beside::handed_on(&words[1..], REPRODUCE);
            // The document is of the repetition.
            let output = if answer::is_json() { Stdio::null() } else { Stdio::inherit() };
            beside::started(REPRODUCE, words, |command| command.stdout(output).status())?;
        }
        _ => bail!(NEITHER),
    }
    Ok(())
}
