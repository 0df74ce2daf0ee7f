//! vIrtical, deliverable D3.6, "I/O Scheduler for virtualized systems" (2014): its
//! chapters 8 and 10, throughput and start-up times on three devices, figures 5 to
//! 17.

mod figures;
mod grid;
mod plots;
mod published;

use std::process::ExitCode;

use anyhow::{anyhow, Result};
use stasis_report::page::{Block, Page, Section};
use stasis_report::{FIGURES_FILE, REPORT_FILE};

use super::{Arguments, Publication};
use crate::cli::FAILURE;
use crate::commands::run;
use crate::commands::suite::applications::Applications;
use crate::commands::suite::measured::Measurement;
use crate::commands::suite::{self, tables, Running, STOPPED};
use figures::Results;
use grid::Extent;

use super::bench::Stopped;

/// `stasis reproduce coordination`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let extent = Extent::new(&arguments.device, arguments.quick, arguments.full);
    let names: Vec<String> = extent.applications.iter().map(|name| (*name).to_owned()).collect();
    let applications = Applications::new(&names, &[], &[]).map_err(|error| anyhow!(error))?;
    let boots = extent.boots(&applications);
    let folder =
        arguments.results.clone().unwrap_or_else(|| Publication::Coordination.folder().into());
    let running = Running {
        folder: &folder,
        engine: arguments.engine,
        force: arguments.force,
        jobs: arguments.jobs,
    };
    let stop = run::stop_on_signals()?;
    let provenance = crate::provenance::Provenance::begin(true);
    let outcomes = match suite::run_boots(&running, &boots, &applications, stop) {
        Err(error) if error.is::<Stopped>() => {
            eprintln!("stasis: {error}; the same command goes on from here");
            return Ok(ExitCode::from(STOPPED));
        }
        other => other?,
    };
    let measurements: Vec<Measurement> = outcomes.iter().flatten().flatten().cloned().collect();
    suite::write_scenarios(&folder, &measurements)?;
    let results = Results::new(&extent, &measurements);
    let figures = results.figures();
    let size = match (arguments.quick, arguments.full) {
        (true, _) => "the quick form, for checks",
        (_, true) => "the publication's size",
        _ => "the usual size",
    };
    let mut sections = vec![Section::new("Published figures and ours")
        .with(Block::Prose(figures::NOTE.into()))
        .with(Block::Figures(figures.clone()))];
    sections.extend(plots::sections(&results));
    sections.push(
        Section::new("Every scenario")
            .with(Block::Table(String::new(), tables::scenarios(&measurements))),
    );
    let mut page = Page {
        title: "I/O scheduler for virtualized systems".into(),
        subtitle: format!("Coordinated scheduling: the publication's figures beside ours, {size}."),
        sections,
    };
    page.sections.extend(provenance.section());
    page.write(&folder, REPORT_FILE)?;
    stasis_report::figures::write_figures(&folder, &figures)?;
    crate::commands::print(&stasis_report::figures::figures_table(&figures).to_text())?;
    eprintln!("figures: {}", folder.join(FIGURES_FILE).display());
    eprintln!("report: {}", folder.join(REPORT_FILE).display());
    let whole = suite::tell_failed(&boots, &outcomes);
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
}
