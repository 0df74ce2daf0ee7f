//! `stasis reproduce` and `stasis suite`: the experiments of publications, at a size that
//! fits a usual machine, with the published figures beside ours.
//!
//! A publication is a folder here with an implementation of [`Publication`], and a line of
//! [`publications::PUBLICATIONS`].
//!
//! Promises:
//! - Figures called published are from the publication. An expectation or a closed form is called
//!   that.
//! - An experiment that is complete in the folder of results, from the same program and
//!   settings, is not run again.
//! - A reproduction that is stopped continues from there at the next call.

mod barrier;
mod bench;
mod controller;
mod coordination;
mod experiments;
mod femu;
mod fio;
mod freezing_time;
mod ios;
pub mod publication;
pub mod publications;
mod published_data;
pub mod reproduction;
mod simulated;
mod statistics;
mod suite;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use stasis_program::beside;
use stasis_program::reproduce::Arguments;
use stasis_report::page::{Block, Page};
use stasis_report::published_vs_measured;
use stasis_results::{FIGURES_FILE, REPORT_FILE};
use stasis_runner::batch::Stopped;
use stasis_runner::engine;
use stasis_runner::provenance::{words, Provenance};
use stasis_terminal::{answer, stop_on_signals, FAILURE, STOPPED};

pub use barrier::load::{main as load, Load};
pub use controller::{part as controller_part, OwnPart as ControllerPart};
use publication::{Extra, Publication};
use publications::PUBLICATIONS;
use reproduction::{Findings, Part, Reproduction};
pub use suite::guest::{main as suite_part, Part as SuitePart};
pub use suite::main as suite;
pub use suite::runner::{main as suite_boot, SuiteBoot};

/// Refuses options that the publication does not take.
fn check(arguments: &Arguments, publication: &dyn Publication) -> Result<()> {
    let asked = [
        (Extra::Full, "--full", arguments.full),
        (Extra::Device, "--device", !arguments.device.is_empty()),
        (Extra::Jobs, "--jobs", arguments.jobs.is_some()),
    ];
    for (extra, option, is_asked) in asked {
        if is_asked && !publication.takes().contains(&extra) {
            let takers = PUBLICATIONS.iter().filter(|other| other.takes().contains(&extra));
            let takers: Vec<_> = takers.map(|other| format!("`{}`", other.name())).collect();
            bail!("{option}: only {} takes it", takers.join(" and "));
        }
    }
    Ok(())
}

/// `stasis reproduce`.
///
/// # Errors
/// If the publication cannot be repeated at all.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.is_study() {
        return beside::become_study();
    }
    // The command line has looked at the name.
    let publication = publications::named(&arguments.publication).context("no such publication")?;
    check(arguments, publication)?;
    let folder = format!("reproduce-{}", publication.name());
    let request = Reproduction {
        folder: arguments.results.clone().unwrap_or_else(|| folder.into()),
        engine: arguments.engine.unwrap_or_default(),
        quick: arguments.quick,
        full: arguments.full,
        force: arguments.force,
        gather: arguments.gather,
        devices: arguments.device.clone(),
        jobs: arguments.jobs,
        stop: stop_on_signals()?,
    };
    if arguments.list || !arguments.only.is_empty() {
        return experiments_alone(arguments, publication, &request);
    }
    // Results that are there already are no repetition.
    let mut words = words::own();
    words.retain(|word| word != "--gather");
    let provenance = Provenance::begin(true).repeated_by(words);
    let (findings, stopped) = match publication.measure(&request) {
        Err(error) if error.is::<Stopped>() => {
            eprintln!("stasis: {error}; the same command goes on from here");
            // The page has what is finished, and says of the rest that it is not.
            let (gather, stop) = (true, Arc::default());
            let finished = publication.measure(&Reproduction { gather, stop, ..request.clone() });
            let Ok(findings) = finished else { return Ok(ExitCode::from(STOPPED)) };
            (findings, true)
        }
        other => (other?, false),
    };
    let Findings { title, subtitle, mut sections, mut figures, mut failed } = findings;
    if stopped {
        let why =
            "the reproduction was stopped by SIGINT (Ctrl-C) or SIGTERM; the same command goes on";
        failed.iter_mut().for_each(|(_, message)| *message = why.to_owned());
    }
    published_vs_measured::explain_missing(&mut figures, &failed);
    for section in &mut sections {
        for block in &mut section.blocks {
            if let Block::Figures(figures) = block {
                published_vs_measured::explain_missing(figures, &failed);
            }
        }
    }
    let head = published_vs_measured::head(&figures, &failed);
    let head = Some(head.repeated_by(Some(provenance.repeat())));
    sections.extend(provenance.section());
    let folder = &request.folder;
    Page { title: title.into(), subtitle, head, sections }.write(folder, REPORT_FILE)?;
    published_vs_measured::write_figures(folder, &figures)?;
    answer::put("results", folder)?;
    answer::put("figures", &folder.join(FIGURES_FILE))?;
    answer::put("failed", &failed)?;
    answer::text(&published_vs_measured::figures_table(&figures).to_text())?;
    eprintln!("figures: {}", folder.join(FIGURES_FILE).display());
    eprintln!("report: {}", folder.join(REPORT_FILE).display());
    for (id, message) in &failed {
        eprintln!("stasis: {id} failed: {message}");
    }
    if stopped {
        return Ok(ExitCode::from(STOPPED));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
}

/// `--list` and `--only`: the experiments without the figures.
fn experiments_alone(
    arguments: &Arguments,
    publication: &dyn Publication,
    request: &Reproduction,
) -> Result<ExitCode> {
    let all = publication.parts(request)?;
    if arguments.list {
        let text = listed(publication, request, &all, arguments.json)?;
        match arguments.json {
            true => answer::document(&text)?,
            false => answer::text(&text)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = arguments.only.iter().find(|name| all.iter().all(|one| one.name != **name))
    {
        let size = request.size();
        bail!("--only {name}: no such experiment in {size}; --list prints them");
    }
    let failed = match publication.run(request, &arguments.only) {
        Err(error) if error.is::<Stopped>() => {
            eprintln!("stasis: {error}; the same command goes on from here");
            return Ok(ExitCode::from(STOPPED));
        }
        other => other?,
    };
    for (id, message) in &failed {
        eprintln!("stasis: {id} failed: {message}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
}

/// The list of experiments.
fn listed(
    publication: &dyn Publication,
    request: &Reproduction,
    parts: &[Part],
    json: bool,
) -> Result<String> {
    if !json {
        return Ok(parts.iter().map(|part| format!("{}\t{}\n", part.name, part.what)).collect());
    }
    let list = List {
        publication: publication.name(),
        engine: engine::choose(request.engine)?.name(),
        parts,
    };
    Ok(serde_json::to_string_pretty(&list).context("cannot write the list")? + "\n")
}

/// Output of `--list --json`.
#[derive(serde::Serialize)]
struct List<'a> {
    publication: &'a str,
    /// The engine of the request, with `auto` resolved for this machine.
    engine: &'a str,
    parts: &'a [Part],
}
