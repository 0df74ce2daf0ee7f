//! Fig. 6a: the blocking effect of garbage collection.

use serde_json::json;
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Cdf, CdfSeries, Quantity, Scale, Stroke};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};
use stasis_results::units::duration;

use crate::experiments::Settings;
use crate::published_data::figure;
use crate::simulated::{Point, Simulations};

/// Size of the drive, which begins in steady state.
const SIZE: u64 = 2 << 30;

/// The unit that a collection blocks for the host, the worst first; `plane` moves pages by
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

fn id(blocking: &str) -> String {
    format!("collection-{blocking}")
}

pub fn points(settings: &Settings) -> Vec<Point> {
    let ios = if settings.quick { 1_000 } else { 10_000 };
    let job = format!(
        "[load]\nrw=randrw\nrwmixread=70\nbs=4k\nnumjobs=16\nnumber_ios={ios}\nnorandommap\n\
         thinktime=1ms\nsize={SIZE}\n"
    );
    let point = |blocking| Point {
        id: id(blocking),
        description: format!("Fig. 6a: a collection that is {blocking}-blocking"),
        model: drive(blocking),
        capacity: SIZE,
        job: job.clone(),
    };
    BLOCKING.map(point).into()
}

pub fn findings(simulations: &Simulations) -> (Section, Vec<Figure>) {
    let mut figures = Vec::new();
    let mut series = Vec::new();
    let mut table = Table::new(
        std::iter::once(Column::left("a collection blocks the"))
            .chain(["mean", "p50", "p90", "p99", "p99.9"].map(Column::right))
            .collect(),
    );
    for (colour, blocking) in BLOCKING.into_iter().enumerate() {
        let reads = simulations.get(&id(blocking)).map(|run| &run.reads);
        let at = |percent: f64| reads.map(|reads| reads.percentile(percent));
        let mean = reads.map(|reads| reads.mean());
        let cells = [mean, at(50.0), at(90.0), at(99.0), at(99.9)];
        let cells = cells.map(|ns| ns.map_or_else(String::new, duration));
        table.push(std::iter::once(blocking.to_owned()).chain(cells).collect());
        let title = |which: &str| format!("reads, {blocking}-blocking: {which}");
        for (which, ns) in [("mean", mean), ("p99", at(99.0))] {
            figures.push(figure("Fig. 6a", title(which), "us", None, ns.map(|ns| ns / 1e3)));
        }
        series.extend(reads.map(|reads| CdfSeries {
            name: blocking.to_owned(),
            colour,
            stroke: Stroke::Thin,
            points: reads.distribution(),
            marks: Vec::new(),
        }));
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
    (section, figures)
}
