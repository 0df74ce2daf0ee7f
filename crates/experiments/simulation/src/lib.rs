//! Simulations: a drive's model, driven by a job file's load, by pairs of keys and values, or by a
//! trace, without a guest.
//!
//! [`main`] is `stasis sim`: one simulation, or each of several models with each load and each
//! seed, as many at a time as there are processors. Results are those of a run, and the same
//! arguments, files and seed give the same bytes.

// Without loads of pairs, what serves them alone idles.
#![cfg_attr(not(feature = "key-value"), allow(dead_code))]

mod arguments;
mod drive_info;
mod junit;
mod model;
#[cfg(not(feature = "key-value"))]
#[path = "no_pairs.rs"]
mod pairs;
#[cfg(feature = "key-value")]
mod pairs;
mod points;
mod seeds;
mod several;
mod simulation;
mod work;

use std::process::ExitCode;

use anyhow::{bail, Result};
use stasis_results::thresholds;
use stasis_terminal::progress::Steps;
use stasis_terminal::{answer, stop_on_signals};

use self::junit::{check_junit, write_junit};
use self::points::Point;
use self::simulation::SimulationSetup;

pub use self::arguments::Arguments;
pub use self::model::file as model_file;

/// `stasis sim`.
pub fn main(arguments: &Arguments, quiet: bool) -> Result<ExitCode> {
    let points = Point::all(arguments)?;
    let [point] = &points[..] else {
        for word in &arguments.model {
            if model::read(word)?.kind().state_file().is_some() {
                bail!("{word}: its `state` is of one simulation at a time: give one model, source and seed");
            }
        }
        return several::main(arguments, &points, quiet);
    };
    let setup = SimulationSetup::new(arguments, point)?;
    for warning in &setup.warnings {
        stasis_terminal::say!("{warning}");
    }
    let simulation = setup.build()?;
    check_junit(arguments)?;
    let stop = stop_on_signals()?;
    let mut steps = Steps::new();
    let run = simulation.run(&stop, &mut |progress| progress.show(&mut steps));
    drop(steps);
    if let (Err(_), Some(note)) = (&run, stasis_results::earlier_results(&arguments.results)) {
        stasis_terminal::say!("stasis: {note}");
    }
    let run = run?;
    if let Some(remark) = &run.remark {
        stasis_terminal::say!("{remark}");
    }
    answer::put("results", &arguments.results)?;
    answer::put("message", &run.message)?;
    answer::put("summary", &run.summary)?;
    if !quiet {
        stasis_terminal::tell(&stasis_report::text_summary(&run.summary));
        stasis_terminal::tell(&run.rates());
        stasis_terminal::say!(
            "report: {}",
            arguments.results.join(stasis_results::REPORT_FILE).display()
        );
    }
    if let Some(message) = &run.message {
        stasis_terminal::say!("stasis: {message}");
    }
    for threshold in thresholds::unmet(&run.summary) {
        eprintln!("stasis: not met: {threshold}");
    }
    write_junit(arguments, &[("simulation", &run.summary)])?;
    Ok(ExitCode::from(run.summary.status()))
}
