//! Crash tests: an experiment runs once, with a trace of all requests to its drives, and the power
//! is cut many times; each possible disk after a cut is compared with the promises made, and
//! inspected by a check in a guest.
//!
//! [`CrashTest`] is `stasis crash-test`, [`power_cut`] is `stasis run --power-cut`. The crate
//! `stasis-crash` models the states after a power cut, and the promises.
//!
//! Promises:
//! - Media of the experiment stay as they are: the test uses copies.
//! - State N of a seed is the same however many are drawn.
//! - A test that is stopped reports the states inspected until then.

mod check;
mod disks;
mod evidence;
mod groups;
mod inspections;
mod junit;
mod keep_disks;
mod namer;
mod names;
mod page;
pub mod power_cut;
mod qemu_img;
mod report;
mod session;
#[cfg(test)]
mod tests;
mod together;

use std::io::{Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use stasis_crash::{Cut, Fault, StateSampler};
use stasis_experiment::Experiment;
use stasis_guest_image::Guest;
use stasis_results::ResultsFolder;
use stasis_runner::provenance::Provenance;
use stasis_runner::{guest, input, Event, Observer, Runner, TraceOptions, OUTPUT_FILE};

use check::{CheckSetup, GuestCheck};
pub use evidence::{Evidence, LostChange, NearEvent};
pub use groups::Group;
pub use report::Report;
use session::{Control, Session, StateChecks};
pub use session::{Finding, Kind, Outcome};
use together::Together;

/// Name of the file with the report.
pub const FILE: &str = stasis_results::CRASH_TEST_FILE;
/// Name of the page with the report.
pub const PAGE: &str = stasis_results::CRASH_TEST_PAGE;

/// A test that is to be run.
#[derive(Debug)]
pub struct CrashTest<'a> {
    /// The experiment, finished, with its folder for results.
    pub experiment: &'a Experiment,
    /// The experiment's file, for the commands that repeat findings.
    pub path: &'a Path,
    /// Folder at which the experiment's relative paths start.
    pub base: &'a Path,
    /// Number of power cuts.
    pub states: u64,
    /// Only the state with this number.
    pub state: Option<u64>,
    /// Seed of the power cuts.
    pub seed: u64,
    /// The folder of an earlier test, whose trace is used in place of a run.
    pub trace: Option<&'a Path>,
    /// A log of Linux's dm-log-writes of the experiment's one drive, which is read in place of a
    /// run.
    pub log_writes: Option<&'a Path>,
    /// With a log, the disk as it was before it, in place of the drive's medium.
    pub before: Option<&'a Path>,
    /// A shell's command that inspects each state in a guest; by default the experiment's.
    pub check: Option<&'a str>,
    /// Time limit of a check, in virtual time of its guest; by default the experiment's.
    pub check_limit: Option<Duration>,
    /// True if a flush covers nothing that was in flight when it was submitted; the experiment's
    /// `strict` has the same effect.
    pub strict: bool,
    /// Interval of the check: it runs on one of this many states.
    pub check_every: u64,
    /// Number of guests that check at the same time; by default one for each processor.
    pub checkers: Option<NonZeroUsize>,
    /// A fault to inject below the drives as the guest sees them.
    pub fault: Option<Fault>,
    /// True if the disks of the state `state`, or else of the first finding's state, are left as
    /// files in the results folder.
    pub keep_disk: bool,
    /// File for the findings as tests in JUnit's XML.
    pub junit: Option<&'a Path>,
}

/// Results of a test.
#[derive(Debug)]
pub struct Tested {
    /// The report.
    pub report: Report,
    /// The report as JSON, as in [`Tested::file`].
    pub json: String,
    /// The file with the report.
    pub file: PathBuf,
    /// The page with the report.
    pub page: PathBuf,
}

