//! `stasis why`: where the time of an I/O went.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use stasis_experiment::drive_and_number;
use stasis_report::why::{Which, Why};

/// Arguments of `stasis why`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis why results
  stasis why results drive0:100

An I/O is named by its drive and its `order`, as in the page's list of the slowest I/Os and in
ios.parquet. Of the 20 slowest of each operation the parts of their time in the model are known.
Of a run with --timeline it is told what the drive did while the I/O was under way.")]
pub struct Arguments {
    /// A folder of results
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
    /// The I/O; by default the slowest that the command made
    #[arg(value_name = "DRIVE:ORDER", value_parser = which)]
    io: Option<(String, u64)>,
}

/// An I/O's drive and number.
pub fn which(word: &str) -> Result<(String, u64), String> {
    drive_and_number(word)
        .ok_or_else(|| "must be a drive's name and a number, such as drive0:100".to_owned())
}

/// `stasis why`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let which = match &arguments.io {
        Some((drive, order)) => Which::Of(drive.clone(), *order),
        None => Which::Slowest,
    };
    stasis_terminal::print(&Why::of(&arguments.results, &which)?.to_text())?;
    Ok(ExitCode::SUCCESS)
}
