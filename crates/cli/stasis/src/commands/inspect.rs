//! `stasis inspect`: what a folder of results has.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use stasis_report::inspect::Inspection;
use stasis_terminal::answer;

/// Arguments of `stasis inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis inspect results
  stasis inspect results --json")]
pub struct Arguments {
    /// A folder of results of any command
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
}

/// `stasis inspect`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let found = Inspection::of(&arguments.results)?;
    match answer::is_json() {
        true => answer::document(&format!("{}\n", serde_json::to_string_pretty(&found)?))?,
        false => answer::text(&found.to_text())?,
    }
    Ok(ExitCode::SUCCESS)
}
