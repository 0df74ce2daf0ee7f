//! The drives side by side: tables, the page and the file of figures.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use stasis_block::Operation;
use stasis_comparison::{Candidate, Comparison};
use stasis_report::page::{Block, Head, Page, Section};
use stasis_report::verdict::{Alike, Doer, Several, Verdict, Work};
use stasis_report::{latency_figures, Column, Table};
use stasis_results::{
    units, DriveSummary, OperationSummary, ResultsFolder, Summary, COMPARISON_PAGE, REPORT_FILE,
};
use stasis_runner::provenance::Provenance;

/// The figures of all runs, for other programs.
const TABLE_FILE: &str = "drives.csv";

/// The smallest difference between two drives that matters (%).
const MIN_DIFFERENCE: f64 = 1.0;

/// A run: the model's name and the figures.
pub type Run<'a> = (&'a str, &'a Summary);

/// Writes the pages and the figures, and prints the tables.
///
/// # Errors
/// If a file cannot be written, or the I/Os of a run cannot be read.
pub fn write(
    folder: &mut ResultsFolder,
    command: &[String],
    runs: &[Run],
    provenance: Provenance,
    quiet: bool,
) -> Result<()> {
    let csv = folder.file(TABLE_FILE)?;
    std::fs::write(&csv, figures(runs))
        .with_context(|| format!("cannot write {}", csv.display()))?;
    let (page, distributions) = (folder.file(REPORT_FILE)?, folder.file(COMPARISON_PAGE)?);
    let [times, latencies] = [times(runs), latencies(runs)];
    let verdict = verdict(runs);
    let sentence = verdict.sentence.clone();
    let repeat = provenance.repeat();
    let comparison = compared(folder.path(), runs)?;
    let mut whole = report(command, runs, verdict, [&times, &latencies]);
    whole.sections.extend(comparison.as_ref().and_then(Comparison::tails));
    whole.head = whole.head.map(|head| head.repeated_by(Some(repeat.clone())));
    let origin = provenance.section();
    whole.sections.extend(origin.clone().map(Section::folded));
    whole.write(folder.path(), REPORT_FILE)?;
    let html = comparison.map(|comparison| comparison.to_html(Some(&repeat), origin.as_ref()));
    if let Some(html) = &html {
        stasis_report::page::write(folder.path(), COMPARISON_PAGE, html)?;
    }
    if !quiet {
        stasis_terminal::print(&format!("{}\n{}", times.to_text(), latencies.to_text()))?;
        stasis_terminal::say!("{sentence}");
        stasis_terminal::say!("page: {}", page.display());
        if html.is_some() {
            stasis_terminal::say!("distributions: {}", distributions.display());
        }
    }
    Ok(())
}

/// Returns whether a run's command reached its end and succeeded, so that its time can be compared.
fn succeeded(summary: &Summary) -> bool {
    summary.ending == "exited" && summary.exit_status == 0
}

/// The answer.
fn verdict(runs: &[Run]) -> Verdict {
    let time = |summary: &Summary| succeeded(summary).then_some(summary.virtual_seconds * 1e9);
    Several {
        doer: Doer::Command,
        place: "on",
        each: runs.iter().map(|(name, summary)| (*name, time(summary))).collect(),
        failed: runs.iter().filter(|(_, summary)| !succeeded(summary)).count(),
        // The command is what is compared here; its I/Os are on the page of the distributions.
        work: match runs.iter().all(|(_, summary)| summary.ios() == 0) {
            true => Work::Nothing,
            false => Work::Same,
        },
        latency: None,
        has_intervals: false,
        beyond: None,
        least: MIN_DIFFERENCE,
        seeds: Alike::No,
    }
    .verdict()
}

/// The command's time on each drive.
fn times(runs: &[Run]) -> Table {
    let mut columns = vec![Column::left("on")];
    let figures = ["command", "of the first", "I/Os", "amount", "within"];
    columns.extend(figures.map(Column::right));
    columns.push(Column::left("end"));
    let mut table = Table::new(columns);
    let first = runs.first().map_or(0.0, |(_, summary)| summary.virtual_seconds);
    for (name, summary) in runs {
        let used = || summary.drives.iter().flat_map(DriveSummary::used);
        let bytes = used().map(|(_, used)| used.bytes).sum();
        let end = match succeeded(summary) {
            true => String::new(),
            false if summary.ending == "exited" => format!("status {}", summary.exit_status),
            false => summary.ending.replace('-', " "),
        };
        table.push(vec![
            (*name).to_owned(),
            units::duration(summary.virtual_seconds * 1e9),
            format!("{} %", units::significant(summary.virtual_seconds / first * 100.0, 4)),
            units::count(summary.ios()),
            units::bytes(bytes),
            units::deviation(summary.max_error_percent().map(f64::abs)),
            end,
        ]);
    }
    table
}

