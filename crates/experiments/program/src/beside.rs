//! Programs beside this one: they are found where this one is, else in PATH, as git finds its own.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// The program that the Python package installs for `stasis reproduce --on`.
const STUDY: &str = "stasis-reproduce-on";
/// Origin of a program that is missing, for a reader.
const ORIGIN: &str =
    "`make build` makes it in the sources of Stasis, and each package of Stasis has it";
/// The main program.
const MAIN: &str = "stasis";

/// A program beside this one where it is there, else its name alone, which is looked for in PATH.
pub fn found(name: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(name)).filter(|path| path.is_file());
    beside.unwrap_or_else(|| PathBuf::from(name))
}

/// The main program, for one beside it.
pub fn main_program() -> PathBuf {
    found(MAIN)
}

/// The main program's file.
///
/// # Errors
/// The program is neither beside this program nor in PATH.
pub fn main_file() -> Result<PathBuf> {
    let main = main_program();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(&main));
    let found = if main.is_file() { Some(main.clone()) } else { all.find(|path| path.is_file()) };
    found.with_context(|| {
        format!(
            "the program `{MAIN}`, which runs in guests, is neither beside this one nor in PATH: {ORIGIN}"
        )
    })
}

/// Reports that a program was not started, and where it comes from if it is not there.
fn not_started(name: &str, error: &Error) -> anyhow::Error {
    if error.kind() != ErrorKind::NotFound {
        return anyhow::anyhow!("cannot start {name}: {error}");
    }
    let command = name.strip_prefix("stasis-").unwrap_or(name);
    let message = format!(
        "`stasis {command}` is a program of its own, {name}, which is neither beside this one nor in PATH: \
         {ORIGIN}"
    );
    Error::new(ErrorKind::NotFound, message).into()
}

/// The words of a program beside this one, by those of this one without its own name: the command
/// goes where it is the program's name, and what is before it, options without values, behind it.
pub fn handed_on<W: AsRef<OsStr>>(words: &[W], program: &str) -> Vec<OsString> {
    let is_option = |word: &W| word.as_ref().as_encoded_bytes().starts_with(b"-");
    let place = words.iter().position(|word| !is_option(word)).unwrap_or(words.len());
    let (before, rest) = words.split_at(place);
    let (name, behind) = rest.split_at(rest.len().min(1));
    let is_name =
        |word: &&W| program.strip_prefix("stasis-").map(OsStr::new) == Some(word.as_ref());
    let name = name.iter().filter(|word| !is_name(word));
    name.chain(before).chain(behind).map(|word| word.as_ref().to_owned()).collect()
}

/// Becomes a program beside this one, with this one's words.
///
/// # Errors
/// The program is not there, or cannot be started.
pub fn become_program(name: &str) -> Result<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let error = Command::new(found(name)).args(handed_on(&words, name)).exec();
    Err(not_started(name, &error))
}

/// Becomes a program beside this one, with these words.
///
/// # Errors
/// The program is not there, or cannot be started.
pub fn become_with(name: &str, words: &[&str]) -> Result<ExitCode> {
    Err(not_started(name, &Command::new(found(name)).args(words).exec()))
}

/// A program beside this one, for a child process; `start` starts it.
///
/// # Errors
/// The program is not there, or cannot be started.
pub fn started<T>(
    name: &str,
    words: impl IntoIterator<Item = OsString>,
    start: impl FnOnce(&mut Command) -> std::io::Result<T>,
) -> Result<T> {
    start(Command::new(found(name)).args(words)).map_err(|error| not_started(name, &error))
}

/// Becomes a command of the Python package, which installs it beside its program or in PATH.
///
/// # Errors
/// The program is not there, or cannot be started.
pub fn become_package(name: &str, words: &[OsString]) -> Result<ExitCode> {
    let program = found(name);
    let error = Command::new(&program).args(words).exec();
    Err(no_package(name, error))
}

/// Reports that a command of the Python package was not started.
pub fn no_package(name: &str, error: Error) -> anyhow::Error {
    if error.kind() == ErrorKind::NotFound {
        return anyhow::anyhow!(
            "studies need the Python package, which has the command `{name}`; in the sources of \
             Stasis: pip install ./python (for a cluster './python[study]')"
        );
    }
    Err::<(), _>(error).with_context(|| format!("cannot start {name}")).unwrap_err()
}

/// Becomes the Python package's command for `stasis reproduce --on`, with this program's words.
///
/// # Errors
/// The program is not there, or cannot be started.
pub fn become_study() -> Result<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    become_package(STUDY, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_its_program_and_options_before_it_go_on() {
        let handed = |words: &[&str]| {
            let handed = handed_on(words, "stasis-reproduce").into_iter();
            handed.map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(handed(&["reproduce", "femu", "--quick"]), "femu --quick");
        assert_eq!(handed(&["-q", "--json", "reproduce", "femu"]), "-q --json femu");
        assert_eq!(handed(&["--quiet", "suite", "--", "reproduce"]), "suite --quiet -- reproduce");
        assert_eq!(handed(&[]), "");
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_where_it_comes_from() {
        let start = |command: &mut Command| command.spawn();
        let error = started("stasis-nosuch", [], start).unwrap_err().to_string();
        for part in ["`stasis nosuch`", "stasis-nosuch", "make build", "package"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
