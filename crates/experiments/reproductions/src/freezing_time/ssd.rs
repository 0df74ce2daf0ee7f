//! Section 5.2: an SSD played by a slow disk; with section 5.5's Figs. 9 and 10,
//! which look at single requests of the same runs.

use anyhow::Result;
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Boxes, Cdf, Group, Line, Lines, Markup, Quantity, Scale, Stroke};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};

use super::published::PUBLISHED;
use super::setup::{count, fio_trial, label, on_image, on_ram, on_slow, MANY, READ_AND_WRITE};
use crate::bench::{Runs, Trial};
use crate::experiments::Settings;
use crate::fio::Latencies;
use crate::published_data::figure;
use crate::statistics::{histogram, mean, percentile};

/// The disk alone.
const DISK: &str = "hdd-1";
/// (vCPUs, the SSD alone, the SSD played by the slow disk).
pub const RUNS: [(u32, &str, &str); 2] =
    [(1, "ssd-1", "emulated-1"), (MANY, "ssd-4", "emulated-4")];

/// Models of the publication's drives.
const DISK_MODEL: &str = "jpt39c";
const SSD_MODEL: &str = "cloudspeed-500";

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let jobs = (&READ_AND_WRITE[..], count(settings));
    let drive = on_image(DISK_MODEL)?;
    let mut trials = vec![fio_trial(settings, (DISK, "5.2: the disk alone"), 1, drive, jobs)];
    for (vcpus, alone, played) in RUNS {
        if vcpus > 1 && settings.quick {
            continue;
        }
        let description = label("5.2: the SSD alone", vcpus);
        trials.push(fio_trial(settings, (alone, &description), vcpus, on_ram(SSD_MODEL)?, jobs));
        let description = label("5.2: the SSD played by a slow disk", vcpus);
        trials.push(fio_trial(settings, (played, &description), vcpus, on_slow(SSD_MODEL)?, jobs));
    }
    Ok(trials)
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let mut figures = alone(runs);
    let comparisons = compare(runs)?;
    figures.extend(errors(&comparisons));
    figures.extend(single_requests(&comparisons));
    for (vcpus, alone, played) in RUNS {
        let wall = |id: &str| runs.get(id).map(|run| run.command_wall);
        let more =
            wall(played).zip(wall(alone)).map(|(played, alone)| (played / alone - 1.0) * 100.0);
        let title = label("wall-clock time above that of the SSD alone", vcpus);
        figures.push(figure("Section 5.5", title, "%", PUBLISHED.emulation_time, more).at_most());
    }
    let section = Section::new("5.2 An SSD played by a slow disk; 5.5 its single requests")
        .with(Block::Prose(
            "The disk and the SSD are the models of the publication's drives; the slow disk under \
             the played SSD is an image that keeps each I/O waiting for 5 ms of real time. Both \
             SSDs draw their latencies with the same seed, so that requests can be compared one by \
             one: what differs is what the slow disk adds. The publication drew one average for \
             each operation and compared with its own SSD, whose spread it therefore misses."
                .into(),
        ))
        .with(Block::Plots(vec![
            cdf("Fig. 6: the disk alone", runs, DISK),
            cdf("Fig. 7: the SSD alone", runs, RUNS[0].1),
            boxes(&comparisons),
        ]))
        .with(Block::Plots(rates(&comparisons)))
        .with(Block::Table(
            "The interval around the SSD's mean in which 95 % of the requests are.".into(),
            intervals(&comparisons),
        ));
    Ok((section, figures))
}

