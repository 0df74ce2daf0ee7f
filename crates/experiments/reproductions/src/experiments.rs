//! The usual form of a publication: a list of experiments, run one after the other, and an
//! evaluation of the runs.

use anyhow::Result;
use stasis_experiment::Engine;
use stasis_report::page::{Block, Section};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};
use stasis_runner::engine;

use crate::bench::{Bench, Runs, Trial};
use crate::reproduction::{Findings, Part, Reproduction};

/// Size and place of a reproduction.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Engine that runs the machines; not `auto`.
    pub engine: Engine,
    /// Fewer experiments and I/Os, as a check.
    pub quick: bool,
    /// The publication's size.
    pub full: bool,
}

/// Evaluation of a publication's runs.
pub struct Evaluation {
    /// The publication's title.
    pub title: &'static str,
    /// The page's sections.
    pub sections: Vec<Section>,
    /// Every figure beside the published one.
    pub figures: Vec<Figure>,
    /// Failures beside those of the runs, each with its reason.
    pub failed: Vec<(String, String)>,
}

/// Lists the experiments of a publication, in the order in which they are run.
pub type Trials = fn(&Settings) -> Result<Vec<Trial>>;

impl Settings {
    /// The settings of a request; `auto` is resolved to an engine.
    pub fn of(request: &Reproduction) -> Result<Self> {
        let engine = engine::choose(request.engine)?;
        Ok(Self { engine, quick: request.quick, full: request.full })
    }
}

/// The experiments that `trials` lists.
///
/// # Errors
/// If the settings allow no experiments.
pub fn parts(request: &Reproduction, trials: Trials) -> Result<Vec<Part>> {
    trials(&Settings::of(request)?)?.iter().map(Trial::part).collect()
}

/// The experiments, all of which can begin.
fn checked(settings: &Settings, trials: Trials) -> Result<Vec<Trial>> {
    let trials = trials(settings)?;
    trials.iter().try_for_each(Trial::check)?;
    Ok(trials)
}

/// Runs the experiments with these names; returns the failed ones, each with its reason.
///
/// # Errors
/// [`Stopped`](stasis_runner::batch::Stopped), and where the folder cannot be written.
pub fn some(
    request: &Reproduction,
    trials: Trials,
    names: &[String],
) -> Result<Vec<(String, String)>> {
    let settings = Settings::of(request)?;
    let mut trials = checked(&settings, trials)?;
    trials.retain(|trial| names.iter().any(|name| name == trial.id));
    if trials.is_empty() {
        return Ok(Vec::new());
    }
    Ok(Bench::new(request, settings.engine)?.run_all(&trials)?.failed)
}

/// Runs the experiments that `trials` lists; `evaluate` evaluates the runs.
///
/// # Errors
/// [`Stopped`](stasis_runner::batch::Stopped), and where the folder cannot be written.
pub fn run(
    request: &Reproduction,
    trials: Trials,
    evaluate: impl FnOnce(&Settings, &Runs) -> Result<Evaluation>,
) -> Result<Findings> {
    let settings = Settings::of(request)?;
    let runs = Bench::new(request, settings.engine)?.run_all(&checked(&settings, trials)?)?;
    let Evaluation { title, mut sections, figures, failed: more } = evaluate(&settings, &runs)?;
    let engine = runs.all().next().map_or("–", |(_, trial)| trial.summary.engine.as_str());
    let subtitle =
        format!("The publication's figures beside ours. Engine {engine}, {}.", request.size());
    sections.push(Section::new("All figures").with(Block::Figures(figures.clone())));
    sections.push(Section::new("All runs").with(Block::Table(String::new(), overview(&runs))));
    let failed = runs.failed.into_iter().chain(more).collect();
    Ok(Findings { title, subtitle, sections, figures, failed })
}

/// Table of all runs, with their settings and times.
fn overview(runs: &Runs) -> Table {
    let seconds = |seconds: f64| stasis_results::units::duration(seconds * 1e9);
    let mut table = Table::new(
        [Column::left("run"), Column::left("drive"), Column::left("medium")]
            .into_iter()
            .chain(
                ["vCPUs", "I/Os", "virtual time", "frozen", "wall-clock of the command"]
                    .map(Column::right),
            )
            .collect(),
    );
    for (id, trial) in runs.all() {
        let summary = &trial.summary;
        let drive = |text: fn(&stasis_results::DriveSummary) -> &String| {
            summary.drives.first().map(text).cloned().unwrap_or_default()
        };
        table.push(vec![
            id.to_owned(),
            drive(|drive| &drive.described.model),
            drive(|drive| &drive.described.medium),
            summary.extra.get("vcpus").map(ToString::to_string).unwrap_or_default(),
            stasis_results::units::count(summary.ios()),
            seconds(summary.virtual_seconds),
            seconds(summary.frozen_seconds),
            seconds(trial.command_wall),
        ]);
    }
    for (id, message) in &runs.failed {
        table.push(vec![id.clone(), format!("failed: {message}")]);
    }
    table
}
