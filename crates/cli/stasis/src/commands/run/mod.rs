//! `stasis run`: one experiment from its words to its report.

mod branches;
mod described;
mod ending;
pub mod snapshots;
pub mod stdin;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{anyhow, ensure, Result};
use stasis_block::units;
use stasis_crash_test::power_cut;
use stasis_experiment::{Engine, Experiment};
use stasis_runner::{check_output, Debugged, LivePage, Profiled, Runner, Snapshotted, OUTPUT_FILE};
use stasis_terminal::{answer, stop_on_signals, Terminal};

use super::symbols;
use crate::arguments::RunArguments;

pub(super) use described::{experiment, joined};
use ending::finished;

/// `stasis run`.
pub fn main(arguments: RunArguments, quiet: bool) -> Result<ExitCode> {
    changed(arguments, stdin::Source::Own, quiet, |_| ())
}

/// Like [`changed`], but a debugger takes hold of the run, which may begin at a snapshot.
pub(super) fn debugged(
    arguments: RunArguments,
    stdin: stdin::Source,
    quiet: bool,
    change: impl FnOnce(&mut Experiment),
    debugger: (&Debugged, Snapshotted, Arc<AtomicBool>),
) -> Result<ExitCode> {
    whole(arguments, stdin, quiet, change, Some(debugger))
}

/// Like [`main`], but with another standard input, and a change of the experiment that no argument
/// describes.
pub(super) fn changed(
    arguments: RunArguments,
    stdin: stdin::Source,
    quiet: bool,
    change: impl Fn(&mut Experiment),
) -> Result<ExitCode> {
    match arguments.snapshots.branches()? {
        Some(wish) => branches::main(&arguments, &wish, stdin, quiet, &change),
        None => whole(arguments, stdin, quiet, change, None),
    }
}

fn whole(
    arguments: RunArguments,
    stdin: stdin::Source,
    quiet: bool,
    change: impl FnOnce(&mut Experiment),
    debugger: Option<(&Debugged, Snapshotted, Arc<AtomicBool>)>,
) -> Result<ExitCode> {
    let (show_console, ios, timeline) =
        (arguments.machine.console, arguments.ios, arguments.timeline);
    let power_cut = arguments.power_cut;
    let file: Vec<_> = arguments.experiment.iter().cloned().collect();
    let interval = arguments.profile.as_deref().map(interval).transpose()?;
    let guest_times = arguments.guest_times;
    let (junit, live) = (arguments.expect.junit.clone(), arguments.live);
    ensure!(!arguments.snapshots.has_branches(), "a branch has no debugger: leave --branch out");
    let snapshots = arguments.snapshots.snapshotted()?;
    let (mut experiment, base) = joined(arguments)?;
    change(&mut experiment);
    let samples = interval.is_some() || guest_times;
    if (samples || snapshots.is_some()) && experiment.engine == Engine::Auto {
        experiment.engine = Engine::Exact;
    }
    let (debugged, snapshots, stop) = match debugger {
        Some((debugged, snapshot, stop)) => (Some(debugged), Some(snapshot), stop),
        None => (None, snapshots, stop_on_signals()?),
    };
    let profiled = match samples {
        true => Some(profiled(&experiment, &base, &stop, interval, guest_times)?),
        false => None,
    };
    let own = match (&experiment.guest.stdin, &stdin) {
        (None, stdin::Source::Own) => stdin::given()?,
        _ => None,
    };
    let kept = match stdin {
        stdin::Source::Kept(file) => file,
        stdin::Source::Own => own.as_ref().map(|file| file.path().to_owned()),
    };
    let given = kept.filter(|_| experiment.guest.stdin.is_none());
    experiment.guest.stdin = experiment.guest.stdin.take().or_else(|| given.clone());
    if let Some(path) = &junit {
        let inputs = stasis_runner::input::paths(&experiment, &base).into_iter();
        let folder = experiment.results.as_deref().unwrap_or(Path::new("results"));
        check_output(path, folder, &inputs.chain(file.iter().cloned()).collect::<Vec<_>>())?;
    }
    let page = live.map(|port| live_page(port, quiet)).transpose()?;
    let limit = experiment.virtual_limit;
    let terminal = &mut Terminal::new(show_console).until(limit);
    let run = match power_cut {
        Some(when) => {
            power_cut::run(&experiment, &base, (file, given), &stop, ios, when, terminal)?
        }
        None => {
            let mut runner = Runner::new(&experiment).base(&base).stop(&stop).ios(ios);
            // The page's title is the experiment's name; without a file it is the command.
            if let Some(name) = file.first().and_then(|path| path.file_name()) {
                runner = runner.title(name.to_string_lossy());
            }
            runner = runner.profiled(profiled.as_ref()).snapshots(snapshots).live(page);
            if let Some(debugged) = debugged {
                runner = runner.debugged(debugged);
            }
            if answer::is_json() {
                answer::put("output", &output_file(&experiment))?;
                runner = runner.keep_output();
            }
            runner.reading(file).given(given).timeline(timeline).run(terminal)?
        }
    };
    if let Some(path) = junit {
        let title = format!("stasis run: {}", experiment.command.join(" "));
        stasis_report::to_junit(&title, &[("run", &run.summary)]).write(&path)?;
    }
    finished(&run, quiet)
}

/// The file of the command's output, where it is kept.
fn output_file(experiment: &Experiment) -> PathBuf {
    experiment.results.as_deref().unwrap_or(Path::new("results")).join(OUTPUT_FILE)
}

/// A page of the run while it goes on, at a port of this machine; 0 for a free one.
fn live_page(port: u16, quiet: bool) -> Result<Arc<LivePage>> {
    let begins = stasis_report::page::Page {
        title: "A run that begins".to_owned(),
        subtitle: "The guest boots; the page follows.".to_owned(),
        ..Default::default()
    };
    let page = Arc::new(LivePage::new(begins.to_html()));
    let address = stasis_terminal::live::serve(&page, port)?;
    // Without the address nobody finds it.
    if !quiet || port == 0 {
        stasis_terminal::say!("live: http://{address}/");
    }
    Ok(page)
}

/// The interval of a profile, in words (ns).
fn interval(word: &str) -> Result<u64> {
    let interval = units::parse_duration(word).map_err(|error| anyhow!("--profile: {error}"))?;
    match interval {
        0 => Err(anyhow!("--profile: 0s is no interval; 100us costs little, 10us more")),
        interval => Ok(interval),
    }
}

/// The samples of the experiment's run, and whether the time of its I/Os in the guest is kept, with
/// the names of its kernel's functions.
fn profiled(
    experiment: &Experiment,
    base: &Path,
    stop: &Arc<AtomicBool>,
    interval: Option<u64>,
    guest_times: bool,
) -> Result<Profiled> {
    if experiment.engine != Engine::Exact {
        return Err(match interval {
            Some(_) => anyhow!("a profile needs the engine exact, whose samples take no time"),
            None => anyhow!("--guest-times needs the engine exact, whose stops take no time"),
        });
    }
    let symbols = symbols::of_guest(experiment, base, stop)?;
    let (functions, orc) = (symbols.functions(), symbols.orc());
    let symbols::Layout { threads, modules, places } = symbols.layout(guest_times)?;
    Ok(Profiled { interval, symbols: functions, orc, threads, modules, places })
}
