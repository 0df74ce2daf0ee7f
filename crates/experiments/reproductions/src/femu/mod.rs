//! Li et al., "The CASE of FEMU" (FAST 2018): the experiments of its section 3.
//!
//! Latency against threads and the word count run in guests; experiments on the drive alone run on
//! the model, as in `stasis sim`, on all cores.

mod collection;
mod grid;
mod personalities;
mod published;
mod setup;
mod threads;
mod words;

use std::collections::BTreeSet;

use anyhow::Result;
use stasis_report::page::Block;

use crate::bench::{Runs, Trial};
use crate::experiments::{self, Evaluation, Settings};
use crate::publication::{Extra, Publication};
use crate::reproduction::{Findings, Part, Reproduction};
use crate::simulated::{Point, Simulations, Simulator};

/// Li et al.: "The CASE of FEMU: cheap, accurate, scalable and extensible flash emulator", 2018
pub struct Femu;

impl Publication for Femu {
    fn name(&self) -> &'static str {
        "femu"
    }

    fn takes(&self) -> &'static [Extra] {
        &[Extra::Jobs]
    }

    fn parts(&self, request: &Reproduction) -> Result<Vec<Part>> {
        let mut parts = experiments::parts(request, trials)?;
        for point in points(&Settings::of(request)?) {
            parts.push(point.part()?);
        }
        Ok(parts)
    }

    fn run(&self, request: &Reproduction, names: &[String]) -> Result<Vec<(String, String)>> {
        let mut failed = experiments::some(request, trials, names)?;
        let mut points = points(&Settings::of(request)?);
        points.retain(|point| names.contains(&point.id));
        failed.extend(Simulator::new(request)?.run_all(&points)?.failed);
        Ok(failed)
    }

    fn measure(&self, request: &Reproduction) -> Result<Findings> {
        let simulator = Simulator::new(request)?;
        experiments::run(request, trials, |settings, runs| {
            findings(runs, simulator.run_all(&points(settings))?)
        })
    }
}

/// The experiments that need a guest, in the order in which they are run.
fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let mut trials = threads::trials(settings)?;
    trials.extend(words::trials(settings)?);
    Ok(trials)
}

/// The points that need no guest; each once, even if several figures use it.
fn points(settings: &Settings) -> Vec<Point> {
    let parts = [grid::points, personalities::points, collection::points];
    let mut points: Vec<Point> = parts.iter().flat_map(|part| part(settings)).collect();
    let mut known = BTreeSet::new();
    points.retain(|point| known.insert(point.id.clone()));
    points
}

/// Evaluates the runs and the simulations.
fn findings(runs: &Runs, simulations: Simulations) -> Result<Evaluation> {
    let mut findings = Evaluation {
        title: "The CASE of FEMU: cheap, accurate, scalable and extensible flash emulator",
        sections: Vec::new(),
        figures: Vec::new(),
        failed: Vec::new(),
    };
    let parts = [
        threads::findings(runs)?,
        grid::findings(&simulations),
        personalities::findings(&simulations),
        collection::findings(&simulations),
        words::findings(runs)?,
    ];
    for (section, figures) in parts {
        findings.sections.push(section.with(Block::Figures(figures.clone())));
        findings.figures.extend(figures);
    }
    findings.failed = simulations.failed;
    Ok(findings)
}
