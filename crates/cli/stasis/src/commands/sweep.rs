//! `stasis sweep`, and `stasis reproduce --on`: the Python package's commands, which this program
//! finds.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{anyhow, Result};

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

/// Runs a study to its end; a package without a program of its own uses this one.
pub fn ended(arguments: &[OsString]) -> Result<ExitStatus> {
    let program = found(SWEEP);
    let mut command = Command::new(&program);
    if let Some(folder) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap_or(path));
    }
    command.args(arguments).status().map_err(|error| not_started(SWEEP, &program, &error))
}

/// Becomes a command of the package.
fn become_package(name: &str, arguments: &[OsString]) -> Result<ExitCode> {
    let program = found(name);
    let error = Command::new(&program).args(arguments).exec();
    Err(not_started(name, &program, &error))
}

/// The package's command: beside this program where the package's executable is this one, else in
/// PATH.
fn found(name: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(name)).filter(|path| path.exists());
    beside.unwrap_or_else(|| PathBuf::from(name))
}

fn not_started(name: &str, program: &Path, error: &std::io::Error) -> anyhow::Error {
    if error.kind() == ErrorKind::NotFound {
        return anyhow!(
            "studies need the Python package, which has the command `{name}`; in the sources of \
             Stasis: pip install ./python (for a cluster './python[study]')"
        );
    }
    anyhow!("cannot start {}: {error}", program.display())
}
