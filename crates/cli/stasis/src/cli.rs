//! Words on the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use stasis_program::begin::{self, Common, WRONG_WORDS};
use stasis_program::{beside, help as program_help};
use stasis_runner::failure::Code;
use stasis_terminal::answer;

use crate::arguments::{RunArguments, ShellArguments};
use crate::commands;
use crate::commands::archive::Made;
use crate::commands::calibrate::CalibrateArguments;
use crate::commands::guest::GuestBuildArguments;

/// Runs stock operating systems on storage that you do not have.
#[derive(Debug, Parser)]
#[command(name = "stasis", version = stasis_runner::provenance::version(), propagate_version = true)]
#[command(after_help = "Examples:
  stasis run --drive model=fixed:100us,medium=ram:1GiB -- fio --name=r --filename=/dev/nvme0n1 --rw=randread --direct=1 --number_ios=1000
  stasis run experiment.toml
  stasis models
  stasis doctor")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// Commands that have the terminal, or are another program, and so no document of their own.
const WITHOUT_JSON: [(&str, &str); 3] = [
    ("shell", "its output is the terminal's"),
    ("debug", "its output is the run's; `stasis run --json` has that as a file"),
    ("sweep", "a study's results are files of its folder"),
];

/// The commands, with their arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command in a guest on modelled drives
    Run(Box<RunArguments>),
    /// Run a command on several modelled drives, and set them side by side
    On(Box<commands::on::Arguments>),
    /// Open a terminal in a guest on modelled drives
    Shell(Box<ShellArguments>),
    /// Stop a run at a moment, and look at it with gdb
    Debug(Box<commands::debug::Arguments>),
    /// Cut the power of a run's drives many times, and look at what is left
    CrashTest(commands::crash_test::Arguments),
    /// Run an experiment many times, each with other faults, and find what breaks it
    Explore(commands::explore::Arguments),
    /// Drive a model without a guest, with a fio job file's load or a trace
    Sim(Box<stasis_simulation::Arguments>),
    /// Run a study, a grid of experiments; comes with the Python package
    Sweep(commands::sweep::Arguments),
    /// Set results side by side, and say which differences matter
    Compare(commands::compare::Arguments),
    /// Say what results have, what in them is odd, and what to ask next
    Inspect(commands::inspect::Arguments),
    /// Say where the time of an I/O went, and what was before it
    Why(commands::why::Arguments),
    /// Write a run's I/Os as blktrace, Perfetto or fio have them
    Export(commands::export::Arguments),
    /// Pack a run or a study into one file that another computer repeats
    Archive(commands::archive::Arguments),
    /// Repeat the runs of an archive, and say whether their results are the same
    Repeat(commands::archive::RepeatArguments),
    /// Draw tables and interactive plots of figures of your own
    Page(commands::page::Arguments),
    /// Serve drives in real time to QEMU and Cloud Hypervisor
    Serve(commands::serve::Arguments),
    /// The commands of programs beside this one
    #[command(flatten)]
    Beside(stasis_program::Command),
    /// Make the guest's system from Debian packages; list and remove those that are kept
    #[command(
        subcommand,
        after_help = "Examples:
  stasis guest build
  stasis guest list
  stasis guest remove 03eebb63adb4fd2b"
    )]
    Guest(GuestCommand),
    /// Say what is kept for later runs and how much disk it takes, or remove it
    #[command(after_help = "Examples:
  stasis cache
  stasis cache prune")]
    Cache {
        #[command(subcommand)]
        command: Option<commands::cache::CacheCommand>,
    },
    /// Write a Compose file as an experiment
    Import(commands::import::Arguments),
    /// Make, check and convert disk images
    #[command(
        subcommand,
        after_help = "Examples:
  stasis image create disk.qcow2 10GiB
  stasis image info disk.qcow2
  stasis image convert disk.qcow2 disk.img --to raw"
    )]
    Image(commands::image::ImageCommand),
    /// List the named drives with their figures, or show one as TOML to start from
    Models(ModelsArguments),
    /// Make a model of what fio or blkparse measured on a real drive
    Calibrate(CalibrateArguments),
    /// Print the JSON Schema of experiment files or storage functions, or the columns of results
    #[command(after_help = commands::schema::HELP)]
    Schema {
        /// Format of the files
        #[arg(value_enum, default_value_t, value_name = "OF")]
        files: commands::schema::Files,
    },
    /// Say what this machine has, which engine a run takes, and what to install
    Doctor(commands::doctor::DoctorArguments),
    /// A part of `doctor --measure`, in its guest
    #[command(hide = true)]
    GuestClock(stasis_precision::ClockArguments),
    /// Print completions for a shell
    #[command(after_help = "Example:
  stasis completions bash > ~/.local/share/bash-completion/completions/stasis")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages to a folder, or print the first one
    #[command(after_help = "Example:
  stasis man ~/.local/share/man/man1")]
    Man {
        /// The folder; made if it is not there
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

/// Arguments of `stasis models`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis models
  stasis models jpt39c > my-disk.toml
  stasis models uniform:200us-400us
  stasis models dcpmm --json")]
pub struct ModelsArguments {
    /// A name of the list, or a model as --drive takes it
    #[arg(value_name = "MODEL")]
    model: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub enum GuestCommand {
    /// Make it, or make it again if its recipe has changed
    #[command(
        after_help = "Each recipe is one guest in the cache. `stasis run` builds what it needs by itself.

Examples:
  stasis guest build
  stasis guest build experiment.toml
  stasis guest build --packages ffmpeg,stress-ng --suite trixie"
    )]
    Build(GuestBuildArguments),
    /// List the guests that are kept, the newest first
    #[command(after_help = "Example:
  stasis guest list")]
    List,
    /// Remove guests that are kept
    #[command(after_help = "Example:
  stasis guest remove 03eebb63adb4fd2b")]
    Remove {
        /// Their names, as `stasis guest list` has them
        #[arg(required = true, value_name = "GUEST")]
        names: Vec<String>,
    },
}