/// Each drive's rates and latencies by operation.
fn latencies(runs: &[Run]) -> Table {
    let several = runs.iter().any(|(_, summary)| summary.drives.len() > 1);
    let mut columns = vec![Column::left("on")];
    columns.extend(several.then(|| Column::left("drive")));
    columns.push(Column::left("op"));
    columns.extend(["IOPS", "bandwidth", "p50", "p99", "p99.9"].map(Column::right));
    let mut table = Table::new(columns);
    let mut last = "";
    for ((name, _), drive, operation, used) in rows(runs) {
        let mut row = vec![if last == *name { String::new() } else { (*name).to_owned() }];
        last = name;
        row.extend(several.then(|| drive.described.name.clone()));
        row.push(operation.name().to_owned());
        row.push(units::significant(used.iops, 4));
        row.push(units::bandwidth_of(operation, used.bytes_per_second));
        // Without the mean.
        row.extend(latency_figures(&used.delivered_ns, used.count).into_iter().skip(1));
        table.push(row);
    }
    table
}

/// The rows of all runs: run, drive, operation.
fn rows<'a>(
    runs: &'a [Run<'a>],
) -> impl Iterator<Item = (&'a Run<'a>, &'a DriveSummary, Operation, &'a OperationSummary)> {
    runs.iter().flat_map(|run| {
        let used = |drive: &'a DriveSummary| drive.used().map(move |(op, used)| (drive, op, used));
        let of_run = run.1.drives.iter().flat_map(used);
        of_run.map(move |(drive, operation, used)| (run, drive, operation, used))
    })
}

/// The figures as CSV, a line for each operation of each drive of each run.
fn figures(runs: &[Run]) -> String {
    let mut csv = String::from(
        "on,model,command_s,exit_status,drive,operation,ios,bytes,errors,iops,bytes_per_second,\
         mean_ns,p50_ns,p99_ns,p999_ns\n",
    );
    for ((name, summary), drive, operation, used) in rows(runs) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let latency = &used.delivered_ns;
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(name),
            quoted(&drive.described.model),
            summary.virtual_seconds,
            summary.exit_status,
            quoted(&drive.described.name),
            operation.name(),
            used.count,
            used.bytes,
            used.errors,
            used.iops,
            used.bytes_per_second,
            latency.mean,
            latency.p50,
            latency.p99,
            latency.p99_9,
        );
    }
    csv
}

fn report(command: &[String], runs: &[Run], verdict: Verdict, tables: [&Table; 2]) -> Page {
    let of_runs = |figure: fn(&Summary) -> f64| {
        units::duration(runs.iter().map(|run| figure(run.1)).sum::<f64>() * 1e9)
    };
    let tiles = [
        ("Virtual time of all", of_runs(|summary| summary.virtual_seconds)),
        ("Wall-clock time of all", of_runs(|summary| summary.wall_seconds)),
    ];
    let [times, latencies] = tables.map(Clone::clone);
    let caption =
        "Virtual time of the command; the largest deviation of a delivered percentile of \
                   latency from the model's.";
    let mut head = Head::answering(verdict, tiles).with(caption, times);
    let untrusted = runs.iter().flat_map(|(name, summary)| {
        let warned = move |warning| format!("{name}: not to be trusted: {warning}.");
        summary.warnings.iter().map(warned)
    });
    head.remarks = untrusted.collect();
    let caption =
        "Rates are over the time from a drive's first submission to its last completion; \
                   latency is what the guest got.";
    let rates = Section::new("Rates and latencies").with(Block::Table(caption.into(), latencies));
    Page {
        title: format!("{} drives", runs.len()),
        subtitle: command.join(" "),
        head: Some(head),
        sections: vec![rates],
    }
}

/// The runs side by side; none where there is nothing to compare.
fn compared(folder: &Path, runs: &[Run]) -> Result<Option<Comparison>> {
    let with_ios = runs.iter().filter(|(_, summary)| summary.ios() > 0);
    let read = |(name, _): &Run| {
        let mut candidate = Candidate::read(&folder.join(name))?;
        candidate.name = (*name).to_owned();
        anyhow::Ok(candidate)
    };
    let candidates = with_ios.map(read).collect::<Result<_>>()?;
    Ok(Comparison::of(candidates, MIN_DIFFERENCE).filter(|one| !one.differences.is_empty()))
}