/// Figs. 6 and 7.
fn alone(runs: &Runs) -> Vec<Figure> {
    let ms = |ns: f64| ns / 1e6;
    let us = |ns: f64| ns / 1e3;
    let figure_of =
        |id: &str, name: &str, pick: fn(&Latencies) -> f64| runs.job(id, name).map(pick);
    let early = |job: &Latencies| job.share_below(2e6) * 100.0;
    let written = |job: &Latencies| job.share_below(PUBLISHED.disk_writes_below * 1e6) * 100.0;
    let within = |job: &Latencies| {
        let [low, high] = PUBLISHED.disk_reads.map(|ms| job.share_below(ms * 1e6));
        (high - low) * 100.0
    };
    let (disk, ssd) = (DISK, RUNS[0].1);
    let min = |job: &Latencies| job.min;
    let max = |job: &Latencies| job.max;
    vec![
        figure(
            "Fig. 6",
            "disk: writes below 2 ms",
            "%",
            PUBLISHED.buffered_writes,
            figure_of(disk, "write", early),
        ),
        figure("Fig. 6", "disk: writes below 5 ms", "%", 100.0, figure_of(disk, "write", written))
            .at_least(),
        figure(
            "Fig. 6",
            "disk: reads of 2.5 to 10 ms",
            "%",
            100.0,
            figure_of(disk, "read", within),
        )
        .at_least(),
        figure(
            "Fig. 6",
            "disk: reads, from",
            "ms",
            PUBLISHED.disk_reads[0],
            figure_of(disk, "read", min).map(ms),
        )
        .at_least(),
        figure(
            "Fig. 6",
            "disk: reads, to",
            "ms",
            PUBLISHED.disk_reads[1],
            figure_of(disk, "read", max).map(ms),
        )
        .at_most(),
        figure(
            "Fig. 7",
            "SSD: writes, all below",
            "us",
            PUBLISHED.ssd_writes_below,
            figure_of(ssd, "write", max).map(us),
        )
        .at_most(),
        figure(
            "Fig. 7",
            "SSD: reads, from",
            "us",
            PUBLISHED.ssd_reads[0],
            figure_of(ssd, "read", min).map(us),
        )
        .at_least(),
        figure(
            "Fig. 7",
            "SSD: reads, to",
            "us",
            PUBLISHED.ssd_reads[1],
            figure_of(ssd, "read", max).map(us),
        )
        .at_most(),
    ]
}

/// One operation with a number of vCPUs, on the SSD and on the SSD as played.
struct Comparison {
    operation: &'static str,
    vcpus: u32,
    /// Latencies as fio measured them.
    alone: Latencies,
    played: Latencies,
    /// Latencies as the drive delivered them, in order (ns).
    alone_each: Vec<f64>,
    played_each: Vec<f64>,
}

impl Comparison {
    fn label(&self) -> String {
        label(self.operation, self.vcpus)
    }

    /// fio's latencies as differences from the SSD's mean (%).
    fn off_mean(&self, latencies: &Latencies) -> Vec<f64> {
        latencies.values().iter().map(|ns| (ns / self.alone.mean - 1.0) * 100.0).collect()
    }

    /// Mean deviation of each request of the played SSD from the same request of the SSD (%).
    fn mean_difference(&self) -> f64 {
        let pairs = self.alone_each.iter().zip(&self.played_each);
        let differences: Vec<f64> =
            pairs.map(|(alone, played)| (played - alone).abs() / alone * 100.0).collect();
        mean(&differences)
    }
}

fn compare(runs: &Runs) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for operation in ["read", "write"] {
        for (vcpus, alone, played) in RUNS {
            let jobs = runs.job(alone, operation).zip(runs.job(played, operation));
            let both = runs.get(alone).zip(runs.get(played));
            if let (Some(jobs), Some((alone, played))) = (jobs, both) {
                comparisons.push(Comparison {
                    operation,
                    vcpus,
                    alone: jobs.0.clone(),
                    played: jobs.1.clone(),
                    alone_each: alone.delivered(operation)?,
                    played_each: played.delivered(operation)?,
                });
            }
        }
    }
    Ok(comparisons)
}

/// Fig. 8 and the abstract's figure.
fn errors(comparisons: &[Comparison]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut all = Vec::new();
    for one in comparisons {
        let error = (one.played.mean / one.alone.mean - 1.0) * 100.0;
        all.push(error.abs());
        let title = format!("mean latency against the SSD's: {}", one.label());
        figures.push(figure("Fig. 8", title, "%", None, Some(error)));
        let range = one.alone.min..=one.alone.max;
        let values = one.played.values();
        let inside = values.iter().filter(|ns| range.contains(ns)).count();
        let share = inside as f64 / values.len().max(1) as f64 * 100.0;
        let title = format!("requests within the SSD's own range: {}", one.label());
        figures.push(figure("Fig. 8", title, "%", None, Some(share)));
    }
    let error = (!all.is_empty()).then(|| mean(&all));
    figures.push(
        figure("Abstract", "mean latency error", "%", PUBLISHED.latency_error, error).at_most(),
    );
    figures
}

