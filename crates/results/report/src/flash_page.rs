//! The part of `report.html` about a flash SSD's inside.

use serde_json::Value;
use stasis_block::inside::{DataAge, FlashInside, Usages};

use crate::means_page::{bar, latency};
use crate::page::{thinned, Block, Resolution, Section};
use crate::plot::{Axis, Bars, Heat, Line, Lines, Markup, Quantity, Scale, Stroke};
use crate::run_page::Time;
use crate::table::{Column, Table};
use stasis_results::summary::DriveSummary;
use stasis_results::{units, Changes};

/// Least share of reads of data that was never written that is reported.
const NOTABLE: f64 = 0.01;
/// Points of a line over time at most, and in the coarsest resolution.
const STEPS: usize = 128;
const MIN_STEPS: usize = 12;
/// Over-provisioning is reported from this multiple of the requested one on.
const ROOMIER: f64 = 1.2;

/// The flash SSDs of a drive with their names: one, or one of each part.
fn flashes(figures: &DriveSummary) -> Vec<(String, &FlashInside)> {
    let inside = figures.inside.as_ref();
    inside.map_or(Vec::new(), |inside| inside.flashes(&figures.described.name))
}

/// The section of a drive whose model is a flash SSD's, or of each of its parts; without `plots` their
/// figures only.
pub(crate) fn sections(
    figures: &DriveSummary,
    time: &Time,
    resolution: Resolution,
    plots: bool,
) -> Vec<Section> {
    let flashes = flashes(figures).into_iter();
    // Parts are described together.
    let described =
        std::iter::once(figures.described.changes.as_ref()).chain(std::iter::repeat(None));
    let section = |(flash, changes): ((String, &FlashInside), Option<&Changes>)| {
        section(&flash, changes, (time, resolution), plots)
    };
    flashes.zip(described).map(section).collect()
}

fn section(
    (name, inside): &(String, &FlashInside),
    changes: Option<&Changes>,
    (time, resolution): (&Time, Resolution),
    plots: bool,
) -> Section {
    let mut section = Section::new(format!("Inside {name}"));
    for text in remarks_on(name, inside) {
        section = section.with(Block::Prose(text));
    }
    section = section.with(Block::Facts(facts(inside)));
    section = match changes {
        Some(Changes { from, keys }) if keys.is_empty() => {
            section.with(Block::Prose(format!("Its parameters are those of {from}.")))
        }
        Some(changes) => {
            let caption = format!("Parameters that differ from those of {}.", changes.from);
            section.with(Block::Table(caption, differing(changes)))
        }
        None => section,
    };
    if plots {
        let mut plots = courses(inside, time, resolution);
        plots.extend([
            latency(&inside.latency),
            operations(inside),
            usage(
                ["channel", "Channels: share of time in use"],
                &inside.channels,
                time,
                resolution,
            ),
            usage(["LUN", "LUNs: share of time at work"], &inside.luns, time, resolution),
            wear(inside),
        ]);
        section = section.with(Block::Plots(plots));
    }
    section.with(Block::Terms(terms(inside)))
}

/// Each parameter that differs, here and there.
fn differing(changes: &Changes) -> Table {
    let columns = ["here".to_owned(), changes.from.clone()].map(Column::right);
    let mut table = Table::new([Column::left("parameter")].into_iter().chain(columns).collect());
    let shown = |value: &Value| match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for (key, [there, here]) in &changes.keys {
        table.push(vec![key.clone(), shown(here), shown(there)]);
    }
    table
}

/// Remarks that a reader of a drive's figures needs first.
pub(crate) fn remarks(figures: &DriveSummary) -> Vec<String> {
    flashes(figures).iter().flat_map(|(name, inside)| remarks_on(name, inside)).collect()
}

fn remarks_on(name: &str, inside: &FlashInside) -> Vec<String> {
    let remarks = [unwritten(name, inside), roomier(name, inside)];
    remarks.into_iter().flatten().collect()
}

