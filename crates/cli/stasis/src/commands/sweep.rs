//! `stasis sweep`, and `stasis reproduce --on`: the Python package's commands, which this program
//! finds.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{bail, Result};

/// The program that the Python package installs for `stasis sweep`.
const SWEEP: &str = "stasis-sweep";
/// And for `stasis reproduce --on`.
const REPRODUCE: &str = "stasis-reproduce";

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
    become_package(SWEEP, &arguments.arguments)
}

/// `stasis reproduce --on`: becomes the package's command, with the words of this one.
pub fn reproduce() -> Result<ExitCode> {
    // Before the command's name there are options without values only.
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(place) = words.iter().position(|word| word == "reproduce") {
        words.remove(place);
    }
    become_package(REPRODUCE, &words)
}

/// Becomes a command of the package.
fn become_package(name: &str, arguments: &[OsString]) -> Result<ExitCode> {
    // Beside this program where the package's executable is this one, else in PATH.
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(name)).filter(|path| path.exists());
    let program = beside.unwrap_or_else(|| PathBuf::from(name));
    let error = Command::new(&program).args(arguments).exec();
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "studies need the Python package, which has the command `{name}`; in the sources of \
             Stasis: pip install ./python (for a cluster './python[study]')"
        );
    }
    bail!("cannot start {}: {error}", program.display())
}