impl CrashTest<'_> {
    /// Runs the test. `stop` ends it early once it is set.
    ///
    /// # Errors
    /// If the experiment cannot be traced, or a state cannot be made. A finding is no error: see
    /// [`Report::outcome`].
    pub fn run(&self, stop: &Arc<AtomicBool>, observer: &mut dyn Observer) -> Result<Tested> {
        let machines = self.experiment.machine.several().len();
        if machines > 0 {
            bail!("{}: {}", self.path.display(), of_one_machine("a crash test", machines));
        }
        if self.experiment.drives.is_empty() {
            bail!("{}: it has no drives to cut the power of", self.path.display());
        }
        if self.states == 0 && self.state.is_none() {
            bail!("--states 0: no power cut would be looked at; ask for one at least");
        }
        let mut inputs = vec![self.path.to_owned()];
        inputs.extend(input::paths(self.experiment, self.base));
        // An earlier run's trace is a folder of disks: the command names it.
        let read = inputs.clone();
        inputs.extend(
            [self.trace, self.log_writes, self.before].into_iter().flatten().map(Path::to_owned),
        );
        let folder = self.experiment.results.clone().unwrap_or_else(|| "results".into());
        if let Some(path) = self.junit {
            stasis_runner::check_output(path, &folder, &inputs)?;
        }
        let provenance = Provenance::begin(true).reading(&read);
        let mut tracing = TraceOptions { folder: folder.clone(), fault: self.fault };
        match (self.trace, self.log_writes) {
            (Some(earlier), _) => earlier.clone_into(&mut tracing.folder),
            (None, Some(log)) => self.read_log(log, &folder, &inputs, observer)?,
            (None, None) => self.run_traced(&tracing, stop, observer)?,
        }
        let mut results = ResultsFolder::join(&folder)?;
        let strict = self.strict || self.experiment.strict;
        let session = Session::open(&tracing.file(), strict)?;
        let plan = session.plan(self.seed);
        let overlapping = session.overlapping_flushes();
        if overlapping > 0 && !strict {
            observer.event(Event::Warning(&overlap_warning(overlapping)))?;
        }
        let check = self.check.or(self.experiment.check.as_deref());
        let (session, outcome, seconds) = match check {
            None => self.explore(session, &plan, stop, observer)?,
            Some(command) => {
                let files = input::Input::pack(self.experiment, self.base)?.of(0);
                let guest = made(self.experiment, stop, observer)?;
                let limit = self.check_limit.unwrap_or(self.experiment.check_limit());
                let setup = CheckSetup { guest, command, files: &files, limit, stop };
                self.explore_in_guests(session, &plan, &tracing.file(), &setup, observer)?
            }
        };
        let disks = match self.keep_disk {
            true => self.keep(&plan, &outcome, &tracing.file(), &mut results, observer)?,
            false => Vec::new(),
        };
        let mut report = Report::new(self, &session, &plan, outcome, seconds, &tracing, provenance);
        report.disks = disks;
        if !report.outcome.findings.is_empty() && !stop.load(Ordering::Relaxed) {
            // The findings are there whether or not a guest can name anything.
            if let Err(error) = self.name(&mut report, &tracing.file(), &plan, stop, observer) {
                report.cannot_name(&format!("{error:#}"));
            }
        }
        observer.event(Event::Ended)?;
        let (file, page) = (results.file(FILE)?, results.file(PAGE)?);
        let json = serde_json::to_string_pretty(&report).context("cannot write the report")?;
        std::fs::write(&file, &json).with_context(|| format!("cannot write {}", file.display()))?;
        stasis_report::page::write(&folder, PAGE, &report.to_html())?;
        if let Some(path) = self.junit {
            report.to_junit().write(path)?;
        }
        Ok(Tested { report, json, file, page })
    }

    /// Runs the experiment and leaves its trace.
    fn run_traced(
        &self,
        tracing: &TraceOptions,
        stop: &Arc<AtomicBool>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let runner = Runner::new(self.experiment).base(self.base).stop(stop).keep_output();
        let runner = runner.reading(vec![self.path.to_owned()]);
        let run = runner.trace(tracing).run(observer)?;
        if run.status != 0 {
            let message = run.message.unwrap_or_default();
            // The output there is another run's.
            ensure!(
                run.are_written,
                "the run that is to be traced ended with status {}: {message}",
                run.status
            );
            let output = run.folder.join(OUTPUT_FILE);
            bail!(
                "the run that is to be traced ended with status {}: {message} (its output is in {})\n{}",
                run.status,
                output.display(),
                last_lines(&output)
            );
        }
        Ok(())
    }

    /// Reads a log of dm-log-writes as the trace of a run, in `folder`.
    fn read_log(
        &self,
        log: &Path,
        folder: &Path,
        inputs: &[PathBuf],
        observer: &mut dyn Observer,
    ) -> Result<()> {
        observer.event(Event::Step { name: "reading the log", fraction: None })?;
        let mut results = ResultsFolder::claim(folder, inputs)?;
        let experiment = self.experiment;
        let read =
            stasis_runner::trace_of_log(experiment, self.base, log, self.before, &mut results)?;
        results.finished()?;
        if read.ambiguous > 0 {
            observer.event(Event::Warning(&ambiguity_warning(read.ambiguous)))?;
        }
        Ok(())
    }

    /// Names in a guest what lies at the places of lost writes.
    fn name(
        &self,
        report: &mut Report,
        trace: &Path,
        plan: &StateSampler,
        stop: &Arc<AtomicBool>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let guest = made(self.experiment, stop, observer)?;
        observer.event(Event::Step { name: "naming what is lost", fraction: None })?;
        let mut session = Session::open(trace, self.strict || self.experiment.strict)?;
        report.name(&mut session, plan, guest, stop)
    }

    /// Leaves the disks of a state as files.
    fn keep(
        &self,
        plan: &StateSampler,
        outcome: &Outcome,
        trace: &Path,
        results: &mut ResultsFolder,
        observer: &mut dyn Observer,
    ) -> Result<Vec<PathBuf>> {
        let Some(state) = self.state.or(outcome.findings.first().map(|finding| finding.state))
        else {
            let none = "--keep-disk: nothing was found, so no disk is kept; --state N keeps that of state N";
            observer.event(Event::Warning(none))?;
            return Ok(Vec::new());
        };
        observer.event(Event::Step { name: "writing the state's disk", fraction: None })?;
        let mut session = Session::open(trace, self.strict || self.experiment.strict)?;
        let cut = plan.cut(&session.trace, state);
        let (files, remarks) = session.keep(&cut, results)?;
        for remark in remarks {
            observer.event(Event::Warning(&remark))?;
        }
        Ok(files)
    }

    /// The numbers of the states that are looked at: those that decide are always among them.
    pub(crate) fn numbers(&self, plan: &StateSampler) -> std::ops::Range<u64> {
        match self.state {
            Some(number) => number..number.saturating_add(1),
            None => 0..self.states.max(plan.fixed()),
        }
    }

    /// Interval of the check. A state that is asked for is checked.
    pub(crate) fn interval(&self) -> u64 {
        if self.state.is_some() {
            1
        } else {
            self.check_every
        }
    }

    fn explore(
        &self,
        mut session: Session,
        plan: &StateSampler,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(Session, Outcome, f64)> {
        let rounds = plan.rounds(&session.trace, self.numbers(plan));
        let begun = Instant::now();
        let mut image_checker = qemu_img::finds;
        let mut checks = StateChecks {
            image_checker: Some(&mut image_checker),
            image_checker_every: 500,
            ..StateChecks::default()
        };
        let total = rounds.iter().map(Vec::len).sum::<usize>() as u64;
        let mut outcome = Outcome::default();
        let mut observed = Ok(());
        for cuts in &rounds {
            session.explore(cuts, &mut checks, &mut outcome, |outcome| {
                if outcome.cuts.is_multiple_of(16) {
                    observed = counted(observer, "power cuts", outcome.cuts, total);
                }
                observed.is_ok() && !stop.load(Ordering::Relaxed)
            })?;
            if outcome.stopped {
                break;
            }
        }
        observed?;
        outcome.findings.sort_by_key(|finding| (finding.at, finding.state));
        Ok((session, outcome, begun.elapsed().as_secs_f64()))
    }

    /// Inspects the states with a check, in several guests at once: first the disks without any
    /// loss, then each state, then each finding alone.
    fn explore_in_guests(
        &self,
        mut session: Session,
        plan: &StateSampler,
        trace: &Path,
        setup: &CheckSetup<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(Session, Outcome, f64)> {
        let stop = setup.stop;
        let rounds = plan.rounds(&session.trace, self.numbers(plan));
        let total = rounds.iter().map(Vec::len).sum::<usize>();
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = self.checkers.map_or_else(processors, usize::from).min(total.max(1));
        let first = GuestCheck::new(setup, &session.trace)?;
        let mut checks: Vec<GuestCheck> = (0..count).map(|_| first.another()).collect();
        observer.event(Event::Step { name: "checking what nothing is lost of", fraction: None })?;
        let names = checks[0].names();
        if let Some(names) = checks[0].other_names() {
            observer.event(Event::Warning(&names))?;
        }
        let begun = Instant::now();
        match session.control(&mut checks[0]) {
            _ if stop.load(Ordering::Relaxed) => {
                let outcome = Outcome { stopped: true, ..Outcome::default() };
                return Ok((session, outcome, begun.elapsed().as_secs_f64()));
            }
            controlled => {
                if let Some((control, description)) = controlled? {
                    bail!("{}", control_failed(control, &description, &names));
                }
            }
        }
        let mut observed = Ok(());
        let strict = session.is_strict();
        let check_every = self.interval();
        let together = Together { trace, strict, rounds: &rounds, check_every, oracle: true };
        let total = total as u64;
        let mut outcome = together::explore(&together, checks, stop, |done| {
            if observed.is_ok() {
                observed = counted(observer, "power cuts", done, total);
            }
        })?;
        observed?;
        let seconds = begun.elapsed().as_secs_f64();
        // Each finding alone, in a guest that has seen nothing else and has a clock of its own.
        let (mut from, mut calm) = (0, None);
        while let Some(tried) = repeats(&outcome.findings, &mut from) {
            if outcome.stopped || stop.load(Ordering::Relaxed) {
                break;
            }
            let chosen = rounds.iter().flatten().filter(|cut| tried.contains(&cut.number));
            let mut again: Vec<Cut> = chosen.copied().collect();
            again.sort_by_key(|cut| (cut.point, cut.number));
            let calm = calm.get_or_insert_with(|| first.alone());
            let alone = (0..count.min(again.len())).map(|_| calm.another()).collect();
            let many = again.len() as u64;
            let again = [again];
            let together =
                Together { trace, strict, rounds: &again, check_every: 1, oracle: false };
            let mut observed = Ok(());
            let repeated = together::explore(&together, alone, stop, |done| {
                if observed.is_ok() {
                    observed = counted(observer, "findings repeated", done, many);
                }
            })?;
            observed?;
            if repeated.stopped {
                break;
            }
            for finding in outcome.findings.iter_mut().filter(|f| tried.contains(&f.state)) {
                if finding.kind.is_of_a_check() {
                    let again = |other: &Finding| other.state == finding.state;
                    finding.repeats = Some(repeated.findings.iter().any(again));
                }
            }
        }
        outcome.keep_what_repeats();
        Ok((session, outcome, seconds))
    }
}

/// Limit on the findings that are repeated whatever comes of it. The start of a guest whose boot is
/// kept takes some 0.3 s for each.
pub(crate) const REPEATED: usize = 200;

/// The states of the next findings that are to be repeated alone: all of them, or if there are more
/// than [`REPEATED`], that many, spread over all. Where one of those does not repeat, the others
/// follow, [`REPEATED`] at a time.
fn repeats(findings: &[Finding], from: &mut usize) -> Option<Vec<u64>> {
    let of_checks = || findings.iter().filter(|finding| finding.kind.is_of_a_check());
    let step = of_checks().count().div_ceil(REPEATED).max(1);
    let chosen: Vec<u64> = match *from {
        0 => of_checks().step_by(step).map(|finding| finding.state).collect(),
        _ if of_checks().all(|finding| finding.repeats != Some(false)) => Vec::new(),
        _ => {
            let open = of_checks().filter(|finding| finding.repeats.is_none());
            open.take(REPEATED).map(|finding| finding.state).collect()
        }
    };
    *from += 1;
    (!chosen.is_empty()).then_some(chosen)
}

/// Message about a failed control, after which no state is inspected.
fn control_failed(control: Control, description: &str, names: &str) -> String {
    let (when, hint) = match control {
        Control::Before => (
            "before the command began, with no line written",
            "A check must pass there too, for example by `[ \"$STASIS_LINE_COUNT\" -gt 0 ] || exit 0` \
             in front of everything else",
        ),
        Control::Completed => (
            "when the command had ended, with nothing lost",
            "Either the check is wrong, or the command leaves such disks without any power cut",
        ),
    };
    format!(
        "the check fails on the disks as they were {when}, so no power cut was looked at: {}\n{hint}. \
         In its guest the drives are {names}, as in the tested one",
        description.trim_end()
    )
}

/// Message of the refusal of several machines.
pub(crate) fn of_one_machine(subject: &str, machines: usize) -> String {
    format!(
        "{subject} is of one machine, and the experiment has {machines} ([[machine]]): describe one in \
         [machine]; or let machines lose their power while the run goes on, by a [[fault]] of the \
         kind `power-cut`, and look for what was promised in a machine's command"
    )
}

/// Warning for the user about flushes that cover a write in flight.
fn overlap_warning(count: u64) -> String {
    let (flushes, cover) = if count == 1 { ("flush", "covers") } else { ("flushes", "cover") };
    format!(
        "{count} {flushes} of the guest {cover} a write that was still in flight: the drives here make \
         it durable, and NVMe does not ask that of a drive; `strict = true` or --strict loses it"
    )
}

/// Warning for the user about changes whose order a log of dm-log-writes does not have.
fn ambiguity_warning(count: u64) -> String {
    format!(
        "{count} of the log's entries change what a durable write (FUA) before them wrote, with no \
         flush between: dm-log-writes logs a durable write first even where it came last; they are \
         taken in the log's order, as replay-log does"
    )
}

fn counted(
    observer: &mut dyn Observer,
    units: &'static str,
    done: u64,
    total: u64,
) -> std::io::Result<()> {
    observer.event(Event::Counted { units, done, total })
}

/// Lines of a failed run's output that are shown.
const LAST_LINES: usize = 10;
/// Maximum number of bytes of these lines.
const LAST_BYTES: u64 = 4 << 10;

/// The end of a run's output.
fn last_lines(output: &Path) -> String {
    let read = || {
        let mut file = std::fs::File::open(output)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end).map(|_| end)
    };
    let end = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&end);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    match last.is_empty() {
        true => "It printed nothing.".to_owned(),
        false => format!("The end of its output:\n  {}", last.join("\n  ")),
    }
}

/// The experiment's guest, for a check.
fn made(experiment: &Experiment, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Guest> {
    let mut observed = Ok(());
    let guest = guest::ensure(&guest::recipe_of(experiment), stop, &mut |name, fraction| {
        if observed.is_ok() {
            observed = observer.event(Event::Step { name, fraction });
        }
    })?;
    observed?;
    observer.event(Event::Prepared)?;
    Ok(guest)
}
