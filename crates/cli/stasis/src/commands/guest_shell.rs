//! `stasis shell`: a terminal in the guest, from its beginning or at a moment of a run.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use stasis_results::Ios;
use stasis_runner::{Branched, Results, Runner};
use stasis_terminal::{stop_on_signals, Interactive, Terminal};

use super::archive::{Made, Parse};
use super::run;
use super::stopped::Stopped;
use super::symbols;
use crate::arguments::{MachineArguments, RunArguments, ShellArguments};

/// The default command: bash, or the guest's /bin/sh where its root has no bash.
const SHELL: [&str; 3] =
    ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash -l; exec /bin/sh -l"];

/// `stasis shell`; `parse` reads command lines.
pub fn main(arguments: ShellArguments, parse: Parse, quiet: bool) -> Result<ExitCode> {
    if arguments.moment.is_named() {
        return branch(arguments, parse, quiet);
    }
    let ShellArguments { experiment: file, machine, results, command, on, .. } = arguments;
    if on.is_some() {
        bail!(
            "--machine names where a shell --at a moment runs; this one has a machine of its own"
        );
    }
    let (console, keeps) = (machine.console, results.is_some());
    let (mut experiment, base) =
        run::experiment(file.as_deref(), machine, results, |experiment| {
            experiment.command = command_or_shell(command);
            if experiment.guest.image.is_some()
                || experiment.guest.root.as_deref().is_some_and(|root| root != "host")
            {
                // An image's entry point would be given the shell as its arguments.
                experiment.machine.container.entrypoint = Some(Vec::new());
            }
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
    tell(&run, keeps && !quiet);
    Ok(ExitCode::from(run.status))
}

fn command_or_shell(command: Vec<String>) -> Vec<String> {
    match command.is_empty() {
        true => SHELL.map(String::from).to_vec(),
        false => command,
    }
}

/// A run's last words; `kept`: its results are the user's.
fn tell(run: &Results, kept: bool) {
    if kept {
        stasis_terminal::tell(&stasis_report::text_summary(&run.summary));
        stasis_terminal::say!("report: {}", run.folder.join(stasis_results::REPORT_FILE).display());
    }
    if let Some(message) = &run.message {
        stasis_terminal::say!("stasis: {message}");
    }
}

/// `stasis shell --at`: the run goes to its moment, and is another from there on.
fn branch(arguments: ShellArguments, parse: Parse, quiet: bool) -> Result<ExitCode> {
    let ShellArguments { experiment: file, machine, moment, on, results, command } = arguments;
    if moment.is_panic() {
        bail!(
            "nothing runs in a guest whose kernel has panicked: `stasis debug --at-panic` looks at it"
        );
    }
    if file.is_none() {
        bail!("--at is a moment of a run: name its experiment, or the folder of its results");
    }
    let Made::Run(none) = parse(&["run".to_owned()])? else { bail!("there is no run") };
    let (console, keeps) = (machine.console, results.is_some());
    // The console is no part of the run.
    let machine = MachineArguments { console: false, ..machine };
    let words = RunArguments { experiment: file, machine, results, ..*none };
    let stopped = Stopped::of(&words, parse, false)?;
    let again = stopped.run.arguments.clone();
    if again.power_cut.is_some() {
        bail!("the run's power was cut (--power-cut): a branch is one of a run without");
    }
    let ios = if keeps { again.ios } else { Ios::None };
    let (mut experiment, base) = run::joined(again)?;
    stopped.complete(&mut experiment);
    if experiment.guest.stdin.is_none() {
        experiment.guest.stdin.clone_from(&stopped.run.stdin);
    }
    // A person has time.
    experiment.wall_limit = None;
    let stop = stop_on_signals()?;
    let symbols = symbols::of_guest(&experiment, &base, &stop)?;
    let snapshot = moment.snapshot(stopped.results.as_deref());
    let is_alone = command.is_empty();
    let mut branched = Branched {
        at: moment.moment(Some(&symbols))?,
        machine: on,
        command: command_or_shell(command),
        call: symbols.call()?,
        terminal: None,
    };
    let start = |branched: &Branched, observer: &mut dyn stasis_runner::Observer| {
        let runner = Runner::new(&experiment).base(&base).stop(&stop).ios(ios);
        runner.snapshots(Some(snapshot)).branched(branched).run(observer)
    };
    // A command whose output goes elsewhere needs no terminal.
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let (run, has_branched) = match is_alone || has_terminal {
        true => {
            let mut terminal = Interactive::new(console, &stop)?.of_branch();
            branched.terminal = Some(terminal.attended());
            let mut observer = stasis_terminal::Branched::new(&mut terminal, quiet);
            let run = start(&branched, &mut observer);
            let has_branched = observer.has_branched();
            // The terminal is the user's again before any message on it.
            drop(terminal);
            (run?, has_branched)
        }
        false => {
            let mut terminal = Terminal::new(console);
            let mut observer = stasis_terminal::Branched::new(&mut terminal, quiet);
            let run = start(&branched, &mut observer)?;
            (run, observer.has_branched())
        }
    };
    tell(&run, keeps && !quiet);
    match has_branched {
        true => Ok(ExitCode::from(run.status)),
        false => bail!("the moment has not come: the run ended before, with status {}", run.status),
    }
}
