//! `report.html`: the page of one run.

mod causes;
mod drive;
mod kind;
mod machine;
mod terms;
mod verdict;

use serde_json::Value;

use crate::cluster::{self, Cluster};
use crate::page::{Block, Page, Resolution, Section};
use crate::profile::Profile;
use crate::{faults_page, flash_page, jobs_page, networks_page, shared_page, thresholds_page};
use drive::{Extent, MIN_POINTS};
use kind::Kind;
pub(crate) use kind::Time;
use stasis_results::so_far::RUNNING;
use stasis_results::statistics::DriveStatistics;
use stasis_results::summary::{DriveSummary, Summary};
use stasis_results::{limit_of, units};

/// I/Os that the plots over time of one page have at most, all together, and those of a
/// series at least; in the coarsest resolution as many as [`MIN_POINTS`].
const POINTS: usize = 16 << 10;
const MIN_OVER_TIME_POINTS: usize = 128;

/// The page in some resolution, with what several machines did, and the profile of the processors.
/// Its times begin at `begin`, the command's start (ns).
pub(crate) fn page(
    summary: &Summary,
    drives: &[DriveStatistics],
    (cluster, profile): (Option<&Cluster>, Option<&Profile>),
    begin: u64,
    resolution: Resolution,
) -> Page {
    let kind = Kind::of(summary);
    let time = Time::of(summary, drives, kind, begin);
    let answer = cluster.map(|cluster| cluster::Answer::of(cluster, summary, &time));
    let of_cluster = answer.is_some();
    let head = Some(verdict::head(summary, kind, &time, answer));
    // The tenants of a shared drive come first: who got what, and who suffered when.
    let mut sections = shared_page::sections(summary, &time, resolution);
    sections.extend(thresholds_page::section(summary));
    sections.extend(faults_page::section(summary, begin));
    sections.extend(cluster::sections(cluster, summary, &time, resolution));
    sections.extend(networks_page::sections(summary));
    let (caption, table) = verdict::drives(summary, kind);
    if of_cluster && !table.rows.is_empty() {
        sections.push(Section::new("Drives").with(Block::Table(caption, table)));
    }
    sections.extend(causes::section(summary));
    let series = summary.drives.iter().flat_map(DriveSummary::used).count();
    let points = (resolution.of(POINTS, 0) / series.max(1))
        .max(resolution.of(MIN_OVER_TIME_POINTS, MIN_POINTS));
    let drawn = drawn(summary, resolution);
    for ((figures, statistics), drawn) in summary.drives.iter().zip(drives).zip(drawn) {
        let extent = Extent { kind, time, points, resolution, drawn };
        let name = &figures.described.name;
        sections.push(drive::section(figures, statistics, extent, limit_of(summary, name)));
        sections.extend(flash_page::sections(figures, &time, resolution, drawn));
    }
    sections.extend(jobs_page::section(summary));
    sections.extend(profile.map(|profile| profile.section(begin, resolution)));
    if kind == Kind::Guest {
        sections.push(machine::costs(summary).folded());
        sections.extend(machine::processors(summary, &time, resolution).map(Section::folded));
    }
    let figures = Section::new("More figures").with(Block::Facts(facts(summary, kind)));
    sections.push(figures.folded());
    let terms = Section::new("How to read this").with(Block::Terms(terms::terms(summary, kind)));
    sections.push(terms.folded());
    sections.extend(provenance(summary).map(Section::folded));
    let ended = match summary.ending.as_str() {
        "exited" if kind == Kind::Server => {
            "Drives in real time, by the server's clock.".to_owned()
        }
        "exited" if kind == Kind::Simulation => "A simulation without a guest.".to_owned(),
        "exited" => format!("The command ended with status {}.", summary.exit_status),
        RUNNING => {
            format!("The run goes on: {}.", summary.message.as_deref().unwrap_or_default())
        }
        other => {
            let message = summary.message.as_deref().unwrap_or_default();
            let whole = format!("The run did not end with its command: {other}: {message}");
            format!("{}.", whole.trim_end_matches([':', ' ', '.']))
        }
    };
    let (title, script) = title(summary);
    if let Some(script) = script {
        let script = Section::new("The command").with(Block::Details("All of it".into(), script));
        sections.push(script.folded());
    }
    Page { title, subtitle: ended, head, sections }
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

/// Characters of a title that is a command.
const TITLE: usize = 80;

/// The title, and the command where that is too long for one, as a script is.
fn title(summary: &Summary) -> (String, Option<String>) {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    let command = summary.extra.get("command").and_then(text).filter(|text| !text.is_empty());
    let own = summary.extra.get("title").and_then(text).filter(|title| !title.is_empty());
    let whole = own.or_else(|| command.clone());
    let whole = whole.unwrap_or_else(|| "A run on modelled drives".to_owned());
    let line = whole.trim().lines().next().unwrap_or_default();
    let title = match line.char_indices().nth(TITLE) {
        // At the end of a word.
        Some((end, _)) => {
            let end = line[..end].rfind(' ').unwrap_or(end);
            format!("{} …", line[..end].trim_end())
        }
        None if line.len() < whole.trim().len() => format!("{line} …"),
        None => line.to_owned(),
    };
    let script = command.filter(|command| *command != title);
    (title, script)
}

fn facts(summary: &Summary, kind: Kind) -> Vec<(String, String)> {
    let seconds = |seconds: f64| units::duration(seconds * 1e9);
    let largest_error = |percent| ("Largest error, p1 to p99.9", units::deviation(percent));
    let virtual_time = ("Virtual time", seconds(summary.virtual_seconds));
    let wall_clock = ("Wall-clock time", seconds(summary.wall_seconds));
    let speed = (summary.wall_seconds > 0.0).then(|| {
        let times = summary.virtual_seconds / summary.wall_seconds;
        ("Virtual per wall-clock", format!("{} ×", units::significant(times, 3)))
    });
    let mut facts = vec![("Engine", summary.engine.clone()), ("I/Os", units::count(summary.ios()))];
    match kind {
        Kind::Server => facts.extend([
            largest_error(served_error(summary)),
            ("Served for", seconds(summary.wall_seconds)),
        ]),
        Kind::Simulation => {
            let rate = ("I/Os a second", units::significant(summary.iops(), 4));
            facts.extend([rate, virtual_time, wall_clock].into_iter().chain(speed));
        }
        Kind::Guest => {
            let error = largest_error(summary.max_error_percent());
            facts.extend([error, virtual_time, wall_clock].into_iter().chain(speed));
            facts.extend(machine::facts(summary));
        }
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The largest error of the served I/Os, without operations that are too few to have one: less than
/// one of a hundred I/Os of their drive.
fn served_error(summary: &Summary) -> Option<f64> {
    let errors = summary.drives.iter().flat_map(|drive| {
        let all: u64 = drive.used().map(|(_, used)| used.count).sum();
        let often = drive.used().filter(move |(_, used)| used.count >= all.div_ceil(100));
        often.filter_map(|(_, used)| used.max_error_percent)
    });
    errors.max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// The provenance of the run, and the drives' models with their parameters.
fn provenance(summary: &Summary) -> Option<Section> {
    let mut fields = summary.extra.clone();
    fields.insert("engine".into(), summary.engine.clone().into());
    let mut section = crate::provenance(&fields)?;
    for drive in summary.drives.iter().filter(|drive| !drive.described.parameters.is_null()) {
        let title = format!("The model of {}", drive.described.name);
        // Parameters that were read from JSON can be written as JSON.
        let text = serde_json::to_string_pretty(&drive.described.parameters).unwrap_or_default();
        section = section.with(Block::Details(title, text));
    }
    Some(section)
}
