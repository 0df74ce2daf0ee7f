//! `stasis sweep`: the Python package's command, which this program finds.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{bail, Result};

/// The command that the Python package installs.
const PROGRAM: &str = "stasis-sweep";

/// What `stasis sweep` hands on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`stasis-sweep --help` has the options. Studies come with the Python package: pip install 'stasis[study]'.

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
    // Beside this program where the package's executable is this one, else in PATH.
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(PROGRAM)).filter(|path| path.exists());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&arguments.arguments).exec();
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "studies need the Python package, which has the command `{PROGRAM}`: \
             pip install 'stasis[study]'"
        );
    }
    bail!("cannot start {}: {error}", program.display())
}
