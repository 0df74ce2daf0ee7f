//! The publication's workloads that no Debian package has, as a program for the
//! guest: `/proc/1/exe guest-load`.
//!
//! It prints one line of JSON: the work done, and the time that it took.

mod outcome;
mod random;
mod records;
mod varmail;

use std::process::ExitCode;

use anyhow::Result;

pub use outcome::Outcome;

/// A workload.
#[derive(Debug, clap::Subcommand)]
pub enum Load {
    /// Make varmail's files
    Files(varmail::Files),
    /// Run varmail's flow on them
    Varmail(varmail::Varmail),
    /// Write records, each followed by fdatasync
    Records(records::Records),
}

/// `stasis guest-load`.
pub fn main(load: &Load) -> Result<ExitCode> {
    let outcome = match load {
        Load::Files(files) => varmail::make(files)?,
        Load::Varmail(varmail) => varmail::run(varmail)?,
        Load::Records(records) => records::run(records)?,
    };
    stasis_terminal::print(&(serde_json::to_string(&outcome)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
