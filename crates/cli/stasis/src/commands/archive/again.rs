//! Makes an archive's results again.

use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use stasis_experiment::{Engine, Experiment};
use stasis_runner::provenance::words::own_words;
use stasis_runner::STDIN_FILE;

use super::command::{Made, Parse};
use super::inputs::{inputs, NEITHER};
use super::whole::Whole;
use crate::commands;
use crate::commands::run::stdin::Source;

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
    let summary = first.first.as_ref();
    let recipe = summary.and_then(|summary| summary.extra.get("guest_recipe"));
    let suite = recipe.and_then(|recipe| recipe["suite"].as_str()).map(str::to_owned);
    let engine = summary.and_then(|summary| summary.engine.parse::<Engine>().ok());
    let change = |experiment: &mut Experiment| {
        if experiment.guest.root.is_none() {
            experiment.guest.suite = experiment.guest.suite.take().or(suite);
        }
        if experiment.engine == Engine::Auto {
            experiment.engine = engine.unwrap_or_default();
        }
    };
    // The command's own status is among the figures.
    match command {
        Made::Run(mut run) => {
            run.results = Some(results.to_owned());
            let stdin = first.folder.join(STDIN_FILE);
            let stdin = Source::Kept(Some(stdin).filter(|file| file.exists()));
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
        Made::Reproduce(_) => {
            let mut words = words.to_vec();
            let own = own_words(&words);
            let results = results.to_str().context("--results is no text")?;
            let mut more = vec!["--results".to_owned(), results.to_owned()];
            if !words.iter().any(|word| word.starts_with("--engine")) {
                more.extend(engine.map(|engine| format!("--engine={}", engine.name())));
            }
            words.splice(own..own, more);
            let Made::Reproduce(arguments) = parse(&words)? else { bail!(NEITHER) };
            stasis_reproductions::main(&arguments)?;
        }
        _ => bail!(NEITHER),
    }
    Ok(())
}
