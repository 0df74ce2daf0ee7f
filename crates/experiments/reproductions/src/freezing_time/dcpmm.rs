//! Section 5.3: a drive faster than the guest's own way to it.

use anyhow::Result;
use stasis_experiment::{CpuSpeed, Engine};
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Cdf, CdfSeries, Markup, Quantity, Scale, Stroke};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};
use stasis_results::units;

use super::published::{LatencyTable, PERCENTS, PUBLISHED};
use super::setup::{fio_trial, on_ram, MANY};
use crate::bench::{Runs, Trial};
use crate::experiments::Settings;
use crate::fio::Latencies;
use crate::published_data::figure;
use crate::statistics::mean;

/// Freezing alone: the drive's average latency (Table 2), on top of the guest's own
/// way.
const NAIVE: &str = "dcpmm-naive";
/// Setting time back to when the drive would have answered.
const REWIND: &str = "dcpmm-rewind";
/// Speed of the processors with rewind, under `exact`. At the usual 5 GHz the guest's
/// way alone, from fio through the NVMe driver and its interrupt, takes 2 us, as long
/// as the faster half of the DCPMM's reads with theirs, which ends in a copy; and
/// time goes back to the command's submission at most.
const FAST: f64 = 10.0;
/// fio's job.
const JOB: (&str, &str) = ("read", "randread");

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    // Enough for p99.9 to be more than one value.
    let count = if settings.quick { 1000 } else { 10_000 };
    let naive_count = if settings.quick { 300 } else { 2000 };
    let description = "5.3: the DCPMM, without rewind";
    let drive = on_ram("fixed:2192ns")?;
    let naive = fio_trial(settings, (NAIVE, description), MANY, drive, (&[JOB], naive_count));
    let description = "5.3: the DCPMM, with rewind";
    let mut rewind =
        fio_trial(settings, (REWIND, description), MANY, on_ram("dcpmm")?, (&[JOB], count));
    rewind.experiment.machine.rewind = true;
    if settings.engine == Engine::Exact {
        rewind.experiment.machine.cpu_speed = Some(CpuSpeed::Times(FAST));
    }
    Ok(vec![naive, rewind])
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let (naive, rewind) = (runs.job(NAIVE, JOB.0), runs.job(REWIND, JOB.0));
    let mut figures = rows(&PUBLISHED.table_1, naive);
    figures.extend(rows(&PUBLISHED.table_2, rewind));
    figures.extend(rows(&PUBLISHED.table_3, rewind));
    let agreement = rewind.map(|job| {
        let judged = PUBLISHED
            .table_2
            .percentiles
            .iter()
            .zip(PERCENTS)
            .filter(|(_, percent)| *percent <= 99.0);
        let alike = judged.filter_map(|(real, percent)| {
            let ours = job.percentile(percent)?;
            Some(100.0 - (ours - real).abs() / real * 100.0)
        });
        mean(&alike.collect::<Vec<_>>())
    });
    let title = "likeness to the DCPMM, mean of p1 to p99";
    figures.push(figure("Table 3", title, "%", PUBLISHED.rewind_agreement, agreement).at_least());
    let section = Section::new("5.3 A drive faster than the guest: DCPMM")
        .with(Block::Prose(
            "Without rewind, the guest's own way to an NVMe drive and back comes on top of the \
             drive's 2.2 µs (Table 1). With rewind, time goes back to when the DCPMM would have \
             answered, so that fio sees the percentiles that fio saw on the real one (Table 2); under \
             engine exact with processors of 10 GHz, as the guest's own way takes 2 µs at the usual 5 GHz, \
             longer than many reads of the DCPMM with all of theirs. The \
             publication drew between the least and the largest latency and so got another \
             distribution (Table 3); the drive's model here draws from Table 2 itself."
                .into(),
        ))
        .with(Block::Plots(vec![fast(rewind), slow(naive)]))
        .with(Block::Table("Random reads, as fio sees them in the guest (ns).".into(), table(rewind)));
    Ok((section, figures))
}

/// A table's figures beside fio's.
fn rows(table: &LatencyTable, job: Option<&Latencies>) -> Vec<Figure> {
    let row = |measure: &str, published: f64, measured: Option<f64>| {
        let title = format!("{}, {measure}", table.what);
        figure(&table.id, title, &table.unit, published, measured.map(|ns| ns / table.scale))
    };
    let mut figures = vec![
        row("min", table.min, job.map(|job| job.min)),
        row("max", table.max, job.map(|job| job.max)),
        row("average", table.average, job.map(|job| job.mean)),
        row("stddev", table.stddev, job.map(|job| job.stddev)),
    ];
    for (percent, published) in PERCENTS.into_iter().zip(table.percentiles) {
        let measured = job.and_then(|job| job.percentile(percent));
        figures.push(row(&format!("p{percent}"), published, measured));
    }
    figures
}

/// The three distributions side by side.
fn table(rewind: Option<&Latencies>) -> Table {
    let mut table = Table::new(
        [Column::left("percentile")]
            .into_iter()
            .chain(
                [
                    "DCPMM (Table 2)",
                    "their emulation (Table 3)",
                    "ours",
                    "theirs off by",
                    "ours off by",
                ]
                .map(Column::right),
            )
            .collect(),
    );
    let columns = PUBLISHED.table_2.percentiles.into_iter().zip(PUBLISHED.table_3.percentiles);
    for (percent, (real, theirs)) in PERCENTS.into_iter().zip(columns) {
        let ours = rewind.and_then(|job| job.percentile(percent));
        let off = |value: f64| units::deviation(Some((value / real - 1.0) * 100.0));
        table.push(vec![
            format!("p{percent}"),
            units::significant(real, 5),
            units::significant(theirs, 5),
            ours.map_or("–".into(), |ns| units::significant(ns, 5)),
            off(theirs),
            ours.map_or("–".into(), off),
        ]);
    }
    table
}

fn published(table: &LatencyTable, name: &str, colour: usize, stroke: Stroke) -> CdfSeries {
    CdfSeries { name: name.into(), colour, stroke, points: table.points(), marks: Vec::new() }
}

fn fast(rewind: Option<&Latencies>) -> Markup {
    let mut series = vec![
        published(&PUBLISHED.table_2, "DCPMM (Table 2)", 0, Stroke::Band),
        published(&PUBLISHED.table_3, "their emulation (Table 3)", 1, Stroke::Dashed),
    ];
    series.extend(rewind.map(|job| job.cdf("ours, with rewind", 2, Stroke::Thin)));
    Cdf {
        title: "Tables 2 and 3: the DCPMM and its emulations".into(),
        x: Axis::new("completion latency, fio", Scale::Log, Quantity::Time),
        tail: false,
        series,
    }
    .draw()
}

fn slow(naive: Option<&Latencies>) -> Markup {
    let mut series = vec![
        published(&PUBLISHED.table_2, "DCPMM (Table 2)", 0, Stroke::Band),
        published(&PUBLISHED.table_1, "their naive emulation (Table 1)", 1, Stroke::Dashed),
    ];
    series.extend(naive.map(|job| job.cdf("ours, without rewind", 2, Stroke::Thin)));
    Cdf {
        title: "Table 1: without rewind".into(),
        x: Axis::new("completion latency, fio", Scale::Log, Quantity::Time),
        tail: false,
        series,
    }
    .draw()
}
