//! Several simulations in one command, as many at a time as there are processors.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use stasis_report::{Column, Table};
use stasis_results::{
    thresholds, units, ResultsFolder, COMPRESSED_IOS_FILE, FIGURES_FILE, IOS_FILE, LIST_FILE,
    PARQUET_IOS_FILE, REPORT_FILE, SUMMARY_FILE, TIMELINE_FILE,
};
use stasis_runner::batch::{self, Batch, Outcome};
use stasis_terminal::progress::Steps;
use stasis_terminal::{answer, stop_on_signals};

use crate::junit::{check_junit, write_junit};
use crate::points::Point;
use crate::simulation::{Run, RunProgress, SimulationSetup};
use crate::Arguments;

/// The figures of all, for other programs.
const TABLE_FILE: &str = "simulations.csv";
/// Files that a simulation may leave in its folder.
const FILES: [&str; 8] = [
    LIST_FILE,
    IOS_FILE,
    COMPRESSED_IOS_FILE,
    PARQUET_IOS_FILE,
    TIMELINE_FILE,
    SUMMARY_FILE,
    REPORT_FILE,
    FIGURES_FILE,
];
/// The exit status of a simulation that could not be run.
const FAILED: u8 = 125;
/// Parts of a simulation that progress counts in.
const WHOLE: u64 = 1_000;

/// Runs all simulations, and reports on all.
pub fn main(arguments: &Arguments, points: &[Point], quiet: bool) -> Result<ExitCode> {
    let mut warnings = BTreeSet::new();
    for point in points {
        let setup = SimulationSetup::new(arguments, point).with_context(|| name(point))?;
        warnings.extend(setup.warnings);
    }
    for warning in warnings {
        stasis_terminal::say!("{warning}");
    }
    check_junit(arguments)?;
    let stop = stop_on_signals()?;
    let mut folder = claim(arguments, points)?;
    let outcomes = run_all(arguments, points, &stop);
    folder.begun_within();
    let ended = || points.iter().zip(&outcomes).filter_map(|(point, o)| Some((point, o.as_ref()?)));

    let mut status = 0;
    for (point, outcome) in ended() {
        let name = name(point);
        match outcome {
            Ok(run) => {
                let value = json!({
                    "results": point.results,
                    "status": run.summary.status(),
                    "message": run.message,
                    "summary": run.summary,
                });
                answer::push("runs", &value)?;
                run.remark
                    .iter()
                    .chain(&run.message)
                    .for_each(|say| stasis_terminal::say!("{name}: {say}"));
                for threshold in thresholds::unmet(&run.summary) {
                    stasis_terminal::say!("stasis: {name}: not met: {threshold}");
                }
                status = status.max(run.summary.status());
            }
            Err(message) => {
                answer::push("failed", &json!({ "name": name, "message": message }))?;
                stasis_terminal::say!("stasis: {name}: {message}");
                status = status.max(FAILED);
            }
        }
    }
    let runs: Vec<(&Point, &Run)> =
        ended().filter_map(|(point, outcome)| Some((point, outcome.as_ref().ok()?))).collect();
    if !runs.is_empty() {
        let file = folder.file(TABLE_FILE)?;
        std::fs::write(&file, csv(&runs))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let names: Vec<_> = runs.iter().map(|(point, run)| (name(point), &run.summary)).collect();
        let named: Vec<_> = names.iter().map(|(name, summary)| (name.as_str(), *summary)).collect();
        write_junit(arguments, &named)?;
        folder.finished()?;
        answer::put("results", &arguments.results)?;
        answer::put("table", &file)?;
        if !quiet {
            stasis_terminal::tell(&table(&runs).to_text());
            stasis_terminal::say!("the figures: {}", file.display());
            stasis_terminal::say!(
                "reports: {}",
                arguments.results.join("*").join(REPORT_FILE).display()
            );
        }
    }
    let not_begun = points.len() - ended().count();
    if not_begun > 0 {
        stasis_terminal::say!(
            "stasis: stopped; {not_begun} of {} simulations were not begun",
            points.len()
        );
        status = status.max(130);
    }
    Ok(ExitCode::from(status))
}

/// The folder around those of the simulations. The files that they will write are noted as this
/// command's, so that the next command with this folder removes them.
fn claim(arguments: &Arguments, points: &[Point]) -> Result<ResultsFolder> {
    let mut folder = ResultsFolder::claim(&arguments.results, &arguments.inputs())?;
    for point in points {
        let name = name(point);
        folder.file(&name)?;
        for file in FILES {
            folder.file(&format!("{name}/{file}"))?;
        }
    }
    Ok(folder)
}