/// The command line, with help as it is shown.
fn description() -> clap::Command {
    program_help::dressed(Cli::command())
}

/// Reads the words of a command whose results may be archived.
fn made(words: &[String]) -> Result<Made> {
    let all = std::iter::once("stasis").chain(words.iter().map(String::as_str));
    let command =
        parse(all).map_err(|error| anyhow!("the command line of the results: {error}"))?;
    Ok(match command {
        Command::Run(arguments) => Made::Run(arguments),
        Command::On(arguments) => Made::On(arguments),
        Command::Sim(arguments) => Made::Sim(arguments),
        Command::CrashTest(arguments) => Made::CrashTest(Box::new(arguments)),
        Command::Beside(stasis_program::Command::Reproduce(arguments)) if !arguments.is_study() => {
            Made::Reproduce
        }
        Command::Sweep(_) => Made::Sweep,
        _ => Made::Other,
    })
}

/// The command of some words, of which the first is the program.
///
/// # Errors
/// The words are no command.
pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Command, clap::Error> {
    Cli::try_parse_from(words).map(|cli| cli.command)
}

/// Runs the command of the command line.
pub fn main() -> Result<ExitCode> {
    let matches = description().try_get_matches().unwrap_or_else(|error| {
        let words: Vec<_> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let error = crate::separator::explained(error, &mut description(), &words);
        let error = suggested(without_moment(error, &words));
        begin::refuse(&error, &words)
    });
    let Cli { command, common } =
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    common.apply();
    if common.json {
        let name = matches.subcommand_name().unwrap_or_default();
        if let Some((_, why)) = WITHOUT_JSON.iter().find(|(other, _)| *other == name) {
            let message = format!("stasis {name} takes no --json: {why}");
            answer::fail(Code::Usage, &message, WRONG_WORDS);
            description().error(ErrorKind::ArgumentConflict, message).exit();
        }
    }
    begin::answered(run(command, common.quiet)?)
}

