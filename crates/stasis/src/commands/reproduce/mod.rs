//! `stasis reproduce`: a publication's experiments, at a size that fits a usual
//! machine, with its figures beside ours.

mod barrier;
pub mod bench;
pub mod controller;
mod coordination;
mod femu;
mod fio;
mod freezing_time;
mod ios;
mod simulated;
pub mod statistics;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{bail, Result};
use stasis_experiment::Engine;
use stasis_report::figures::{self, Figure};
use stasis_report::page::{Block, Page, Section};
use stasis_report::{Column, Table, FIGURES_FILE, REPORT_FILE};

use crate::cli::FAILURE;
use crate::commands::run;
use crate::engine;
pub use barrier::load;
use bench::{Bench, Runs, Stopped};
use simulated::Simulator;

/// Exit status after Ctrl-C, as that of `stasis run`.
const STOPPED: u8 = 130;

/// What can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Publication {
    /// Bona et al.: "Freezing time: emulating new and faster devices with virtual
    /// machines", 2020
    FreezingTime,
    /// Li et al.: "The CASE of FEMU: cheap, accurate, scalable and extensible flash
    /// emulator", 2018
    Femu,
    /// Kim et al.: "Barrier enabled QEMU", 2019
    Barrier,
    /// vIrtical, deliverable D3.6: "I/O Scheduler for virtualized systems", 2014
    Coordination,
    /// Ben-Yehuda et al.: "Adding advanced storage controller functionality via
    /// low-overhead virtualization", 2012
    Controller,
}

impl Publication {
    fn folder(self) -> &'static str {
        match self {
            Self::FreezingTime => "reproduce-freezing-time",
            Self::Femu => "reproduce-femu",
            Self::Barrier => "reproduce-barrier",
            Self::Coordination => "reproduce-coordination",
            Self::Controller => "reproduce-controller",
        }
    }

    fn trials(self, settings: &Settings) -> Result<Vec<bench::Trial>> {
        match self {
            Self::FreezingTime => freezing_time::trials(settings),
            Self::Femu => femu::trials(settings),
            Self::Barrier => barrier::trials(settings),
            // It has a runner of its own, for several at a time.
            Self::Coordination => Ok(Vec::new()),
            // It runs in real time, and not as experiments.
            Self::Controller => Ok(Vec::new()),
        }
    }
}

/// What `stasis reproduce` repeats.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each experiment leaves a folder in DIR with the results of `stasis run`; DIR/figures.json has
the figures, DIR/report.html the plots. An experiment that is complete in DIR, from the same
program and settings, is not run again.

Examples:
  stasis reproduce freezing-time
  stasis reproduce freezing-time --quick --results quick
  stasis reproduce femu
  stasis reproduce barrier --full
  stasis reproduce coordination --quick
  stasis reproduce coordination --device mk6006gah,sem16g
  stasis reproduce controller --quick

Exit status: 0; 125 if an experiment failed, 130 if it was stopped."
)]
pub struct Arguments {
    /// The publication
    pub publication: Publication,
    /// Folder for the results [default: reproduce-PUBLICATION]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Fewer experiments and I/Os, as a check
    #[arg(long)]
    pub quick: bool,
    /// As large as the publication; barrier and coordination only, hours
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Run what is complete, too
    #[arg(long)]
    pub force: bool,
    /// Drives to measure; coordination only
    #[arg(long, value_delimiter = ',', value_name = "MODEL,...")]
    pub device: Vec<String>,
    /// Experiments at a time; coordination only [default: one for each core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Where the machines run: auto, kvm, softkvm or exact [default: auto]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,
}

/// How large a reproduction is, and where it runs.
#[derive(Debug, Clone, Copy)]
struct Settings {
    engine: Engine,
    quick: bool,
    full: bool,
}

/// What a publication's runs say.
struct Findings {
    title: &'static str,
    sections: Vec<Section>,
    figures: Vec<Figure>,
}

