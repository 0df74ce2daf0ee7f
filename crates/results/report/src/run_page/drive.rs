//! A drive of a run: its figures, and the plots of its I/Os.

use stasis_block::inside::{FlashInside, Inside};
use stasis_block::slowest::SLOWEST;
use stasis_block::Operation;
use stasis_run_events::BLOCK;

use super::kind::{Kind, Time};
use crate::failed::failed;
use crate::page::{thinned, Block, Resolution, Section, MAX_PAGE_SIZE};
use crate::plot::{
    Axis, Cdf, CdfSeries, Detail, Line, Lines, Markup, Quantity, Scale, Scatter, ScatterSeries,
    Stroke, COLOURS,
};
use crate::table::{Column, Table};
use crate::{means_page, slowest_page, verdict};
use stasis_results::latency::{carried, error_percent, PERCENTILES};
use stasis_results::over_time::{Course, Curve, Point};
use stasis_results::statistics::{DriveStatistics, OperationStatistics};
use stasis_results::summary::{DriveSummary, OperationSummary};
use stasis_results::units::{self, TimeUnit};
use stasis_results::Drive;
use stasis_results::Latency;
use stasis_results::SlowIo;

/// Points of a curve in the coarsest resolution.
pub(super) const MIN_POINTS: usize = 12;
/// Places of a distribution, and parts of the time, at most.
const PLACES: usize = 512;
const PARTS: usize = 128;
/// The slowest I/Os that are listed in the coarsest resolution.
const MIN_SLOWEST: usize = 3;
/// The colour of the slowest I/Os among the others: the last of all.
const SLOWEST_COLOUR: usize = COLOURS - 1;
/// The colour of a flash drive's collections, and their place: below the fastest I/O by this factor.
const COLLECTIONS_COLOUR: usize = COLOURS - 2;
const BELOW: f64 = 0.7;

/// Part of a run that a drive's plots show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) kind: Kind,
    pub(super) time: Time,
    /// I/Os over time of a series at most.
    pub(super) points: usize,
    pub(super) resolution: Resolution,
    /// True if it has plots.
    pub(super) drawn: bool,
}

/// A drive's section; `limit`: the limits on its rate, if it has any.
pub(super) fn section(
    figures: &DriveSummary,
    statistics: &DriveStatistics,
    extent: Extent,
    limit: Option<String>,
) -> Section {
    let kind = extent.kind;
    let before = match (kind, figures.boot_ios) {
        (Kind::Server, _) | (_, 0) => String::new(),
        (_, ios) => {
            format!(" I/Os before what is measured, not in these figures: {}.", units::count(ios))
        }
    };
    let text = match kind {
        Kind::Simulation => format!("Model {}.{before}", figures.described.model),
        _ => {
            let Drive { interface, medium, model, .. } = &figures.described;
            let limit =
                limit.as_ref().map_or(String::new(), |limit| format!(" Its limit: {limit}."));
            format!("{interface} on {medium}, model {model}.{limit}{before}")
        }
    };
    let section =
        Section::new(format!("Drive {}", figures.described.name)).with(Block::Prose(text));
    let section = match figures.cut_ios {
        0 => section,
        cut => section.with(Block::Prose(cut_off(cut))),
    };
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
    let section = section
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
            true => Block::Plots(plots(&used, figures, statistics, extent)),
            false => Block::Prose(format!(
                "Its plots are left out, so that the page stays within {} MB; drives with more I/Os have theirs.",
                MAX_PAGE_SIZE / 1_000_000
            )),
        });
    if figures.slowest.is_empty() || !extent.drawn {
        return section;
    }
    let most = extent.resolution.of(SLOWEST, MIN_SLOWEST);
    let since = |at| extent.time.since(at as f64);
    let (caption, table) =
        slowest_page::table(&figures.slowest, (&figures.described, limit.as_ref()), since, most);
    let times = slowest_page::times(&figures.slowest, since, most, &figures.described.name);
    section.with(Block::Table(caption, table)).with(Block::Ios(times))
}

/// I/Os that a failure of the machine has cut off, in a sentence.
fn cut_off(cut: u64) -> String {
    let [were, they] = match cut {
        1 => ["was", "It has no end, no latency and no row, and is"],
        _ => ["were", "They have no end, no latency and no row, and are"],
    };
    let ios = verdict::counted(cut, "I/O", "I/Os");
    format!("{ios} {were} under way when the machine failed. {they} in no figure of this page.")
}

