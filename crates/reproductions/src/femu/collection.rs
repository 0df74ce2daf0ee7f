//! Fig. 6a: what the collection of garbage blocks.

use anyhow::Result;
use serde_json::json;
use stasis_report::figures::Figure;
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Cdf, CdfSeries, Quantity, Scale, Stroke};
use stasis_report::units::duration;
use stasis_report::{Column, Table};

use super::{figure, Point, Settings, Simulator};
use crate::statistics::{mean, percentile};

/// Size of the drive, which begins in steady state.
const SIZE: u64 = 2 << 30;

/// What a collection keeps the host from, the worst first; `plane` moves pages by
/// copyback.
pub const BLOCKING: [&str; 4] = ["controller", "channel", "plane", "none"];

/// The drive of Figs. 6a and 6b.
pub fn drive(blocking: &str) -> serde_json::Value {
    json!({
        "base": "femu-basic", "label": format!("femu-basic, {blocking}-blocking"),
        "pages": 64, "over_provisioning": 0.15, "precondition": "steady",
        "timing": { "read": "40us", "program": "200us", "erase": "2ms", "bus": "400MB/s" },
        "gc": { "blocking": blocking },
    })
}

pub fn findings(settings: &Settings, simulator: &Simulator) -> Result<(Section, Vec<Figure>)> {
    let ios = if settings.quick { 1_000 } else { 10_000 };
    let job = format!(
        "[load]\nrw=randrw\nrwmixread=70\nbs=4k\nnumjobs=16\nnumber_ios={ios}\nnorandommap\n\
         thinktime=1ms\nsize={SIZE}\n"
    );
    let mut figures = Vec::new();
    let mut series = Vec::new();
    let mut table = Table::new(
        std::iter::once(Column::left("a collection blocks the"))
            .chain(["mean", "p50", "p90", "p99", "p99.9"].map(Column::right))
            .collect(),
    );
    let point = |blocking| Point { model: drive(blocking), capacity: SIZE, job: job.clone() };
    let runs = simulator.run_all(&BLOCKING.map(point), |run| run)?;
    for (colour, (blocking, run)) in BLOCKING.into_iter().zip(&runs).enumerate() {
        let mut row = vec![blocking.to_owned(), duration(mean(&run.reads))];
        let percents = [50.0, 90.0, 99.0, 99.9];
        row.extend(percents.map(|percent| duration(percentile(&run.reads, percent))));
        table.push(row);
        let what = |which: &str| format!("reads, {blocking}-blocking: {which}");
        figures.push(figure("Fig. 6a", what("mean"), "us", None, Some(mean(&run.reads) / 1e3)));
        let p99 = percentile(&run.reads, 99.0) / 1e3;
        figures.push(figure("Fig. 6a", what("p99"), "us", None, Some(p99)));
        let points = (0..=200).map(|step| {
            let percent = f64::from(step) / 2.0;
            (percentile(&run.reads, percent), percent / 100.0)
        });
        series.push(CdfSeries {
            name: blocking.to_owned(),
            colour,
            stroke: Stroke::Thin,
            points: points.collect(),
            marks: Vec::new(),
        });
    }
    let plot = Cdf {
        title: "Fig. 6a: reads beside a collection that blocks the ...".into(),
        x: Axis::new("latency", Scale::Log, Quantity::Time),
        tail: false,
        series,
    };
    let section = Section::new("Fig. 6a What the collection of garbage blocks")
        .with(Block::Prose(
            "70 % reads and 30 % writes of 4 KiB at random by 16 threads, 1 ms apart, on a drive \
             in steady state. A collection that holds the controller stops every read, one that \
             holds its channel those of the channel's planes, and one inside a plane only those \
             of that plane."
                .into(),
        ))
        .with(Block::Plots(vec![plot.draw()]))
        .with(Block::Table("Latencies of the reads.".into(), table));
    Ok((section, figures))
}
