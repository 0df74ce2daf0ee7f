//! Results as tests in the form of JUnit.

use anyhow::Result;
use stasis_results::Summary;
use stasis_runner::check_output;

use crate::Arguments;

/// Refuses before any simulation what [`write_junit`] could not write after them.
pub fn check_junit(arguments: &Arguments) -> Result<()> {
    let Some(path) = &arguments.junit else { return Ok(()) };
    Ok(check_output(path, &arguments.results, &arguments.inputs())?)
}

/// Writes simulations with their names as tests, if that is wished.
pub fn write_junit(arguments: &Arguments, runs: &[(&str, &Summary)]) -> Result<()> {
    let Some(path) = &arguments.junit else { return Ok(()) };
    let title = format!("stasis sim {}", arguments.model.join(" "));
    Ok(stasis_report::to_junit(&title, runs).write(path)?)
}