/// An operation that a drive was used for.
pub(super) type Used<'a> = (Operation, &'a OperationSummary);

fn percentiles(used: &[Used<'_>], kind: Kind) -> Table {
    let mut table = Table::new(vec![Column::left("")]);
    // The percentiles that the I/Os of one operation at least carry.
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
        let once = kind == Kind::Simulation || figures.target_ns == figures.delivered_ns;
        let columns: &[&str] = match (kind, once) {
            (Kind::Simulation, _) => &["latency"],
            (_, true) => &["target = delivered"],
            (_, false) => &["target", "delivered", "error"],
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
            if once {
                cells.truncate(1);
            }
            row.extend(cells);
        }
    }
    table
}

fn plots(
    used: &[Used<'_>],
    of_drive: &DriveSummary,
    statistics: &DriveStatistics,
    extent: Extent,
) -> Vec<Markup> {
    let slowest = &of_drive.slowest;
    let Extent { kind, time: of_run, points, resolution, .. } = extent;
    let statistics_of = |operation: Operation| &statistics.operations[operation as usize];
    let latency = || Axis::new("Latency", Scale::Log, Quantity::Time);
    let time = || of_run.axis();
    let since = |at: f64| of_run.since(at).max(0.0);
    let curves: Vec<_> = used
        .iter()
        .flat_map(|(operation, figures)| {
            let [target, mut delivered] =
                curves(*operation, figures, statistics_of(*operation), resolution);
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
        statistics_of(*operation).over_time.is_complete() && figures.count <= points as u64
    });
    let clouds: Vec<_> = used
        .iter()
        .map(|(operation, _)| {
            cloud(*operation, &statistics_of(*operation).over_time.at_most(points), since)
        })
        .collect();
    let collections = collections(of_drive, &clouds, extent);
    let slow: Vec<_> = slowest.iter().map(point).collect();
    let slow = ScatterSeries {
        name: "the slowest".to_owned(),
        colour: SLOWEST_COLOUR,
        ..cloud(Operation::Read, &slow, since)
    };
    let marked = slowest.len() < used.iter().map(|(_, figures)| figures.count as usize).sum();
    let over_time = Scatter {
        title: format!(
            "{} over time: {}",
            if kind == Kind::Simulation { "Latency" } else { "Delivered latency" },
            if complete { "every I/O" } else { "a sample with the extremes" }
        ),
        x: time(),
        y: latency(),
        // Others are drawn where there are some.
        series: clouds.into_iter().chain(marked.then_some(slow)).chain(collections).collect(),
    };
    let mut plots =
        vec![cdf("Distribution of latency", false), cdf("Its upper tail", true), over_time.draw()];
    let parts = resolution.of(PARTS, MIN_POINTS);
    let courses: Vec<_> = used
        .iter()
        .map(|(operation, _)| statistics_of(*operation).over_time.course(parts))
        .collect();
    let mut course = |title: &str, y: Axis, curve: fn(&Course) -> &Curve| {
        let line = |((operation, _), course): (&Used<'_>, &Course)| Line {
            name: operation.name().to_owned(),
            colour: *operation as usize,
            stroke: Stroke::Thin,
            points: curve(course).iter().map(|(at, value)| (since(*at), *value)).collect(),
        };
        let is_rate = y.quantity == Quantity::Bandwidth;
        let lines = used.iter().zip(&courses);
        let lines = lines.filter(|((operation, _), _)| !is_rate || operation.has_bandwidth());
        let lines = lines.map(line);
        let lines = lines.filter(|line| line.points.iter().any(|(_, value)| *value > 0.0));
        let lines: Vec<_> = lines.collect();
        if !lines.is_empty() {
            let title = format!("{title}{}", ranges(&lines, y.quantity));
            plots.push(Lines { title, x: time(), y, lines }.draw());
        }
    };
    let axis = |label: &str, quantity| Axis::new(label, Scale::FromZero, quantity);
    let [rate, bandwidth] = match kind {
        Kind::Server => ["I/Os per second", "Bytes per second"],
        _ => ["I/Os per second of virtual time", "Bytes per second of virtual time"],
    };
    let rate = format!("{rate}{}", steps(&courses));
    course(&rate, axis("Completed I/Os", Quantity::Number("/s")), |c| &c.rate);
    course(bandwidth, axis("Bandwidth", Quantity::Bandwidth), |c| &c.bandwidth);
    let depth = axis("I/Os in flight, mean", Quantity::Number(""));
    course("Queue depth over time", depth, |c| &c.depth);
    // Flash has its own section.
    if let Some(Inside::Commands { latency, .. }) = &of_drive.inside {
        plots.push(means_page::latency(latency));
    }
    plots
}

/// The lengths of the parts of courses: `, in steps of 4 ms`.
fn steps(courses: &[Course]) -> String {
    let steps = || courses.iter().map(|course| course.step).filter(|step| *step > 0.0);
    let ends = (steps().min_by(f64::total_cmp), steps().max_by(f64::total_cmp));
    match ends {
        (Some(least), Some(most)) if least < most => {
            format!(", in steps of {} to {}", units::duration(least), units::duration(most))
        }
        (Some(step), _) => format!(", in steps of {}", units::duration(step)),
        (None, _) => String::new(),
    }
}

/// The least and the most of each line: ` (read 10 to 40 MB/s)`.
fn ranges(lines: &[Line], quantity: Quantity) -> String {
    let range = |line: &Line| {
        let values = || line.points.iter().map(|point| point.1);
        let (least, most) = (values().min_by(f64::total_cmp)?, values().max_by(f64::total_cmp)?);
        Some(format!("{} {} to {}", line.name, quantity.show(least), quantity.show(most)))
    };
    let ranges: Vec<_> = lines.iter().filter_map(range).collect();
    match ranges.is_empty() {
        true => String::new(),
        false => format!(" ({})", ranges.join(", ")),
    }
}

/// The steps of time in which a flash drive collected blocks, as marks below all I/Os.
fn collections(
    figures: &DriveSummary,
    clouds: &[ScatterSeries],
    extent: Extent,
) -> Option<ScatterSeries> {
    let flashes = figures.inside.as_ref()?.flashes(&figures.described.name);
    let lowest = clouds.iter().flat_map(|cloud| &cloud.points).map(|point| point.1);
    let lowest = lowest.min_by(f64::total_cmp)?;
    let of_flash = |(_, flash): &(String, &FlashInside)| {
        let course = &flash.course;
        let middle = |step: usize| extent.time.since((step as f64 + 0.5) * course.step as f64);
        let steps = course.collections.iter().enumerate().filter(|(_, blocks)| **blocks > 0);
        steps.map(|(step, blocks)| (middle(step), *blocks as f64)).collect::<Vec<_>>()
    };
    let steps = flashes.iter().flat_map(of_flash);
    let mut steps: Vec<_> = steps.filter(|(at, _)| extent.time.holds(*at)).collect();
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    let steps = thinned(&steps, extent.resolution.of(PARTS, MIN_POINTS));
    (!steps.is_empty()).then(|| ScatterSeries {
        name: "collections".to_owned(),
        colour: COLLECTIONS_COLOUR,
        points: steps.iter().map(|(at, _)| (*at, lowest * BELOW)).collect(),
        details: vec![Detail {
            name: "blocks collected around then",
            quantity: Quantity::Number(""),
            values: steps.iter().map(|(_, blocks)| *blocks).collect(),
        }],
        is_of_times: true,
    })
}

/// One of the slowest I/Os as a point of the plot over time.
fn point(io: &SlowIo) -> Point {
    let &SlowIo { order, lba, bytes, delivered_ns, .. } = io;
    Point { at: delivered_ns, latency: io.latency(), offset: lba * BLOCK, bytes, order }
}

/// The I/Os of an operation, each with the details that distinguish it.
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
        is_of_times: false,
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
        // A mark stands for a percentile that the I/Os carry. The script shows percentiles without
        // marks.
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
        points: thinned(points, resolution.of(PLACES, MIN_POINTS)),
        marks,
    };
    [
        curve(
            "target",
            Stroke::Band,
            &statistics.latencies.target().curve(),
            marks(&figures.target_ns),
        ),
        curve(
            "delivered",
            Stroke::Thin,
            &statistics.latencies.delivered.curve(),
            marks(&figures.delivered_ns),
        ),
    ]
}
