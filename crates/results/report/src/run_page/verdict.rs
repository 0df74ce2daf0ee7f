//! The head of a run's page, with all drives in its table.

use serde_json::Value;
use stasis_block::inside::Inside;
use stasis_block::Operation;

use super::causes;
use super::kind::{Kind, Time};
use crate::cluster;
use crate::page::Head;
use crate::table::{Column, Table};
use crate::verdict::{Busiest, End, Precision, Run, Tenants, Verdict};
use crate::{several, shared_page, text, thresholds_page, Repeat};
use stasis_results::so_far::RUNNING;
use stasis_results::summary::{DriveSummary, OperationSummary, Summary};
use stasis_results::units;

/// The head of the page.
pub(super) fn head(
    summary: &Summary,
    kind: Kind,
    time: &Time,
    answer: Option<cluster::Answer>,
) -> Head {
    let seconds = |seconds: f64| units::duration(seconds * 1e9);
    let tiles = match kind {
        Kind::Server => {
            [("Served for", seconds(summary.wall_seconds)), ("I/Os", units::count(summary.ios()))]
        }
        _ => [
            ("Virtual time", seconds(summary.virtual_seconds)),
            ("Wall-clock time", seconds(summary.wall_seconds)),
        ],
    };
    let machines = answer.as_ref().and_then(|answer| answer.verdict.clone());
    let verdict = shared_page::tenants(summary, time, |tenants| {
        run(summary, kind, machines, tenants).verdict()
    });
    // What the user asked of the run comes before all that nobody asked.
    let verdict = thresholds_page::facts(summary).before(verdict);
    let (clients, table) = answer.map(|answer| (answer.clients, answer.table)).unzip();
    let (caption, table) = match table {
        Some(table) => (String::new(), table),
        None => drives(summary, kind),
    };
    let mut head = Head::answering(verdict, tiles).with(caption, table);
    head.notes = clients.flatten().into_iter().chain(branch(summary)).collect();
    head.notes.extend(causes::sentences(summary));
    head.notes.extend(ways(summary));
    head.repeat = Repeat::of(&summary.extra);
    let untrusted = |warning: &String| format!("Not to be trusted: {warning}.");
    head.remarks = summary.warnings.iter().map(untrusted).collect();
    head
}

/// Returns the run of which this one is a branch, since when, and the changes.
fn branch(summary: &Summary) -> Option<String> {
    /// Changes that are told; the rest is counted.
    const TOLD: usize = 6;
    let branch = summary.extra.get("branch").filter(|branch| branch.is_object())?;
    let run = match branch.get("of_seed").and_then(Value::as_u64) {
        Some(seed) => format!("the run with seed {seed}"),
        None => "another run".to_owned(),
    };
    let Some(at) = branch.get("at_ns").and_then(Value::as_u64) else {
        return Some(format!("A branch of {run}, which ended before the branch's moment."));
    };
    let none = Vec::new();
    let changes = branch.get("changes").and_then(Value::as_array).unwrap_or(&none);
    let one = |change: &Value| {
        let value = |key: &str| match change.get(key) {
            None | Some(Value::Null) => "none".to_owned(),
            Some(Value::String(word)) => word.clone(),
            Some(value) => value.to_string(),
        };
        format!("{} {} (was {})", value("key"), value("is"), value("was"))
    };
    let mut changed: Vec<String> = changes.iter().take(TOLD).map(one).collect();
    if changes.len() > TOLD {
        changed.push(format!("{} more", changes.len() - TOLD));
    }
    let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
    let at = units::duration(at as f64);
    Some(format!(
        "A branch: for {at} of its commands' time {run}, from there on with {changed} changed."
    ))
}