/// A remark on the worth of the figures of a drive's reads, if many reads met units that were never
/// written.
fn unwritten(name: &str, inside: &FlashInside) -> Option<String> {
    let share = inside.unwritten_units as f64 / inside.read_units.max(1) as f64;
    let advice = match inside.ftl.get("zone_bytes") {
        Some(_) => "Zones begin empty: write them first.",
        None => "Write it first, or leave `precondition` at \"sequential\".",
    };
    (share >= NOTABLE).then(|| {
        format!(
            "{name}: {} % of what was read had never been written, or was discarded; the drive answers such reads \
             without its cells. {advice}",
            units::significant(100.0 * share, 3)
        )
    })
}

/// A remark on a drive that has more over-provisioning than was asked for.
fn roomier(name: &str, inside: &FlashInside) -> Option<String> {
    let (has, asked) = (inside.over_provisioning, inside.asked_over_provisioning);
    let share = |share: f64| units::significant(100.0 * share, 3);
    (has > ROOMIER * (asked + 0.01)).then(|| {
        format!(
            "{name}: the array has {} % over-provisioning, the least that its geometry needs at this size, in place of {} %. \
             It collects less garbage than a larger drive of its kind. Fewer planes, fewer pages of a block or \
             a larger drive allow for less over-provisioning.",
            share(has),
            share(asked)
        )
    })
}

/// The array's parts, where the results have them.
fn array(inside: &FlashInside) -> Vec<(&'static str, String)> {
    let Some(g) = &inside.geometry else { return Vec::new() };
    let effective = inside.effective_over_provisioning;
    let parts = format!("{} × {} × {} × {} × {}", g.channels, g.luns, g.planes, g.blocks, g.pages);
    [
        ("Channels × LUNs × planes × blocks × pages", parts),
        ("Size of a page", units::bytes(g.page_size.into())),
        ("Size of a mapping unit", units::bytes(inside.unit.into())),
        (
            "Over-provisioning",
            format!("{} %", units::significant(100.0 * inside.over_provisioning, 3)),
        ),
    ]
    .into_iter()
    .chain(effective.map(|share| {
        ("Over-provisioning, effective", format!("{} %", units::significant(100.0 * share, 3)))
    }))
    .collect()
}

fn facts(inside: &FlashInside) -> Vec<(String, String)> {
    let health = &inside.health;
    let facts = [
        ("Write amplification", units::significant(inside.write_amplification, 4)),
        ("Written by the host", units::bytes(inside.host_bytes)),
        ("Programmed to the media", units::bytes(inside.media_bytes)),
        ("Of this, padding of units", units::bytes(inside.unit_padding)),
        ("Of this, padding of pages", units::bytes(inside.page_padding)),
        ("Units the host read", units::count(inside.read_units)),
        ("Of these, never written", units::count(inside.unwritten_units)),
        ("Units the host wrote", units::count(inside.host_units)),
        ("Units programmed for it", units::count(inside.programmed_units)),
        ("Units relocated", units::count(inside.moved_units)),
        ("Blocks collected", units::count(inside.collections)),
        ("Duration of a collection, mean", units::duration(inside.collection_time)),
        ("Spare left", format!("{} %", health.available_spare)),
        (
            "Endurance used",
            match health.percentage_used {
                0 if inside.media_bytes > 0 => "less than 1 %".to_owned(),
                used => format!("{used} %"),
            },
        ),
    ];
    let caches = read_cache(inside)
        .into_iter()
        .chain(slc_cache(inside))
        .chain(scrubbing(inside))
        .chain(padding(inside));
    let facts = array(inside).into_iter().chain(facts).chain(caches);
    facts.map(|(name, value)| (name.to_owned(), value)).chain(ecc(inside)).collect()
}

/// Blocks that scrubbing moved, if it looked for them.
fn scrubbing(inside: &FlashInside) -> Vec<(&'static str, String)> {
    if inside.refreshes + inside.scrub_reads == 0 {
        return Vec::new();
    }
    vec![
        ("Blocks that scrubbing moved", units::count(inside.refreshes)),
        ("Pages that scrubbing read", units::count(inside.scrub_reads)),
    ]
}

/// Empty pages that filled up word lines, if there were any.
fn padding(inside: &FlashInside) -> Option<(&'static str, String)> {
    let pages = inside.line_padding;
    (pages > 0).then(|| ("Empty pages that filled up word lines", units::count(pages)))
}

