//! The publication's workloads that no Debian package has, as a program for the
//! guest: `/proc/1/exe guest-load`.
//!
//! It prints one line of JSON: the work done, and the time that it took.

mod random;
mod records;
mod varmail;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use random::Random;

/// A workload.
#[derive(Debug, clap::Subcommand)]
pub enum Load {
    /// Make varmail's files
    Files(varmail::Files),
    /// Run varmail's flow on them
    Varmail(varmail::Varmail),
    /// Write records, each followed by fdatasync
    Records(Records),
}

/// Arguments of `records`.
#[derive(Debug, clap::Args)]
pub struct Records {
    /// The file
    pub file: PathBuf,
    /// Number of records
    #[arg(long)]
    pub count: u64,
    /// Bytes of a record
    #[arg(long)]
    pub size: usize,
    /// Overwrite the existing records of the file
    #[arg(long)]
    pub overwrite: bool,
}

/// Work done by a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Operations: filebench's flow operations, or records.
    pub operations: u64,
    /// Calls of fsync or fdatasync.
    pub syncs: u64,
    /// Bytes written.
    pub written: u64,
    /// Time of the whole work (ns).
    pub ns: u64,
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
