//! Bona et al., "Freezing time" (2020): the experiments of its section 5.
//!
//! The drives are models; the slow disk underneath is an image behind a real delay
//! for each I/O. Each experiment is smaller than the publication's (4 KiB I/Os over
//! 4 GB, five times; 10 GB of random reads of the DCPMM).

mod dcpmm;
mod fastest;
mod overhead;
mod program;
mod published;
mod setup;
mod ssd;

use anyhow::Result;
use stasis_report::page::Block;

use crate::bench::{Runs, Trial};
use crate::experiments::{self, Evaluation, Settings, Trials};
use crate::publication::{Extra, Publication};
use crate::reproduction::{Findings, Reproduction};

/// Bona et al.: "Freezing time: emulating new and faster devices with virtual machines", 2020
pub struct FreezingTime;

impl Publication for FreezingTime {
    fn name(&self) -> &'static str {
        "freezing-time"
    }

    fn takes(&self) -> &'static [Extra] {
        &[Extra::Jobs]
    }

    fn trials(&self) -> Option<Trials> {
        Some(trials)
    }

    fn measure(&self, request: &Reproduction) -> Result<Findings> {
        experiments::run(request, trials, findings)
    }
}

/// The experiments, in the order in which they are run.
fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let parts = [fastest::trials, overhead::trials, ssd::trials, dcpmm::trials, program::trials];
    let mut trials = Vec::new();
    for part in parts {
        trials.extend(part(settings)?);
    }
    // Section 5.5 compares their wall-clock times.
    let compared = ssd::RUNS.iter().chain(&overhead::RUNS);
    for (_, one, other) in compared {
        for trial in trials.iter_mut().filter(|trial| [one, other].contains(&&trial.id)) {
            trial.timed = Some(other);
        }
    }
    Ok(trials)
}

/// Evaluates the runs. The quick form has no rows for the experiments that it leaves out.
fn findings(settings: &Settings, runs: &Runs) -> Result<Evaluation> {
    let parts =
        [fastest::findings, ssd::findings, dcpmm::findings, program::findings, overhead::findings];
    let mut findings = Evaluation {
        title: "Freezing time: emulating new and faster devices with virtual machines",
        sections: Vec::new(),
        figures: Vec::new(),
        failed: Vec::new(),
    };
    for part in parts {
        let (section, mut figures) = part(runs)?;
        if settings.quick {
            figures.retain(|figure| figure.measured.is_some());
        }
        // Percentiles have a separate table.
        let mut shown = figures.clone();
        shown.retain(|figure| !figure.what.contains(", p"));
        findings.sections.push(if shown.is_empty() {
            section
        } else {
            section.with(Block::Figures(shown))
        });
        findings.figures.extend(figures);
    }
    Ok(findings)
}