/// The steps of the correction of bit errors, if there are any.
fn ecc(inside: &FlashInside) -> Vec<(String, String)> {
    let Some(ecc) = &inside.ecc else { return Vec::new() };
    let step = |(step, &reads): (usize, &u64)| {
        (format!("Reads of pages that step {step} corrected"), units::count(reads))
    };
    let steps = (1..).zip(&ecc.decoded).map(step);
    let lost = ("Reads of pages that gave no data".to_owned(), units::count(ecc.uncorrectable));
    steps.chain([lost]).collect()
}

/// The read cache, if the drive has one.
fn read_cache(inside: &FlashInside) -> Vec<(&'static str, String)> {
    let Some(cache) = &inside.read_cache else { return Vec::new() };
    vec![
        ("Room of the read cache", units::bytes(cache.room)),
        ("Units read that were in it", units::count(cache.hit_units)),
        ("Units read that were on their way to it", units::count(cache.waited_units)),
        ("Units read that were not in it", units::count(cache.missed_units)),
        ("Units read ahead", units::count(cache.ahead_units)),
    ]
}

/// The SLC cache, if the drive has one.
fn slc_cache(inside: &FlashInside) -> Vec<(&'static str, String)> {
    let Some(cache) = &inside.slc_cache else { return Vec::new() };
    vec![
        ("Units programmed for the host in the SLC cache", units::count(cache.cached_units)),
        ("Units programmed for the host past it", units::count(cache.direct_units)),
        ("Units folded out of it", units::count(cache.folded_units)),
        ("Blocks of it folded", units::count(cache.folds)),
        ("Duration of a fold, mean", units::duration(cache.fold_time)),
        ("Valid data in it at the end", units::bytes(cache.valid_bytes)),
    ]
}

fn operations(inside: &FlashInside) -> Markup {
    let bars = inside.operations.iter().map(|(kind, count)| {
        bar(
            kind,
            &[
                ("for the host", count.host as f64),
                ("in the background", count.housekeeping as f64),
            ],
        )
    });
    Bars {
        title: "Operations of the array".to_owned(),
        axis: Axis::new("Operations", Scale::Linear, Quantity::Number("")),
        stacked: true,
        bars: bars.collect(),
    }
    .draw()
}

/// Writes and collections over time; nothing where the results have none.
fn courses(inside: &FlashInside, time: &Time, resolution: Resolution) -> Vec<Markup> {
    let course = &inside.course;
    let step = course.step as f64;
    let line = |values: Vec<(usize, f64)>, middle: f64| -> Vec<(f64, f64)> {
        let at =
            |number: usize| time.since(((number as f64 + middle) * step).min(inside.at as f64));
        let points = values.into_iter().map(|(number, value)| (at(number), value));
        let shown: Vec<_> = points.filter(|(at, _)| time.holds(*at)).collect();
        thinned(&shown, resolution.of(STEPS, MIN_STEPS))
    };
    // The mean over a step stands in its middle; what is so at its end stands there.
    let free = course.free_blocks.iter().map(|free| *free as f64).enumerate();
    // Rates of each step; the last one is not a whole one.
    let length = |number: usize| (inside.at as f64 - number as f64 * step).clamp(1.0, step);
    let rates = |values: &[u64]| {
        let rate =
            |(number, value): (usize, &u64)| (number, *value as f64 / (length(number) / 1e9));
        line(values.iter().enumerate().map(rate).collect(), 0.5)
    };
    let collected = rates(&course.collections);
    let programmed = written_over_time(rates(&course.host_bytes), rates(&course.media_bytes), time);
    let effective = course.effective_over_provisioning().enumerate();
    let effective = effective.filter_map(|(number, share)| Some((number, share?)));
    let effective = line(effective.collect(), 1.0);
    let ends = [effective.first(), effective.last()].map(|end| end.copied());
    let spare = match ends {
        [Some(first), Some(last)] => {
            let configured = [first, last].map(|(at, _)| (at, inside.over_provisioning));
            Some(over_provisioning(effective, configured.into(), time))
        }
        _ => None,
    };
    let wear = wear_over_time(
        line(course.mean_erases.iter().copied().enumerate().collect(), 1.0),
        line(course.most_erases.iter().map(|most| f64::from(*most)).enumerate().collect(), 1.0),
        time,
    );
    let ages = course.data_ages.iter().enumerate().map(|(colour, age)| Line {
        name: age_of(age),
        colour,
        stroke: Stroke::Thin,
        points: line(age.bytes.iter().map(|bytes| *bytes as f64).enumerate().collect(), 1.0),
    });
    let ages = ages_over_time(ages.filter(|line| !line.points.is_empty()).collect(), time);
    let cached = course.cached_bytes.iter().map(|bytes| *bytes as f64).enumerate();
    let cached = cache_over_time(line(cached.collect(), 1.0), time);
    let plots = [
        ("Free blocks over time", "Free blocks", "", line(free.collect(), 1.0)),
        ("Collections over time", "Blocks collected", "/s", collected),
    ];
    let drawn = plots.into_iter().filter(|(.., points)| points.iter().any(|point| point.1 > 0.0));
    drawn
        .map(|(title, label, unit, points)| {
            let name = title.trim_end_matches(" over time").to_lowercase();
            let line = Line { name, colour: 0, stroke: Stroke::Thin, points };
            let y = Axis::new(label, Scale::FromZero, Quantity::Number(unit));
            Lines { title: title.to_owned(), x: time.axis(), y, lines: vec![line] }.draw()
        })
        .chain(programmed)
        .chain(cached)
        .chain(spare)
        .chain(ages)
        .chain(wear)
        .collect()
}

