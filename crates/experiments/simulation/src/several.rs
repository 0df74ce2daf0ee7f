//! Several simulations in one command, as many at a time as there are processors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use stasis_report::{
    units, Column, ResultsFolder, Table, COMPRESSED_IOS_FILE, FIGURES_FILE, IOS_FILE, LIST_FILE,
    PARQUET_IOS_FILE, REPORT_FILE, SUMMARY_FILE, TIMELINE_FILE,
};
use stasis_runner::failure;
use stasis_terminal::progress::Steps;
use stasis_terminal::stop_on_signals;

use crate::points::Point;
use crate::Arguments;
use crate::{Run, RunProgress, SimulationSetup, PROGRESS};

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
        eprintln!("{warning}");
    }
    let stop = stop_on_signals()?;
    let mut folder = claim(arguments, points)?;
    let jobs = match arguments.jobs {
        Some(jobs) => jobs as usize,
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let ended = run_all(arguments, points, jobs.min(points.len()), &stop);

    let mut status = 0;
    for (index, result) in &ended {
        let name = name(&points[*index]);
        match result {
            Ok(run) => {
                run.remark.iter().chain(&run.message).for_each(|say| eprintln!("{name}: {say}"));
                status = status.max(u8::try_from(run.summary.exit_status).unwrap_or(1));
            }
            Err(error) => {
                eprintln!("stasis: {name}: {}", failure::told(error));
                status = status.max(FAILED);
            }
        }
    }
    let runs: Vec<(&Point, &Run)> = ended
        .iter()
        .filter_map(|(index, result)| Some((&points[*index], result.as_ref().ok()?)))
        .collect();
    let file = folder.file(TABLE_FILE)?;
    std::fs::write(&file, csv(&runs))
        .with_context(|| format!("cannot write {}", file.display()))?;
    if !quiet {
        eprint!("{}", table(&runs).to_text());
        eprintln!("the figures: {}", file.display());
        eprintln!("reports: {}", arguments.results.join("*").join(REPORT_FILE).display());
    }
    let left = points.len() - ended.len();
    if left > 0 {
        eprintln!("stasis: stopped; {left} of {} simulations were not begun", points.len());
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

/// Progress of the current simulations.
struct Progress {
    ios: AtomicU64,
    // Progress of each simulation, as a scaled fraction.
    parts: Vec<AtomicU64>,
}

/// Runs all, `jobs` at a time, until each has ended or the user stops; those that ended, by
/// their place.
fn run_all(
    arguments: &Arguments,
    points: &[Point],
    jobs: usize,
    stop: &AtomicBool,
) -> BTreeMap<usize, Result<Run>> {
    let next = AtomicUsize::new(0);
    let progress = Progress {
        ios: AtomicU64::new(0),
        parts: points.iter().map(|_| AtomicU64::new(0)).collect(),
    };
    let (sender, results) = channel();
    let mut ended = BTreeMap::new();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, next, progress) = (sender.clone(), &next, &progress);
            scope.spawn(move || loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let Some(point) = points.get(index) else { return };
                let result = run_one(arguments, point, stop, |ios, fraction| {
                    progress.ios.fetch_add(ios, Ordering::Relaxed);
                    let parts = (fraction.unwrap_or(0.0) * WHOLE as f64) as u64;
                    progress.parts[index].store(parts.min(WHOLE), Ordering::Relaxed);
                });
                progress.parts[index].store(WHOLE, Ordering::Relaxed);
                if sender.send((index, result)).is_err() {
                    return;
                }
            });
        }
        // Only the threads' own are left: the last one to end ends the loop.
        drop(sender);
        let (begun, mut steps) = (Instant::now(), Steps::new());
        loop {
            match results.recv_timeout(PROGRESS) {
                Ok((index, result)) => {
                    ended.insert(index, result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let parts: u64 = progress.parts.iter().map(|part| part.load(Ordering::Relaxed)).sum();
            let ios = progress.ios.load(Ordering::Relaxed);
            let rate = ios as f64 / begun.elapsed().as_secs_f64().max(1e-3);
            let what = format!(
                "{} of {} simulations, {} I/Os, {} a second",
                ended.len(),
                points.len(),
                units::count(ios),
                units::decimals(rate, 0)
            );
            steps.step(&what, Some(parts as f64 / (WHOLE as f64 * points.len() as f64)));
        }
    });
    ended
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
            .chain(["I/Os", "a second", "mean", "p50", "p99", "p99.9"].map(Column::right))
            .collect(),
    );
    for (point, run) in runs {
        let mut name = name(point);
        for (operation, used) in run.summary.drives.iter().flat_map(|drive| drive.used()) {
            let rate = used.count as f64 / run.summary.virtual_seconds.max(1e-9);
            let mut row = vec![
                std::mem::take(&mut name),
                operation.name().to_owned(),
                units::count(used.count),
                units::count(rate as u64),
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
                    quoted(&drive.model),
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