fn figure_number(operation: &str) -> &'static str {
    if operation == "read" {
        "Fig. 9"
    } else {
        "Fig. 10"
    }
}

/// The contents of Figs. 9 and 10 in numbers.
fn single_requests(comparisons: &[Comparison]) -> Vec<Figure> {
    let each = comparisons.iter().map(|one| {
        let title = format!("precision of single requests: {}", one.label());
        let precision = 100.0 - one.mean_difference();
        figure(figure_number(one.operation), title, "%", PUBLISHED.precision, Some(precision))
            .at_least()
    });
    each.collect()
}

fn cdf(title: &str, runs: &Runs, id: &str) -> Markup {
    let jobs = ["read", "write"].into_iter().enumerate();
    let series = jobs.filter_map(|(colour, name)| {
        Some(runs.job(id, name)?.cdf(&format!("{name}s"), colour, Stroke::Thin))
    });
    let x = Axis::new("completion latency, fio", Scale::Linear, Quantity::Time);
    Cdf { title: title.into(), x, tail: false, series: series.collect() }.draw()
}

fn boxes(comparisons: &[Comparison]) -> Markup {
    let groups = comparisons.iter().filter_map(|one| {
        let colour = usize::from(one.operation == "write");
        let group = Group::of(one.label(), colour, &one.off_mean(&one.played))?;
        let relative = |ns: f64| (ns / one.alone.mean - 1.0) * 100.0;
        Some(group.shaded([relative(one.alone.min), relative(one.alone.max)]))
    });
    Boxes {
        title: "Fig. 8: the played SSD's requests against the SSD's mean".into(),
        axis: Axis::new("difference from the SSD's mean", Scale::Linear, Quantity::Number("%")),
        shade: "the SSD's own range".into(),
        groups: groups.collect(),
    }
    .draw()
}

/// Width of the steps in which Figs. 9 and 10 count (% of the SSD's mean).
const RATE_STEP: f64 = 5.0;

fn rates(comparisons: &[Comparison]) -> Vec<Markup> {
    let plot = |operation: &str| {
        let mut lines = Vec::new();
        for one in comparisons.iter().filter(|one| one.operation == operation) {
            let mut add = |name: &str, colour, stroke, latencies| {
                lines.push(Line {
                    name: label(name, one.vcpus),
                    colour,
                    stroke,
                    points: histogram(&one.off_mean(latencies), RATE_STEP),
                });
            };
            if one.vcpus == 1 {
                add("SSD", 0, Stroke::Band, &one.alone);
                add("played", 0, Stroke::Thin, &one.played);
            } else {
                add("SSD", 1, Stroke::Band, &one.alone);
                add("played", 1, Stroke::Dashed, &one.played);
            }
        }
        let number = figure_number(operation);
        Lines {
            title: format!("{number}: {operation}s, how many are how far from the SSD's mean"),
            x: Axis::new("difference", Scale::Linear, Quantity::Number("%")),
            y: Axis::new("requests", Scale::Linear, Quantity::Number("")),
            lines,
        }
        .draw()
    };
    vec![plot("read"), plot("write")]
}

fn intervals(comparisons: &[Comparison]) -> Table {
    let mut table = Table::new(vec![
        Column::left("requests"),
        Column::right("from").under("SSD"),
        Column::right("to").under("SSD"),
        Column::right("from").under("played"),
        Column::right("to").under("played"),
    ]);
    for one in comparisons {
        let mut row = vec![one.label()];
        for latencies in [&one.alone, &one.played] {
            let values = one.off_mean(latencies);
            for percent in [2.5, 97.5] {
                row.push(format!("{:+.2} %", percentile(&values, percent)));
            }
        }
        table.push(row);
    }
    table
}