/// Bytes that were programmed beside those that the host wrote, over time: a ratio of the two has no value in
/// a step in which the drive collects and the host writes nothing. Nothing where none were programmed.
fn written_over_time(host: Vec<(f64, f64)>, media: Vec<(f64, f64)>, time: &Time) -> Option<Markup> {
    let is_used = media.iter().any(|point| point.1 > 0.0);
    let lines = [("programmed", media), ("written by the host", host)].into_iter().enumerate();
    let lines = lines.map(|(colour, (name, points))| Line {
        name: name.to_owned(),
        colour,
        stroke: Stroke::Thin,
        points,
    });
    is_used.then(|| {
        Lines {
            title: "Programmed, and written by the host, over time".to_owned(),
            x: time.axis(),
            y: Axis::new("Bandwidth", Scale::FromZero, Quantity::Bandwidth),
            lines: lines.collect(),
        }
        .draw()
    })
}

/// Valid data in the SLC cache; none where there never was any.
fn cache_over_time(points: Vec<(f64, f64)>, time: &Time) -> Option<Markup> {
    points.iter().any(|point| point.1 > 0.0).then(|| {
        let line =
            Line { name: "in the SLC cache".to_owned(), colour: 0, stroke: Stroke::Thin, points };
        Lines {
            title: "SLC cache over time".to_owned(),
            x: time.axis(),
            y: Axis::new("Valid data", Scale::FromZero, Quantity::Bytes),
            lines: vec![line],
        }
        .draw()
    })
}

/// A class of age in words.
fn age_of(age: &DataAge) -> String {
    match (age.from, age.to) {
        (0, Some(to)) => format!("less than {}", units::bytes(to)),
        (from, Some(to)) => format!("{} to {}", units::bytes(from), units::bytes(to)),
        (from, None) => format!("{} and more", units::bytes(from)),
    }
}

/// Valid data by its age; none where the host wrote nothing.
fn ages_over_time(lines: Vec<Line>, time: &Time) -> Option<Markup> {
    (!lines.is_empty()).then(|| {
        Lines {
            title: "Temperature of data over time: valid data by what the host wrote since"
                .to_owned(),
            x: time.axis(),
            y: Axis::new("Valid data", Scale::FromZero, Quantity::Bytes),
            lines,
        }
        .draw()
    })
}

