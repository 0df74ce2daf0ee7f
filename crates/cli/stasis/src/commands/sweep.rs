//! `stasis sweep`: the Python package's command, which this program finds.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::Result;
use stasis_program::beside;

/// The program that the Python package installs for `stasis sweep`.
const SWEEP: &str = "stasis-sweep";

/// Arguments of `stasis sweep`, handed on to the Python package.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`stasis-sweep --help` has the options. Studies come with the Python package; in the sources of Stasis: pip install ./python (for a cluster './python[study]').

Examples:
  stasis sweep study.toml
  stasis sweep study.toml --verify 20"
)]
pub struct Arguments {
    /// The study, and options of `stasis-sweep`
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// `stasis sweep`: becomes the package's command.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    beside::become_package(SWEEP, &arguments.arguments)
}

/// Runs a study to its end; a package without a program of its own uses this one.
pub fn ended(arguments: &[OsString]) -> Result<ExitStatus> {
    let mut command = Command::new(beside::found(SWEEP));
    if let Some(folder) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap_or(path));
    }
    command.args(arguments).status().map_err(|error| beside::no_package(SWEEP, error))
}
