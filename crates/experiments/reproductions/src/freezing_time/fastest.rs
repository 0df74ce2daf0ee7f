//! Section 5.1: the fastest possible I/O.

use anyhow::Result;
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Cdf, Quantity, Scale, Stroke};
use stasis_report::published_vs_measured::Figure;

use super::published::PUBLISHED;
use super::setup::{count, fio_trial, on_ram, READ_AND_WRITE};
use crate::bench::{Runs, Trial};
use crate::experiments::Settings;
use crate::published_data::figure;

/// A drive without any latency, in memory.
pub const RUN: &str = "fastest-1";

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let description = "5.1: the fastest possible I/O, 1 vCPU";
    let jobs = (&READ_AND_WRITE[..], count(settings));
    Ok(vec![fio_trial(settings, (RUN, description), 1, on_ram("null")?, jobs)])
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let mut figures = Vec::new();
    let mut series = Vec::new();
    for (colour, name) in ["read", "write"].into_iter().enumerate() {
        let job = runs.job(RUN, name);
        let us = |ns: Option<f64>| ns.map(|ns| ns / 1e3);
        let longest = us(job.map(|job| job.max));
        figures.push(
            figure("Fig. 5", format!("{name}s, all below"), "us", PUBLISHED.fastest_below, longest)
                .at_most(),
        );
        let median = us(job.and_then(|job| job.percentile(50.0)));
        figures.push(figure("Fig. 5", format!("{name}s, median"), "us", None, median));
        series.extend(job.map(|job| job.cdf(&format!("{name}, fio"), colour, Stroke::Thin)));
    }
    let delivered = runs.get(RUN).map(|run| run.summary.drives[0].read.delivered_ns.max);
    let delivered = delivered.map(|ns| ns as f64 / 1e3);
    figures.push(figure("Fig. 5", "longest time in the drive", "us", None, delivered));
    let plot = Cdf {
        title: "Fig. 5: fastest possible I/O, in memory".into(),
        x: Axis::new("completion latency", Scale::Linear, Quantity::Time),
        tail: false,
        series,
    };
    let section = Section::new("5.1 The fastest possible I/O")
        .with(Block::Prose(
            "A drive that completes every command at once, in memory. What is left is the guest's \
             own way to the drive and back, as fio sees it (the publication: as blktrace sees it). \
             The drive itself takes no time."
                .into(),
        ))
        .with(Block::Plots(vec![plot.draw()]));
    Ok((section, figures))
}