/// Erases of the blocks, the mean and the most; none where nothing was erased.
fn wear_over_time(mean: Vec<(f64, f64)>, most: Vec<(f64, f64)>, time: &Time) -> Option<Markup> {
    let line =
        |name: &str, colour, stroke, points| Line { name: name.to_owned(), colour, stroke, points };
    most.iter().any(|(_, erases)| *erases > 0.0).then(|| {
        Lines {
            title: "Wear over time: erases of a block since the start".to_owned(),
            x: time.axis(),
            y: Axis::new("Erases of a block", Scale::FromZero, Quantity::Number("")),
            lines: vec![
                line("mean of all blocks", 0, Stroke::Thin, mean),
                line("the most erased block", 1, Stroke::Dashed, most),
            ],
        }
        .draw()
    })
}

/// The flash that holds nothing valid, beside what there is beyond the capacity.
fn over_provisioning(
    effective: Vec<(f64, f64)>,
    configured: Vec<(f64, f64)>,
    time: &Time,
) -> Markup {
    let line =
        |name: &str, colour, stroke, points| Line { name: name.to_owned(), colour, stroke, points };
    Lines {
        title: "Over-provisioning over time".to_owned(),
        x: time.axis(),
        y: Axis::new("Over-provisioning", Scale::FromZero, Quantity::Share),
        lines: vec![
            line("effective", 0, Stroke::Thin, effective),
            line("beyond the capacity", 1, Stroke::Dashed, configured),
        ],
    }
    .draw()
}

fn usage([row, title]: [&str; 2], usages: &Usages, time: &Time, resolution: Resolution) -> Markup {
    Heat {
        title: title.to_owned(),
        row: row.to_owned(),
        x: time.axis(),
        width: usages.bucket as f64,
        origin: time.since(0.0),
        values: usages.busy.clone(),
    }
    .draw_in(resolution)
}

fn wear(inside: &FlashInside) -> Markup {
    let bars = inside.wear.iter().map(|level| {
        let label = match level.from == level.to {
            true => level.from.to_string(),
            false => format!("{} to {}", level.from, level.to),
        };
        bar(&label, &[("", level.blocks as f64)])
    });
    Bars {
        title: "Wear: blocks by how often they were erased".to_owned(),
        axis: Axis::new("Blocks", Scale::Linear, Quantity::Number("")),
        stacked: false,
        bars: bars.collect(),
    }
    .draw()
}

/// The term of drives with an SLC cache.
const SLC_CACHE: (&str, &str) = (
    "SLC cache",
    "blocks whose cells hold one bit each, which the host's writes go to first. To fold is to move their data into blocks \
     of the usual cells, and to erase them: while the host is silent, and where writes wait for room. What writes wait \
     for is a part of \"buffer full behind a collection\".",
);

fn terms(inside: &FlashInside) -> Vec<(String, String)> {
    let terms = [
        (
            "Write amplification",
            "bytes programmed to the media for each byte that the host wrote. The media is programmed in whole pages, which hold whole \
             mapping units: the padding of units is what the host left out of a unit that it wrote in part, the padding of pages \
             what a page has left over when a write through, a flush or a collection ends it. What is still in the write buffer \
             has not been programmed yet.",
        ),
        (
            "Over-provisioning, effective",
            "flash that holds nothing valid, by what is valid: room for collections. It is more than what lies beyond the \
             capacity while the host has not written all of the drive or has discarded some of it, and less where blocks were \
             given up or a map lies in flash.",
        ),
        (
            "Temperature of data",
            "the age of valid data, counted in what the host wrote to the drive since it wrote the data last: what is young is hot, \
             as it was changed lately. Collections move cold data again and again where it lies beside hot data. Data from before \
             the start has no age and is not drawn.",
        ),
        (
            "Where the time went",
            "of each command: the link and the controller; waiting for room in the write buffer, while the host's data is \
             programmed (buffer full) or while that is held up by garbage collection (buffer full behind a collection); of \
             the operation that ended the command and those before it: waiting for a plane or channel that has \
             another read or a write of the host's (behind reads, behind writes; of a flush, for all programs \
             before it), waiting for garbage collection and wear levelling (collection), the cells at work, the cache register, and the \
             transfer on the channel. Of operations at the same time the last to end counts.",
        ),
    ];
    let cache = inside.slc_cache.map(|_| SLC_CACHE);
    let terms = terms.into_iter().chain(cache);
    terms.map(|(term, text)| (term.to_owned(), text.to_owned())).collect()
}