/// The facts of the run for its verdict.
fn run<'a>(
    summary: &'a Summary,
    kind: Kind,
    cluster: Option<Verdict>,
    tenants: Option<Tenants<'a>>,
) -> Run<'a> {
    let busiest = used(summary).max_by_key(|(.., figures)| figures.count);
    let busiest = busiest.map(|(drive, operation, figures)| Busiest {
        operation,
        drive: &drive.described.name,
        count: figures.count,
        iops: figures.iops,
        bytes_per_second: figures.bytes_per_second,
        p50: figures.delivered_ns.p50,
    });
    let precision = match (kind, summary.max_error_percent()) {
        (Kind::Simulation, _) => Precision::Simulated,
        (_, Some(percent)) => Precision::Within(percent),
        (_, None) => Precision::NoTime,
    };
    let message = summary.message.as_deref().unwrap_or_default();
    Run {
        end: match summary.ending.as_str() {
            "exited" => End::Exited(summary.exit_status),
            RUNNING => End::GoesOn,
            name => End::Other(name, message),
        },
        is_warned: !summary.warnings.is_empty(),
        cluster,
        tenants,
        ios: summary.ios(),
        loads: several::loads(summary).iter().map(|load| load.ios).sum(),
        errors: used(summary).map(|(.., figures)| figures.errors).sum(),
        busiest,
        precision,
    }
}

fn used<'a>(
    summary: &'a Summary,
) -> impl Iterator<Item = (&'a DriveSummary, Operation, &'a OperationSummary)> {
    let with_its =
        |drive: &'a DriveSummary| drive.used().map(move |(name, used)| (drive, name, used));
    summary.drives.iter().flat_map(with_its)
}

/// The part of what hosts saw that was the way's, a sentence for each drive whose way was measured.
fn ways(summary: &Summary) -> impl Iterator<Item = String> + '_ {
    summary.drives.iter().filter_map(|drive| {
        let way = units::duration(drive.way_ns? as f64);
        let parts = drive.used().filter_map(|(operation, figures)| {
            let part = units::significant(figures.way_percent?, 2);
            Some(format!("{part} % of what it saw of a {}", operation.name()))
        });
        let parts = parts.collect::<Vec<_>>().join(", ");
        let name = &drive.described.name;
        let sentence = format!("The host of {name} saw at least {way} more than is delivered here");
        Some(match parts.is_empty() {
            true => format!("{sentence}."),
            false => format!("{sentence}, the way to it: {parts}."),
        })
    })
}

/// Drives of which the caption tells that they have phases.
const MAX_PHASES: usize = 2;
/// From this ratio of a drive's time to that of its reads or its writes on, it has phases.
const PHASES: f64 = 1.1;

/// A sentence about a drive that was not read and written to all the time.
fn phases(drive: &DriveSummary) -> Option<String> {
    let (read, write) = (drive.read.active_seconds, drive.write.active_seconds);
    if drive.read.count.min(drive.write.count) == 0
        || drive.active_seconds < PHASES * read.min(write)
    {
        return None;
    }
    let name = &drive.described.name;
    let [read, write, all] = [read, write, drive.active_seconds].map(|s| units::duration(s * 1e9));
    Some(format!(
        "Of the {all} of {name} its reads are within {read} and its writes within {write}: figures of both together, and of \
         the longer one, are means over phases that differ, which its plots show."
    ))
}

