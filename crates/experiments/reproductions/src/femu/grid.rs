//! Fig. 4: 16 threads reading, over channels and planes.

use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Line, Lines, Quantity, Scale, Stroke};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};

use super::published::PUBLISHED;
use super::setup::{ssd, THREADS};
use crate::experiments::Settings;
use crate::published_data::figure;
use crate::simulated::{Point, Simulations};

const SIDES: [u32; 5] = [1, 2, 4, 8, 16];
/// Size of the drive, all of which is read.
const SIZE: u64 = 2 << 30;
/// Reading a page, the mean of lower and upper, and its transfer (us).
const CELL: f64 = 56.0;
const TRANSFER: f64 = 52.4288;

/// The two models, by the part of a point's name.
const MODELS: [(&str, bool); 2] = [("basic", false), ("advanced", true)];

fn id(model: &str, channels: u32, planes: u32) -> String {
    format!("grid-{model}-{channels}x{planes}")
}

pub fn points(settings: &Settings) -> Vec<Point> {
    let ios = if settings.quick { 2_000 } else { 20_000 };
    let job = format!(
        "[read]\nrw=randread\nbs=4k\nnumjobs={THREADS}\nnumber_ios={ios}\nnorandommap\nsize={SIZE}\n"
    );
    let point = |(model, advanced), channels, planes| Point {
        id: id(model, channels, planes),
        description: format!("Fig. 4: {channels} channels of {planes} planes, the {model} model"),
        model: ssd(channels, planes, advanced),
        capacity: SIZE,
        job: job.clone(),
    };
    let rows = MODELS.into_iter().flat_map(|model| SIDES.map(|channels| (model, channels)));
    rows.flat_map(|(model, channels)| SIDES.map(|planes| point(model, channels, planes))).collect()
}

/// Mean latencies (us) of a model by channels, then planes.
fn means(simulations: &Simulations, model: &str) -> [[Option<f64>; SIDES.len()]; SIDES.len()] {
    let mean = |channels, planes| {
        simulations.get(&id(model, channels, planes)).map(|run| run.reads.mean() / 1e3)
    };
    SIDES.map(|channels| SIDES.map(|planes| mean(channels, planes)))
}

pub fn findings(simulations: &Simulations) -> (Section, Vec<Figure>) {
    let [basic, advanced] = MODELS.map(|(model, _)| means(simulations, model));
    let threads = f64::from(THREADS);
    let mut figures = Vec::new();
    for (name, grid) in [("one register", &basic), ("two registers", &advanced)] {
        let title = format!("1 channel x 1 plane, {name}");
        figures.push(figure("Fig. 4", title, "us", PUBLISHED.grid_slowest, grid[0][0]).at_least());
        let title = format!("16 channels x 1 plane, {name}");
        figures.push(figure("Fig. 4", title, "us", PUBLISHED.grid_fastest, grid[4][0]).at_most());
    }
    // The results of queueing theory, where it has a closed form.
    let closed = [
        ("1 x 1, one register: n (tR + tX)", threads * (CELL + TRANSFER), basic[0][0]),
        ("1 x 16, two registers: n tX, the channel's", threads * TRANSFER, advanced[0][4]),
    ];
    for (title, form, measured) in closed {
        let row = figure("Fig. 4", title, "us", None, measured);
        figures.push(Figure { closed_form: Some(form), ..row });
    }
    let mut tables = Vec::new();
    for (caption, grid) in [
        ("One register, one page time (µs).", &basic),
        ("Two registers, lower and upper pages (µs).", &advanced),
    ] {
        let columns = SIDES.iter().map(|planes| Column::right(format!("{planes} planes")));
        let mut table =
            Table::new(std::iter::once(Column::left("channels")).chain(columns).collect());
        for (channels, row) in SIDES.iter().zip(grid) {
            let cells = row.iter().map(|us| us.map_or_else(String::new, |us| format!("{us:.1}")));
            table.push(std::iter::once(channels.to_string()).chain(cells).collect());
        }
        tables.push(Block::Table(caption.into(), table));
    }
    let lines = SIDES.iter().enumerate().map(|(index, channels)| Line {
        name: format!("{channels} channels"),
        colour: index,
        stroke: Stroke::Thin,
        points: SIDES
            .iter()
            .zip(&advanced[index])
            .filter_map(|(&p, &us)| Some((f64::from(p), us? * 1e3)))
            .collect(),
    });
    let plot = Lines {
        title: "Fig. 4: 16 threads, two registers".into(),
        x: Axis::new("planes of each channel", Scale::Log, Quantity::Number("")),
        y: Axis::new("mean latency", Scale::Log, Quantity::Time),
        lines: lines.collect(),
    };
    let mut section = Section::new("Fig. 4 Reads over channels and planes").with(Block::Prose(
        "16 threads read 4 KiB at uniformly random places. One plane serves them one after the \
         other: 16 times a page's time. With 16 channels the reads meet by chance only; for \
         independent uniform reads on one-register planes that is about 1/9.6 of the former, so \
         that above 1550 and below 130 µs are not both to be had from such a load."
            .into(),
    ));
    section = section.with(Block::Plots(vec![plot.draw()]));
    for table in tables {
        section = section.with(table);
    }
    (section, figures)
}
