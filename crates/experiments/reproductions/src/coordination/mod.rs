//! vIrtical, deliverable D3.6, "I/O Scheduler for virtualized systems" (2014): its
//! chapters 8 and 10, throughput and start-up times on three devices, figures 5 to
//! 17.

mod figures;
mod grid;
mod plots;
mod published;

use anyhow::{anyhow, Result};
use stasis_experiment::GuestSpec;
use stasis_report::page::{Block, Section};
use stasis_runner::batch::{self, digest_of};
use stasis_runner::engine;

use crate::publication::{Extra, Publication};
use crate::reproduction::{Findings, Part, Reproduction};
use crate::suite::applications::Applications;
use crate::suite::measured::Measurement;
use crate::suite::plan::Boot;
use crate::suite::scenario::MEMORY;
use crate::suite::{self, tables, Running};
use figures::Results;
use grid::Extent;

/// Plans the scenarios, the applications and the boots.
fn plan(request: &Reproduction) -> Result<(Extent, Applications, Vec<Boot>)> {
    let extent = Extent::new(&request.devices, request.quick, request.full);
    let names: Vec<String> = extent.applications.iter().map(|name| (*name).to_owned()).collect();
    let applications = Applications::new(&names, &[], &[]).map_err(|error| anyhow!(error))?;
    let boots = extent.boots(&applications);
    Ok((extent, applications, boots))
}

fn running(request: &Reproduction) -> Running<'_> {
    Running {
        folder: &request.folder,
        engine: request.engine,
        force: request.force,
        jobs: request.jobs,
        gather: request.gather,
        beside_others: false,
    }
}

/// vIrtical, deliverable D3.6: "I/O Scheduler for virtualized systems", 2014
pub struct Coordination;

impl Publication for Coordination {
    fn name(&self) -> &'static str {
        "coordination"
    }

    fn takes(&self) -> &'static [Extra] {
        &[Extra::Full, Extra::Device, Extra::Jobs]
    }

    fn parts(&self, request: &Reproduction) -> Result<Vec<Part>> {
        let (_, applications, boots) = plan(request)?;
        let engine = engine::choose(request.engine)?;
        let packages = applications.packages.clone();
        let guests = vec![GuestSpec::default(), GuestSpec { packages, ..GuestSpec::default() }];
        let part = |boot: &Boot| {
            let times = boot.phases.len();
            Ok(Part {
                name: boot.setup.name(),
                what: format!("a boot, and what is measured in it {times} times"),
                digest: digest_of(&(engine.name(), &boot.setup, &boot.phases))?,
                guests: guests.clone(),
                memory: MEMORY,
                timed: None,
            })
        };
        boots.iter().map(part).collect()
    }

    fn run(&self, request: &Reproduction, names: &[String]) -> Result<Vec<(String, String)>> {
        let (_, applications, mut boots) = plan(request)?;
        boots.retain(|boot| names.contains(&boot.setup.name()));
        let running = Running { beside_others: true, ..running(request) };
        let outcomes = suite::run_boots(&running, &boots, &applications, &request.stop)?;
        Ok(batch::failed(&boots, &outcomes))
    }

    fn measure(&self, request: &Reproduction) -> Result<Findings> {
        let (extent, applications, boots) = plan(request)?;
        let running = running(request);
        let outcomes = suite::run_boots(&running, &boots, &applications, &request.stop)?;
        let measurements: Vec<Measurement> = outcomes.iter().flatten().flatten().cloned().collect();
        suite::write_scenarios(&request.folder, &measurements)?;
        let results = Results::new(&extent, &measurements);
        let figures = results.figures();
        let mut sections = vec![Section::new("Published figures and ours")
            .with(Block::Prose(figures::NOTE.into()))
            .with(Block::Figures(figures.clone()))];
        sections.extend(plots::sections(&results));
        sections.push(
            Section::new("Every scenario")
                .with(Block::Table(String::new(), tables::scenarios(&measurements))),
        );
        let subtitle = format!(
            "Coordinated scheduling: the publication's figures beside ours, {}.",
            request.size()
        );
        let title = "I/O scheduler for virtualized systems";
        let failed = batch::failed(&boots, &outcomes);
        Ok(Findings { title, subtitle, sections, figures, failed })
    }
}