/// All drives and operations, a row each; of shared drives the host's workloads too. With a caption.
pub(super) fn drives(summary: &Summary, kind: Kind) -> (String, Table) {
    let latency = match kind {
        Kind::Guest => "Latency is what the guest got.",
        Kind::Simulation => "Latency is the model's.",
        Kind::Server => "Latency is what the client got.",
    };
    let caption = format!(
        "{latency} Rates are over the time from an operation's first submission to its last completion; reads and \
         writes of a job that mixes them have the whole job's time. Both together are over the time of all I/Os to the \
         drive, so that they are less than the sum where one ended before the other."
    );
    let caption = match several::loads(summary).is_empty() {
        true => caption,
        false => format!(
            "{caption} Workloads of the host have their mean latency only, and rates over the time for which they ran."
        ),
    };
    let sentences = summary.drives.iter().filter_map(phases).take(MAX_PHASES);
    let caption = [caption].into_iter().chain(sentences).collect::<Vec<_>>().join(" ");
    let figures = ["IOPS", "bandwidth", "mean", "p50", "p99", "p99.9", "I/Os", "amount"];
    let named = ["drive", "operation"].map(Column::left);
    let mut table = Table::new(named.into_iter().chain(figures.map(Column::right)).collect());
    let failures = used(summary).any(|(.., figures)| figures.errors > 0);
    table.columns.extend(failures.then(|| Column::right("failed")));
    if kind != Kind::Simulation {
        table.columns.push(Column::right("error"));
    }
    let flash = |drive: &DriveSummary| {
        let inside = drive.inside.as_ref().and_then(Inside::flash)?;
        Some((inside.over_provisioning, inside.effective_over_provisioning))
    };
    let has_flash = summary.drives.iter().any(|drive| flash(drive).is_some());
    if has_flash {
        let columns =
            ["nominal", "effective"].map(|name| Column::right(name).under("over-provisioning"));
        table.columns.extend(columns);
    }
    let provisioning = |drive: &DriveSummary| {
        let share = |share: Option<f64>| {
            share.map_or("–".to_owned(), |share| {
                format!("{} %", units::significant(100.0 * share, 3))
            })
        };
        let (nominal, effective) = flash(drive).unzip();
        let both = [share(nominal), share(effective.flatten())];
        both.into_iter().take(if has_flash { 2 } else { 0 })
    };
    let both = |drive: &&DriveSummary| drive.read.count > 0 && drive.write.count > 0;
    for drive in summary.drives.iter().filter(both) {
        let sum = |amount: fn(&OperationSummary) -> u64| amount(&drive.read) + amount(&drive.write);
        let [count, bytes, errors] =
            [sum(|one| one.count), sum(|one| one.bytes), sum(|one| one.errors)];
        let rate = |amount: u64| amount as f64 / drive.active_seconds.max(1e-9);
        let dash = || "–".to_owned();
        let differ = if phases(drive).is_some() { ", phases differ" } else { "" };
        let mut row = vec![drive.described.name.clone(), format!("read + write{differ}")];
        row.extend([units::significant(rate(count), 4), units::bandwidth(rate(bytes))]);
        row.extend([dash(), dash(), dash(), dash()]);
        row.extend([units::count(count), units::bytes(bytes)]);
        row.extend(failures.then(|| units::count(errors)));
        row.extend((kind != Kind::Simulation).then(dash));
        row.extend(provisioning(drive));
        table.push(row);
    }
    for (drive, operation, figures) in used(summary) {
        let mut row = vec![drive.described.name.clone(), operation.name().to_owned()];
        row.push(units::significant(figures.iops, 4));
        row.push(units::bandwidth_of(operation, figures.bytes_per_second));
        row.extend(text::figures(&figures.delivered_ns, figures.count));
        row.push(units::count(figures.count));
        row.push(units::bytes(figures.bytes));
        row.extend(failures.then(|| units::count(figures.errors)));
        row.extend((kind != Kind::Simulation).then(|| units::deviation(figures.max_error_percent)));
        // It is the drive's, whose first row has it.
        let is_first =
            !both(&drive) && drive.used().next().is_some_and(|(one, _)| one == operation);
        match is_first {
            true => row.extend(provisioning(drive)),
            false => row.resize(table.columns.len(), String::new()),
        }
        table.push(row);
    }
    for load in several::loads(summary) {
        let dash = || "–".to_owned();
        let mut row = vec![load.name.clone(), "all".to_owned()];
        row.push(units::significant(load.ios as f64 / load.seconds.max(1e-9), 4));
        row.push(units::bandwidth(load.bytes_per_second));
        row.extend([units::duration(load.mean_latency_ns as f64), dash(), dash(), dash()]);
        row.extend([units::count(load.ios), units::bytes(load.bytes)]);
        row.extend(failures.then(|| units::count(load.errors)));
        row.resize(table.columns.len(), dash());
        table.push(row);
    }
    (caption, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_tells_where_its_phases_differ() {
        let drive = |read: f64, write: f64, all: f64| {
            let mut drive = DriveSummary { active_seconds: all, ..DriveSummary::default() };
            for (operation, seconds) in [(&mut drive.read, read), (&mut drive.write, write)] {
                operation.active_seconds = seconds;
                operation.count = u64::from(seconds > 0.0);
            }
            drive
        };
        // A phase without writes, one after the other, a mix, and reads alone.
        for (read, write, all, differ) in [
            (4.0, 2.3, 4.0, true),
            (2.0, 2.0, 4.0, true),
            (4.0, 3.9, 4.0, false),
            (4.0, 0.0, 4.0, false),
        ] {
            assert_eq!(phases(&drive(read, write, all)).is_some(), differ, "{read} {write} {all}");
        }
        let text = phases(&drive(4.0, 2.3, 4.0)).unwrap();
        assert!(text.contains("its reads are within 4 s and its writes within 2.3 s:"), "{text}");
    }
}
