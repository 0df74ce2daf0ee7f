//! A program's beginning and end: the words that all commands take, and what is told of a failure.

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use stasis_runner::failure::{self, Code};
use stasis_runner::provenance::words;
use stasis_terminal::{answer, FAILURE, STOPPED};

use crate::help;

/// The exit status of a command line that is wrong (clap).
pub const WRONG_WORDS: u8 = 2;

/// Words that every command takes.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Common {
    /// Show no progress, and no summary at the end
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print the result as one JSON document, also that of a failure
    #[arg(long, global = true)]
    pub json: bool,
}

impl Common {
    /// Does what they say.
    pub fn apply(self) {
        if self.quiet {
            stasis_terminal::progress::quiet();
        }
        if self.json {
            answer::as_json();
        }
    }
}

/// A command line of a program beside the main one, which is read as the main one's.
#[derive(Parser)]
#[command(name = "stasis", version = stasis_runner::provenance::version(), propagate_version = true)]
struct Cli<C: Subcommand> {
    #[command(subcommand)]
    command: C,
    #[command(flatten)]
    common: Common,
}

/// A program beside the main one, from its words to its exit status. `name`: the command that its
/// words are of; `others`: further commands of it that users have, and `parts`: those that only the
/// program itself calls.
pub fn program<C: Subcommand>(
    name: &str,
    others: &[&str],
    parts: &[&str],
    run: impl FnOnce(C) -> Result<ExitCode>,
) -> ExitCode {
    ended(program_of(name, others, parts, run))
}

fn program_of<C: Subcommand>(
    name: &str,
    others: &[&str],
    parts: &[&str],
    run: impl FnOnce(C) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let mut all: Vec<_> = std::env::args_os().collect();
    let first = all.get(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let is_part = parts.contains(&&*first);
    if let Some(program) = all.first_mut() {
        *program = "stasis".into();
    }
    if !is_part && !others.contains(&&*first) {
        all.insert(all.len().min(1), name.into());
    }
    let texts: Vec<_> = all.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if !is_part {
        words::called_as(texts.clone());
    }
    let description = help::dressed(Cli::<C>::command());
    let read = description.try_get_matches_from(all);
    let read = read.and_then(|matches| Cli::from_arg_matches(&matches));
    let Cli { command, common } = read.unwrap_or_else(|error| refuse(&error, &texts));
    common.apply();
    answered(run(command)?)
}

/// Ends the program with the parser's message, which is a document where the words ask for one.
pub fn refuse(error: &clap::Error, words: &[String]) -> ! {
    let mut own = words.iter().take_while(|word| *word != "--");
    if error.use_stderr() && own.any(|word| word == "--json") {
        answer::as_json();
        answer::fail(Code::Usage, error.to_string().trim(), WRONG_WORDS);
    }
    error.exit()
}

/// The exit status of a command that has ended, with its document printed.
///
/// # Errors
/// If the standard output cannot be written.
pub fn answered(status: ExitCode) -> Result<ExitCode> {
    answer::finish(status_of(status))?;
    Ok(status)
}

/// The number of an exit status.
fn status_of(status: ExitCode) -> u8 {
    // It has no accessor, but equality.
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == status).unwrap_or(u8::MAX)
}

/// The exit status of a program; the error is told, and with `--json` printed as a document.
pub fn ended(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        let (code, message) = (Code::of(&error), failure::told(&error));
        stasis_terminal::say!("stasis: {message}");
        let status = match code {
            Code::Stopped => STOPPED,
            _ => FAILURE,
        };
        answer::fail(code, &message, status);
        ExitCode::from(status)
    })
}
