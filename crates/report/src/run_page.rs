//! `report.html`: the page of one run.

mod terms;

use serde_json::Value;
use stasis_block::Operation;

use crate::failed::failed;
use crate::latency::{carried, error_percent, PERCENTILES};
use crate::page::{thinned, Block, Page, Resolution, Section, LIMIT};
use crate::plot::{
    Axis, Bar, Bars, Cdf, CdfSeries, Detail, Heat, Line, Lines, Markup, Quantity, Scale, Scatter,
    ScatterSeries, Segment, Stroke,
};
use crate::statistics::{DriveStatistics, OperationStatistics};
use crate::summary::{DriveSummary, OperationSummary, ProcessorSummary, Summary};
use crate::table::{Column, Table};
use crate::timeline::{Course, Curve, Point};
use crate::units::{self, TimeUnit};
use crate::Latency;
use crate::{flash_page, jobs_page, shared_page};

/// I/Os that the plots over time of one page have at most, all together, and those of a
/// series at least; in the coarsest resolution as many as [`LEAST`].
const POINTS: usize = 16 << 10;
const POINTS_LEAST: usize = 128;
/// Places of a distribution, and parts of the time, at most.
const PLACES: usize = 512;
const PARTS: usize = 128;
/// What a curve has in the coarsest resolution.
const LEAST: usize = 12;
/// Bytes of an LBA.
const BLOCK: u64 = 512;
/// The engine of a summary that was made without a guest.
const SIMULATION: &str = "sim";
/// The engine of a summary of drives that others used in real time.
const SERVER: &str = "serve";

/// The page in some resolution. Its times begin at `begin`, the command's start (ns).
pub(crate) fn page(
    summary: &Summary,
    drives: &[DriveStatistics],
    begin: u64,
    resolution: Resolution,
) -> Page {
    let kind = Kind::of(summary);
    let mut sections = Vec::new();
    if !summary.warnings.is_empty() {
        let prose = summary.warnings.iter().map(|warning| Block::Prose(format!("{warning}.")));
        sections.push(Section { heading: "Not to be trusted".into(), blocks: prose.collect() });
    }
    sections.push(Section::new("").with(Block::Facts(facts(summary, kind))));
    let series = summary.drives.iter().flat_map(DriveSummary::used).count();
    let points = (resolution.of(POINTS, 0) / series.max(1)).max(resolution.of(POINTS_LEAST, LEAST));
    let drawn = drawn(summary, resolution);
    for ((figures, statistics), drawn) in summary.drives.iter().zip(drives).zip(drawn) {
        let extent = Extent { kind, begin, points, resolution, drawn };
        sections.push(drive(figures, statistics, extent));
        sections.extend(flash_page::section(figures, resolution, drawn));
    }
    sections.extend(jobs_page::section(summary));
    sections.extend(shared_page::sections(summary));
    if kind == Kind::Guest {
        sections.push(costs(summary));
        sections.extend(processors(summary, resolution));
    }
    sections.push(Section::new("How to read this").with(Block::Terms(terms::terms(summary, kind))));
    sections.extend(provenance(summary));
    let ended = match summary.ending.as_str() {
        "exited" if kind == Kind::Server => {
            "Drives in real time, by the server's clock.".to_owned()
        }
        "exited" if kind == Kind::Simulation => "A simulation without a guest.".to_owned(),
        "exited" => format!("The command ended with status {}.", summary.exit_status),
        other => {
            let message = summary.message.as_deref().unwrap_or_default();
            format!("The run did not end with its command: {other}. {message}")
        }
    };
    Page { title: title(summary), subtitle: ended, sections }
}

/// Which drives have plots: those with the most I/Os, where the page has no room for all.
fn drawn(summary: &Summary, resolution: Resolution) -> Vec<bool> {
    let ios = |drive: &DriveSummary| drive.used().map(|(_, used)| used.count).sum::<u64>();
    let mut busiest: Vec<usize> = (0..summary.drives.len()).collect();
    busiest.sort_by_key(|drive| std::cmp::Reverse(ios(&summary.drives[*drive])));
    let mut drawn = vec![false; busiest.len()];
    busiest.iter().take(resolution.subjects()).for_each(|drive| drawn[*drive] = true);
    drawn
}

/// How a drive is drawn.
#[derive(Debug, Clone, Copy)]
struct Extent {
    kind: Kind,
    /// When times begin (ns).
    begin: u64,
    /// I/Os over time of a series at most.
    points: usize,
    resolution: Resolution,
    /// Whether it has plots.
    drawn: bool,
}

