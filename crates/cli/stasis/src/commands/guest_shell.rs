//! `stasis shell`: a terminal in the guest.

use std::process::ExitCode;

use anyhow::{Context, Result};
use stasis_report::Ios;
use stasis_runner::Runner;
use stasis_terminal::{stop_on_signals, Interactive};

use crate::arguments::ShellArguments;
use crate::commands::run::experiment;

/// The default command: bash, or the guest's /bin/sh where its root has no bash.
const SHELL: [&str; 3] =
    ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash -l; exec /bin/sh -l"];

/// `stasis shell`.
pub fn main(arguments: ShellArguments, quiet: bool) -> Result<ExitCode> {
    let ShellArguments { experiment: file, machine, results, command } = arguments;
    let (console, keeps) = (machine.console, results.is_some());
    let (mut experiment, base) = experiment(file.as_deref(), machine, results, |experiment| {
        experiment.command = match command.is_empty() {
            true => SHELL.map(String::from).to_vec(),
            false => command,
        };
    })?;
    // The terminal is the standard input.
    experiment.guest.stdin = None;
    let stop = stop_on_signals()?;
    let mut terminal = Interactive::new(console, &stop)?;
    // A session is kept only where a folder is given for it.
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let ios = if keeps { Ios::Parquet } else { Ios::None };
    if !keeps {
        experiment.results = Some(folder.path().join("results"));
    }
    let attended = terminal.attended();
    let runner = Runner::new(&experiment).base(&base).stop(&stop).ios(ios).terminal(&attended);
    let run = runner.run(&mut terminal);
    // The terminal is the user's again before any message on it.
    drop(terminal);
    let run = run?;
    if keeps && !quiet {
        eprint!("{}", stasis_report::text_summary(&run.summary));
        eprintln!("report: {}", run.folder.join(stasis_report::REPORT_FILE).display());
    }
    if let Some(message) = &run.message {
        eprintln!("stasis: {message}");
    }
    Ok(ExitCode::from(run.status))
}