/// The parser's error, or one that says why a branch needs a moment.
fn without_moment(error: clap::Error, words: &[String]) -> clap::Error {
    let has = |option: &str| {
        let mut own = words.iter().take_while(|word| *word != "--");
        own.any(|word| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    if error.kind() != ErrorKind::MissingRequiredArgument || !has("--branch") || has("--from") {
        return error;
    }
    let text = "--branch: a branch is another run from a moment on, and begins at a snapshot that the run has \
                kept already: run once with --snapshots, then without it with --branch and --from \
                TIME, last, end, io:DRIVE:ORDER or output:REGEX";
    description().error(ErrorKind::MissingRequiredArgument, text)
}

/// The parser's error with the nearest command, where it knows none: swapped letters are far apart to it.
fn suggested(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if error.get(ContextKind::SuggestedSubcommand).is_none() {
        let all = description();
        let names = all.get_subcommands().map(clap::Command::get_name);
        if let Some(name) = stasis_config::nearest(word, names) {
            let names = ContextValue::Strings(vec![name.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, names);
        }
    }
    error
}

fn run(command: Command, quiet: bool) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => commands::run::main(*arguments, quiet),
        Command::On(arguments) => commands::on::main(*arguments, quiet),
        Command::Shell(arguments) => commands::guest_shell::main(*arguments, made, quiet),
        Command::Debug(arguments) => commands::debug::main(*arguments, made, quiet),
        Command::CrashTest(arguments) => commands::crash_test::main(&arguments),
        Command::Explore(arguments) => commands::explore::main(&arguments),
        Command::Sim(arguments) => stasis_simulation::main(&arguments, quiet),
        Command::Sweep(arguments) => commands::sweep::main(&arguments),
        Command::Compare(arguments) => commands::compare::main(&arguments, quiet),
        Command::Inspect(arguments) => commands::inspect::main(&arguments),
        Command::Why(arguments) => commands::why::main(&arguments),
        Command::Export(arguments) => commands::export::main(&arguments, quiet),
        Command::Archive(arguments) => commands::archive::main(&arguments, made, quiet),
        Command::Repeat(arguments) => commands::archive::repeat(&arguments, made, quiet),
        Command::Page(arguments) => commands::page::main(&arguments),
        Command::Serve(arguments) => commands::serve::main(&arguments),
        Command::Beside(command) => beside::become_program(command.program()),
        Command::Guest(GuestCommand::Build(arguments)) => commands::guest::build(arguments),
        Command::Guest(GuestCommand::List) => commands::guest::list(),
        Command::Guest(GuestCommand::Remove { names }) => commands::guest::remove(&names),
        Command::Cache { command } => commands::cache::main(command.as_ref()),
        Command::Import(arguments) => commands::import::main(&arguments),
        Command::Image(command) => commands::image::image(&command),
        Command::Models(arguments) => {
            commands::models::main(arguments.model.as_deref(), arguments.json)
        }
        Command::Calibrate(arguments) => commands::calibrate::main(&arguments),
        Command::Schema { files } => commands::schema::main(files),
        Command::Doctor(arguments) => commands::doctor::main(&arguments),
        Command::GuestClock(arguments) => stasis_precision::guest_clock(&arguments),
        Command::Completions { shell } => commands::shell::completions(Cli::command(), shell),
        Command::Man { folder } => commands::shell::pages(Cli::command(), folder.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_experiment::DriveSpec;
    use stasis_program::help::text::Sections;

    /// Each command with its words, but the hidden ones.
    fn each(command: &clap::Command, words: &[&str], act: &mut dyn FnMut(&[&str], &clap::Command)) {
        act(words, command);
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            if below.get_name() != "help" {
                each(below, &[words, &[below.get_name()]].concat(), act);
            }
        }
    }

    fn sections(command: &clap::Command) -> Sections {
        Sections::of(&command.get_after_help().map(ToString::to_string).unwrap_or_default())
    }

    #[test]
    fn every_example_is_a_command_line_that_is_accepted() {
        let mut examples_seen = 0;
        each(&Cli::command(), &["stasis"], &mut |words, command| {
            let examples = sections(command).examples;
            assert!(!examples.is_empty(), "{words:?} has no example");
            let own = examples.iter().filter(|line| line.contains(&words.join(" ")));
            assert!(own.count() > 0, "{words:?} has no example of its own");
            for line in examples.iter().filter(|line| line.trim_start().starts_with("stasis ")) {
                for part in shell_words(line).split(|word| word == "&&") {
                    if part[0] != "stasis" {
                        continue;
                    }
                    examples_seen += 1;
                    let part = part.join("\u{1f}");
                    let parsed = Cli::try_parse_from(part.split('\u{1f}'));
                    let parsed = parsed.unwrap_or_else(|error| panic!("{part}: {error}"));
                    if let Command::Run(arguments) = parsed.command {
                        for drive in arguments.machine.drive {
                            // A profile is read where the model is.
                            if !drive.contains("profile:") {
                                DriveSpec::parse(&drive)
                                    .unwrap_or_else(|error| panic!("{part}: {error}"));
                            }
                        }
                    }
                }
            }
        });
        assert!(examples_seen > 60, "{examples_seen} examples");
    }

    /// The words of a line up to a comment or an operator, without quotes.
    fn shell_words(line: &str) -> Vec<String> {
        let line = line.split("  #").next().unwrap();
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, ' ') => words.extend(word.take()),
                (None, '>' | '|') => break,
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        let mut commands = 0;
        each(&description(), &["stasis"], &mut |words, command| {
            commands += 1;
            let help = command.clone().render_help().to_string();
            let long: Vec<_> = help.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(long.is_empty(), "{words:?}: {long:#?}");
        });
        assert!(commands > 30, "{commands} commands");
    }
}