/// `stasis reproduce`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let publication = arguments.publication;
    if publication == Publication::Coordination {
        return coordination::main(arguments);
    }
    if arguments.full && publication != Publication::Barrier {
        bail!("--full: only `barrier` and `coordination` have it");
    }
    if arguments.jobs.is_some() || !arguments.device.is_empty() {
        bail!("--jobs, --device: only `coordination` has them");
    }
    if publication == Publication::Controller {
        return controller::main(arguments);
    }
    let engine = engine::choose(arguments.engine.unwrap_or_default())?;
    let settings = Settings { engine, quick: arguments.quick, full: arguments.full };
    let folder = arguments.results.clone().unwrap_or_else(|| publication.folder().into());
    let stop = run::stop_on_signals()?;
    let provenance = crate::provenance::Provenance::begin(true);
    let mut bench = Bench::new(&folder, arguments.force, Arc::clone(&stop))?;
    let run = || {
        let runs = bench.run_all(publication.trials(&settings)?)?;
        let findings = match publication {
            Publication::FreezingTime => freezing_time::findings(&settings, &runs)?,
            Publication::Femu => femu::findings(&settings, &runs, &Simulator::new(stop))?,
            Publication::Barrier => barrier::findings(&settings, &runs)?,
            Publication::Coordination => bail!("it has findings of its own"),
            Publication::Controller => bail!("it is no list of experiments"),
        };
        anyhow::Ok((runs, findings))
    };
    let (runs, findings) = match run() {
        Err(error) if error.is::<Stopped>() => {
            eprintln!("stasis: {error}; the same command goes on from here");
            return Ok(ExitCode::from(STOPPED));
        }
        other => other?,
    };
    let mut page = page(&findings, &runs, &settings);
    page.sections.extend(provenance.section());
    page.write(&folder, REPORT_FILE)?;
    figures::write_figures(&folder, &findings.figures)?;
    print!("{}", figures::figures_table(&findings.figures).to_text());
    eprintln!("figures: {}", folder.join(FIGURES_FILE).display());
    eprintln!("report: {}", folder.join(REPORT_FILE).display());
    for (id, message) in &runs.failed {
        eprintln!("stasis: {id} failed: {message}");
    }
    Ok(if runs.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
}

/// A figure beside its publication's.
fn figure(
    id: &str,
    what: impl Into<String>,
    unit: &str,
    published: impl Into<Option<f64>>,
    measured: Option<f64>,
) -> Figure {
    Figure {
        id: id.to_owned(),
        what: what.into(),
        unit: unit.to_owned(),
        published: published.into(),
        closed_form: None,
        measured,
    }
}

fn page(findings: &Findings, runs: &Runs, settings: &Settings) -> Page {
    let engine = runs.all().next().map_or("–", |(_, trial)| trial.summary.engine.as_str());
    let size = match (settings.quick, settings.full) {
        (true, _) => "the quick form, for checks",
        (_, true) => "the publication's size",
        _ => "the usual size",
    };
    let subtitle = format!("The publication's figures beside ours. Engine {engine}, {size}.");
    let mut sections = findings.sections.clone();
    sections.push(Section::new("All figures").with(Block::Figures(findings.figures.clone())));
    sections.push(Section::new("All runs").with(Block::Table(String::new(), overview(runs))));
    Page { title: findings.title.to_owned(), subtitle, sections }
}

/// Every run: what it was, and its times.
fn overview(runs: &Runs) -> Table {
    let seconds = |seconds: f64| stasis_report::units::duration(seconds * 1e9);
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
        let drive = |text: fn(&stasis_report::DriveSummary) -> &String| {
            summary.drives.first().map(text).cloned().unwrap_or_default()
        };
        table.push(vec![
            id.to_owned(),
            drive(|drive| &drive.model),
            drive(|drive| &drive.medium),
            summary.extra.get("vcpus").map(ToString::to_string).unwrap_or_default(),
            stasis_report::units::count(summary.ios()),
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

/// Says on a terminal which run is next.
fn announce(number: usize, of: usize, id: &str, what: &str, done: bool) {
    if std::io::stderr().is_terminal() {
        let done = if done { ", done before" } else { "" };
        eprintln!("[{number}/{of}] {id}: {what}{done}");
    }
}