/// Name of a simulation: that of its folder.
fn name(point: &Point) -> String {
    let folder = point.results.file_name().unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

impl batch::Point for Point<'_> {
    fn name(&self) -> Cow<'_, str> {
        name(self).into()
    }
}

/// Progress of the current simulations.
struct Progress {
    ios: AtomicU64,
    // Progress of each simulation, as a scaled fraction.
    parts: Vec<AtomicU64>,
}

/// Runs all until each has ended or the user stops.
fn run_all(
    arguments: &Arguments,
    points: &[Point],
    stop: &AtomicBool,
) -> Vec<Option<Outcome<Run>>> {
    let progress = Progress {
        ios: AtomicU64::new(0),
        parts: points.iter().map(|_| AtomicU64::new(0)).collect(),
    };
    let (begun, mut steps, mut ended) = (Instant::now(), Steps::new(), 0);
    Batch::new(arguments.jobs.map(|jobs| jobs as usize), stop).run(
        points,
        |point, turn| {
            let part = &progress.parts[turn.index];
            let result = run_one(arguments, point, stop, |ios, fraction| {
                progress.ios.fetch_add(ios, Ordering::Relaxed);
                let parts = (fraction.unwrap_or(0.0) * WHOLE as f64) as u64;
                part.store(parts.min(WHOLE), Ordering::Relaxed);
            });
            part.store(WHOLE, Ordering::Relaxed);
            result
        },
        |point| {
            ended += usize::from(point.is_some());
            let parts: u64 = progress.parts.iter().map(|part| part.load(Ordering::Relaxed)).sum();
            let ios = progress.ios.load(Ordering::Relaxed);
            let rate = ios as f64 / begun.elapsed().as_secs_f64().max(1e-3);
            let message = format!(
                "{ended} of {} simulations, {} I/Os, {} a second",
                points.len(),
                units::count(ios),
                units::decimals(rate, 0)
            );
            steps.step(&message, Some(parts as f64 / (WHOLE as f64 * points.len() as f64)));
        },
    )
}

/// Runs one simulation; `on_progress` receives the number of I/Os since its last call, and the
/// finished part.
fn run_one(
    arguments: &Arguments,
    point: &Point,
    stop: &AtomicBool,
    on_progress: impl Fn(u64, Option<f64>),
) -> Result<Run> {
    let mut known = 0;
    SimulationSetup::new(arguments, point)?.build()?.run(stop, &mut |progress: &RunProgress| {
        on_progress(progress.ios - known, progress.fraction);
        known = progress.ios;
    })
}

/// A row for each operation of each simulation.
fn table(runs: &[(&Point, &Run)]) -> Table {
    let mut table = Table::new(
        ["simulation", "operation"]
            .map(Column::left)
            .into_iter()
            .chain(["I/Os", "IOPS", "mean", "p50", "p99", "p99.9"].map(Column::right))
            .collect(),
    );
    for (point, run) in runs {
        let mut name = name(point);
        for (operation, used) in run.summary.drives.iter().flat_map(|drive| drive.used()) {
            let mut row = vec![
                std::mem::take(&mut name),
                operation.name().to_owned(),
                units::count(used.count),
                units::significant(used.iops, 4),
            ];
            row.extend(stasis_report::latency_figures(&used.target_ns, used.count));
            table.push(row);
        }
        if !name.is_empty() {
            table.push(vec![name, "none".into()]);
        }
    }
    table
}

/// The table with more columns, for other programs (RFC 4180).
fn csv(runs: &[(&Point, &Run)]) -> String {
    let mut text = String::from(
        "simulation,model,workload,seed,ending,virtual_seconds,operation,count,bytes,mean_ns,\
         p50_ns,p99_ns,p99.9_ns,max_ns\n",
    );
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    for (point, Run { summary, .. }) in runs {
        for drive in &summary.drives {
            for (operation, used) in drive.used() {
                let latency = &used.target_ns;
                text.push_str(&format!(
                    "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                    quoted(&name(point)),
                    quoted(&drive.described.model),
                    quoted(&Path::display(point.source).to_string()),
                    point.seed,
                    summary.ending,
                    summary.virtual_seconds,
                    operation.name(),
                    used.count,
                    used.bytes,
                    latency.mean,
                    latency.p50,
                    latency.p99,
                    latency.p99_9,
                    latency.max,
                ));
            }
        }
    }
    text
}