/// Who used the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The run's own guest.
    Guest,
    /// Nobody: a load or a trace, and every I/O is delivered at its target.
    Simulation,
    /// Others, in real time.
    Server,
}

impl Kind {
    fn of(summary: &Summary) -> Self {
        match summary.engine.as_str() {
            SIMULATION => Self::Simulation,
            SERVER => Self::Server,
            _ => Self::Guest,
        }
    }

    /// The axis of time.
    fn time(self) -> &'static str {
        match self {
            Self::Guest => "Virtual time since the command began",
            Self::Simulation => "Virtual time since the first I/O that counts",
            Self::Server => "Time since the server began",
        }
    }
}

fn title(summary: &Summary) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    let named = ["title", "command"].iter().find_map(|name| text(summary.extra.get(*name)?));
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "A run on modelled drives".to_owned())
}

fn facts(summary: &Summary, kind: Kind) -> Vec<(String, String)> {
    let seconds = |seconds: f64| units::duration(seconds * 1e9);
    let ios = summary.ios();
    let mut facts = vec![
        ("Engine", summary.engine.clone()),
        ("I/Os", units::count(ios)),
        ("Largest error, p1 to p99.9", units::deviation(summary.max_error_percent())),
        ("Virtual time", seconds(summary.virtual_seconds)),
        ("Wall-clock time", seconds(summary.wall_seconds)),
    ];
    let named = |facts: Vec<(&str, String)>| {
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    if kind == Kind::Server {
        facts[2].1 = units::deviation(served_error(summary));
        facts[3] = ("Served for", seconds(summary.wall_seconds));
        facts.truncate(4);
        return named(facts);
    }
    if summary.wall_seconds > 0.0 {
        let speed = summary.virtual_seconds / summary.wall_seconds;
        facts.push(("Virtual per wall-clock", format!("{} ×", units::significant(speed, 3))));
    }
    if kind == Kind::Simulation {
        let rate = ios as f64 / summary.virtual_seconds.max(1e-9);
        facts[2] = ("I/Os a second", units::significant(rate, 4));
        return named(facts);
    }
    facts.push(("Boot, virtual", seconds(summary.boot_virtual_seconds)));
    facts.push(("Exits", units::count(summary.exits)));
    if ios > 0 {
        let each = summary.exits as f64 / ios as f64;
        facts.push(("Exits per I/O", units::significant(each, 3)));
    }
    let late = [summary.overshoot_ns.p99, summary.overshoot_ns.max];
    let [p99, max] = late.map(|ns| units::duration(ns as f64));
    facts.push(("Late ends of slices, p99 / max", format!("{p99} / {max}")));
    named(facts)
}

/// The largest error of what was served, without operations that are too few to have one:
/// less than one of a hundred I/Os of their drive.
fn served_error(summary: &Summary) -> Option<f64> {
    let errors = summary.drives.iter().flat_map(|drive| {
        let all: u64 = drive.used().map(|(_, used)| used.count).sum();
        let often = drive.used().filter(move |(_, used)| used.count >= all.div_ceil(100));
        often.filter_map(|(_, used)| used.max_error_percent)
    });
    errors.max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

fn drive(figures: &DriveSummary, statistics: &DriveStatistics, extent: Extent) -> Section {
    let kind = extent.kind;
    let before = match (kind, figures.boot_ios) {
        (Kind::Server, _) | (_, 0) => String::new(),
        (_, ios) => {
            format!(" I/Os before what is measured, not in these figures: {}.", units::count(ios))
        }
    };
    let text = match kind {
        Kind::Simulation => format!("Model {}.{before}", figures.model),
        _ => {
            format!("{} on {}, model {}.{before}", figures.interface, figures.medium, figures.model)
        }
    };
    let section = Section::new(format!("Drive {}", figures.name)).with(Block::Prose(text));
    let used: Vec<_> = figures.used().collect();
    if used.is_empty() {
        let text = match kind {
            Kind::Guest => "The command made no I/O to this drive.",
            _ => "There was no I/O to this drive.",
        };
        return section.with(Block::Prose(text.to_owned()));
    }
    let section = match failed(figures) {
        Some(text) => section.with(Block::Prose(text)),
        None => section,
    };
    section
        .with(Block::Table(String::new(), amounts(&used, kind)))
        .with(Block::Table(
            match kind {
                Kind::Guest => {
                    "Latency by percentile: what the model asked for, what the guest got."
                }
                Kind::Simulation => "Latency by percentile.",
                Kind::Server => {
                    "Latency by percentile: what the model asked for, what the client got."
                }
            }
            .to_owned(),
            percentiles(&used, kind),
        ))
        .with(match extent.drawn {
            true => Block::Plots(plots(&used, statistics, extent)),
            false => Block::Prose(format!(
                "Its plots are left out, so that the page stays within {} MB; drives with more I/Os have theirs.",
                LIMIT / 1_000_000
            )),
        })
}

type Used<'a> = (Operation, &'a OperationSummary);

fn amounts(used: &[Used<'_>], kind: Kind) -> Table {
    let columns = ["I/Os", "amount", "mean size", "failed", "largest error"].map(Column::right);
    let mut table = Table::new([Column::left("operation")].into_iter().chain(columns).collect());
    if kind == Kind::Simulation {
        table.columns.pop();
    }
    for (operation, figures) in used {
        // Cells beyond the columns are left out.
        table.push(vec![
            operation.name().to_owned(),
            units::count(figures.count),
            units::bytes(figures.bytes),
            units::bytes(figures.bytes / figures.count),
            units::count(figures.errors),
            units::deviation(figures.max_error_percent),
        ]);
    }
    table
}

fn percentiles(used: &[Used<'_>], kind: Kind) -> Table {
    let mut table = Table::new(vec![Column::left("")]);
    // Those that the I/Os of one operation at least carry.
    let most = used.iter().map(|(_, figures)| figures.count).max().unwrap_or(0);
    let rows = |latency: &Latency| {
        let named = latency.percentiles().into_iter().zip(PERCENTILES);
        let named = named.filter(|(_, (_, rank))| carried(most, *rank));
        let named = named.map(|((name, value), (_, rank))| (name, Some(rank), value as f64));
        let ends = [("mean", None, latency.mean), ("min", None, latency.min as f64)];
        let max = [("max", None, latency.max as f64)];
        ends.into_iter().chain(named).chain(max).collect::<Vec<_>>()
    };
    table.rows =
        rows(&Latency::default()).iter().map(|(name, ..)| vec![(*name).to_owned()]).collect();
    for (operation, figures) in used {
        // One unit per operation, so that figures compare at a glance.
        let median = figures.target_ns.p50.max(figures.delivered_ns.p50);
        let unit = match TimeUnit::of(median as f64 / 100.0) {
            TimeUnit::Nanosecond if median < 1000 => TimeUnit::Nanosecond,
            TimeUnit::Nanosecond | TimeUnit::Microsecond => TimeUnit::Microsecond,
            _ => TimeUnit::Millisecond,
        };
        let group = format!("{} ({})", operation.name(), unit.symbol());
        let columns: &[&str] = match kind {
            Kind::Simulation => &["latency"],
            _ => &["target", "delivered", "error"],
        };
        let columns = columns.iter().map(|name| Column::right(*name).under(group.clone()));
        table.columns.extend(columns);
        let places = if unit == TimeUnit::Nanosecond { 0 } else { 3 };
        let pairs = rows(&figures.target_ns).into_iter().zip(rows(&figures.delivered_ns));
        for (row, ((_, rank, target), (.., delivered))) in table.rows.iter_mut().zip(pairs) {
            let mut cells = match rank.is_none_or(|rank| carried(figures.count, rank)) {
                true => vec![
                    units::fixed(target / unit.ns(), places),
                    units::fixed(delivered / unit.ns(), places),
                    units::deviation(error_percent(delivered, target)),
                ],
                false => vec!["–".to_owned(); 3],
            };
            if kind == Kind::Simulation {
                cells.truncate(1);
            }
            row.extend(cells);
        }
    }
    table
}

fn plots(used: &[Used<'_>], statistics: &DriveStatistics, extent: Extent) -> Vec<Markup> {
    let Extent { kind, begin, points, resolution, .. } = extent;
    let of = |operation: Operation| &statistics.operations[operation as usize];
    let latency = || Axis::new("Latency", Scale::Log, Quantity::Time);
    let time = || Axis::new(kind.time(), Scale::Linear, Quantity::Time);
    let since = |at: f64| (at - begin as f64).max(0.0);
    let curves: Vec<_> = used
        .iter()
        .flat_map(|(operation, figures)| {
            let [target, mut delivered] = curves(*operation, figures, of(*operation), resolution);
            let alone = kind == Kind::Simulation;
            if alone {
                delivered.name = operation.name().to_owned();
            }
            (!alone).then_some(target).into_iter().chain([delivered])
        })
        .collect();
    let cdf = |title: &str, tail| {
        Cdf { title: title.to_owned(), x: latency(), tail, series: curves.clone() }.draw()
    };
    let complete = used.iter().all(|(operation, figures)| {
        of(*operation).timeline.is_complete() && figures.count <= points as u64
    });
    let clouds = used
        .iter()
        .map(|(operation, _)| cloud(*operation, &of(*operation).timeline.at_most(points), since));
    let over_time = Scatter {
        title: format!(
            "{} over time: {}",
            if kind == Kind::Simulation { "Latency" } else { "Delivered latency" },
            if complete { "every I/O" } else { "a sample with the extremes" }
        ),
        x: time(),
        y: latency(),
        series: clouds.collect(),
    };
    let mut plots =
        vec![cdf("Distribution of latency", false), cdf("Its upper tail", true), over_time.draw()];
    let parts = resolution.of(PARTS, LEAST);
    let courses: Vec<_> =
        used.iter().map(|(operation, _)| of(*operation).timeline.course(parts)).collect();
    let mut course = |title: &str, y: Axis, curve: fn(&Course) -> &Curve| {
        let line = |((operation, _), course): (&Used<'_>, &Course)| Line {
            name: operation.name().to_owned(),
            colour: *operation as usize,
            stroke: Stroke::Thin,
            points: curve(course).iter().map(|(at, value)| (since(*at), *value)).collect(),
        };
        let lines = used.iter().zip(&courses).map(line);
        // Nothing was transferred by flushes, say.
        let lines = lines.filter(|line| line.points.iter().any(|(_, value)| *value > 0.0));
        let lines: Vec<_> = lines.collect();
        if !lines.is_empty() {
            let title = title.to_owned();
            plots.push(Lines { title, x: time(), y, lines }.draw());
        }
    };
    let axis = |label: &str, quantity| Axis::new(label, Scale::FromZero, quantity);
    let [rate, bandwidth] = match kind {
        Kind::Server => ["I/Os per second", "Bytes per second"],
        _ => ["I/Os per second of virtual time", "Bytes per second of virtual time"],
    };
    course(rate, axis("Completed I/Os", Quantity::Number("1/s")), |c| &c.rate);
    course(bandwidth, axis("Bandwidth", Quantity::Bandwidth), |c| &c.bandwidth);
    let depth = axis("I/Os in flight, mean", Quantity::Number(""));
    course("Queue depth over time", depth, |c| &c.depth);
    plots
}

/// The I/Os of an operation, each with what tells it from the others.
fn cloud(operation: Operation, points: &[Point], since: impl Fn(f64) -> f64) -> ScatterSeries {
    let detail = |name, quantity, value: fn(&Point) -> u64| Detail {
        name,
        quantity,
        values: points.iter().map(|point| value(point) as f64).collect(),
    };
    let place = |point: &Point| (since(point.at as f64), point.latency as f64);
    ScatterSeries {
        name: operation.name().to_owned(),
        colour: operation as usize,
        points: points.iter().map(place).collect(),
        details: vec![
            detail("length", Quantity::Bytes, |point| point.bytes),
            detail("LBA", Quantity::Number(""), |point| point.offset / BLOCK),
            detail("order", Quantity::Number(""), |point| point.order),
        ],
    }
}

fn curves(
    operation: Operation,
    figures: &OperationSummary,
    statistics: &OperationStatistics,
    resolution: Resolution,
) -> [CdfSeries; 2] {
    let marks = |latency: &Latency| {
        let named = latency.percentiles().into_iter().zip(PERCENTILES);
        // A mark stands for a percentile that the I/Os carry. The script tells them without marks.
        let shown = |rank| resolution.is_fine() && carried(figures.count, rank);
        let named = named.filter(|(_, (_, rank))| shown(*rank));
        named
            .map(|((name, value), (_, rank))| (name.to_owned(), value as f64, rank as f64 / 1e4))
            .collect()
    };
    let curve = |kind: &str, stroke, points: &[(f64, f64)], marks| CdfSeries {
        name: format!("{} {kind}", operation.name()),
        colour: operation as usize,
        stroke,
        points: thinned(points, resolution.of(PLACES, LEAST)),
        marks,
    };
    [
        curve("target", Stroke::Band, &statistics.target.curve(), marks(&figures.target_ns)),
        curve(
            "delivered",
            Stroke::Thin,
            &statistics.delivered.curve(),
            marks(&figures.delivered_ns),
        ),
    ]
}

/// What ran, and the drives' models with their parameters.
fn provenance(summary: &Summary) -> Option<Section> {
    let mut fields = summary.extra.clone();
    fields.insert("engine".into(), summary.engine.clone().into());
    let mut section = crate::provenance(&fields)?;
    for drive in summary.drives.iter().filter(|drive| !drive.parameters.is_null()) {
        let title = format!("The model of {}", drive.name);
        // What was read from JSON can be written as JSON.
        let text = serde_json::to_string_pretty(&drive.parameters).unwrap_or_default();
        section = section.with(Block::Details(title, text));
    }
    Some(section)
}

/// What several processors did, over virtual time.
fn processors(summary: &Summary, resolution: Resolution) -> Option<Section> {
    if summary.processors.len() < 2 {
        return None;
    }
    let step = summary.processors[0].step_seconds * 1e9;
    let busy = Heat {
        title: "Share of time for which each processor ran".to_owned(),
        row: "vCPU".to_owned(),
        x: Axis::new("Virtual time since the command began", Scale::Linear, Quantity::Time),
        width: step,
        values: summary.processors.iter().map(|processor| processor.shares.clone()).collect(),
    };
    let call = summary.processor_call_ns;
    let sum = |part: fn(&ProcessorSummary) -> f64| summary.processors.iter().map(part).sum::<f64>();
    let text = format!(
        "{} processors ran for {} of virtual time together, in {} slices, and were idle for {}. They were \
         frozen together for {} of wall-clock, which is no virtual time. Interrupts between them \
         took {} in the median and {} at p99. Their places in virtual time differed by {} at most: \
         by so much one can see late what another has written to memory. I/Os are in the order of \
         virtual time, whichever processor ran first.",
        summary.processors.len(),
        units::duration(sum(|processor| processor.running_seconds) * 1e9),
        units::count(summary.slices),
        units::duration(sum(|processor| processor.idle_seconds) * 1e9),
        units::duration(summary.frozen_seconds * 1e9),
        units::duration(call.p50 as f64),
        units::duration(call.p99 as f64),
        units::duration(summary.clock_skew_max_ns as f64),
    );
    let section = Section::new("Processors").with(Block::Prose(text));
    Some(section.with(Block::Plots(vec![busy.draw_in(resolution)])))
}

fn costs(summary: &Summary) -> Section {
    let bar = |label: &str, parts: &[(&str, usize, f64)]| Bar {
        label: label.to_owned(),
        segments: parts
            .iter()
            .map(|&(name, colour, seconds)| Segment {
                name: name.to_owned(),
                colour,
                value: seconds * 1e9,
            })
            .collect(),
    };
    let (skipped, frozen) = (summary.skipped_seconds, summary.frozen_seconds);
    let time = Bars {
        title: "Time".to_owned(),
        axis: Axis::new("Time of the command", Scale::Linear, Quantity::Time),
        stacked: true,
        bars: vec![
            bar(
                "virtual",
                &[
                    ("guest ran", 0, (summary.virtual_seconds - skipped).max(0.0)),
                    ("skipped: guest idle", 2, skipped),
                ],
            ),
            bar(
                "wall-clock",
                &[
                    ("working", 4, (summary.wall_seconds - frozen).max(0.0)),
                    ("frozen: waiting for a medium", 1, frozen),
                ],
            ),
        ],
    };
    let (exits, ios) = (&summary.exits_by_reason, summary.ios());
    let reasons = [
        ("port I/O", exits.io),
        ("memory-mapped I/O", exits.mmio),
        ("of these, doorbells", exits.doorbell),
        ("registers (MSR)", exits.msr),
        ("halt", exits.halt),
        ("interrupt window", exits.interrupt_window),
        ("end of slice", exits.kick),
        ("other", exits.other),
    ];
    let exits = Bars {
        title: "Exits from guest mode by reason".to_owned(),
        axis: Axis::new("Exits", Scale::Linear, Quantity::Number("")),
        stacked: false,
        bars: reasons
            .into_iter()
            .map(|(label, count)| {
                let segment = Segment { name: String::new(), colour: 0, value: count as f64 };
                let label = match ios {
                    0 => label.to_owned(),
                    _ => format!("{label}, {:.2} for each I/O", count as f64 / ios as f64),
                };
                Bar { label, segments: vec![segment] }
            })
            .collect(),
    };
    Section::new("What the run cost").with(Block::Plots(vec![time.draw(), exits.draw()]))
}
