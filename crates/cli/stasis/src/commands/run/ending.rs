//! Tells of a run that has ended.

use std::process::ExitCode;

use anyhow::Result;
use stasis_results::thresholds;
use stasis_runner::Results;
use stasis_terminal::answer;

/// Tells of a run that has ended.
pub fn finished(run: &Results, quiet: bool) -> Result<ExitCode> {
    answer::put("results", &run.folder)?;
    answer::put("message", &run.message)?;
    answer::put("summary", &run.summary)?;
    if !quiet && run.are_written {
        stasis_terminal::tell(&stasis_report::text_summary(&run.summary));
        stasis_terminal::say!("report: {}", run.folder.join(stasis_results::REPORT_FILE).display());
    }
    for warning in &run.summary.warnings {
        stasis_terminal::say!("stasis: not to be trusted: {warning}");
    }
    for threshold in thresholds::unmet(&run.summary) {
        stasis_terminal::say!("stasis: not met: {threshold}");
    }
    if let Some(message) = &run.message {
        stasis_terminal::say!("stasis: {message}");
    }
    Ok(ExitCode::from(run.status))
}
