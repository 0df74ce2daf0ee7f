//! Crash tests: an experiment runs once, with a trace of everything that its drives are asked,
//! and the power is cut many times; each disk that can be left is compared with what was
//! promised, and looked at by a check in a guest.
//!
//! [`CrashTest`] is `stasis crash-test`, [`power_cut`] is `stasis run --power-cut`. What a
//! power cut can leave, and what was promised, is the crate `stasis-crash`.
//!
//! Promises:
//! - Media of the experiment stay as they are: what is tested are copies.
//! - State N of a seed is the same however many are drawn.
//! - What was looked at before somebody stopped the test is reported.

mod check;
mod disks;
pub mod power_cut;
mod qemu_img;
mod report;
mod session;
#[cfg(test)]
mod tests;
mod together;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{bail, Context, Result};
use stasis_crash::{Cut, Fault};
use stasis_experiment::Experiment;
use stasis_guest_image::Guest;
use stasis_report::ResultsFolder;
use stasis_runner::provenance::Provenance;
use stasis_runner::{guest, input, Event, Observer, Runner, TraceOptions, OUTPUT_FILE};

use check::GuestCheck;
pub use report::Report;
pub use session::{Finding, Kind, Outcome};
use session::{Session, StateChecks};

/// The file with what came out.
pub const FILE: &str = "crash-test.json";
/// The page of it.
pub const PAGE: &str = "crash-test.html";

/// A test that is to be run.
#[derive(Debug)]
pub struct CrashTest<'a> {
    /// The experiment, finished, with its folder for results.
    pub experiment: &'a Experiment,
    /// Its file, for the commands that repeat findings.
    pub path: &'a Path,
    /// Where its relative paths start.
    pub base: &'a Path,
    /// How many power cuts.
    pub states: u64,
    /// Only the state with this number.
    pub state: Option<u64>,
    /// Seed of the power cuts.
    pub seed: u64,
    /// The folder of an earlier test, whose trace is used in place of a run.
    pub trace: Option<&'a Path>,
    /// A shell's command that inspects each state in a guest; by default the experiment's.
    pub check: Option<&'a str>,
    /// The check runs on one of so many states.
    pub check_every: u64,
    /// How many guests check at the same time; by default one for each processor.
    pub checkers: Option<NonZeroUsize>,
    /// A mistake below what the guest sees.
    pub fault: Option<Fault>,
}

/// What a test left.
#[derive(Debug)]
pub struct Tested {
    /// What came out.
    pub report: Report,
    /// The same as JSON, as it is in [`Tested::file`].
    pub json: String,
    /// The file with what came out.
    pub file: PathBuf,
    /// The page of it.
    pub page: PathBuf,
}

impl CrashTest<'_> {
    /// Runs the test. `stop` ends it early once it is set.
    ///
    /// # Errors
    /// If the experiment cannot be traced or a state not be made. What is wrong with a
    /// state is no error: see [`Report::outcome`].
    pub fn run(&self, stop: &Arc<AtomicBool>, observer: &mut dyn Observer) -> Result<Tested> {
        if self.experiment.drives.is_empty() {
            bail!("{}: it has no drives to cut the power of", self.path.display());
        }
        let provenance = Provenance::begin(true);
        let folder = self.experiment.results.clone().unwrap_or_else(|| "results".into());
        let mut tracing = TraceOptions { folder: folder.clone(), fault: self.fault };
        match self.trace {
            Some(earlier) => earlier.clone_into(&mut tracing.folder),
            None => self.run_traced(&tracing, stop, observer)?,
        }
        let mut results = ResultsFolder::join(&folder)?;
        let session = Session::open(&tracing.file())?;
        let check = self.check.or(self.experiment.check.as_deref());
        let (session, outcome, seconds) = match check {
            None => self.explore(session, stop, observer)?,
            Some(check) => {
                let files = input::pack(&self.experiment.guest, self.base)?;
                let guest = made(self.experiment, observer)?;
                let check = || GuestCheck::new(guest.clone(), check, &files, stop);
                self.explore_in_guests(session, &tracing.file(), check, stop, observer)?
            }
        };
        observer.event(Event::Ended)?;
        let report = Report::new(self, &session, outcome, seconds, &tracing, provenance);
        let (file, page) = (results.file(FILE)?, results.file(PAGE)?);
        let json = serde_json::to_string_pretty(&report).context("cannot write the report")?;
        std::fs::write(&file, &json).with_context(|| format!("cannot write {}", file.display()))?;
        report.page().write(&folder, PAGE)?;
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
        let run = runner.trace(tracing).run(observer)?;
        if run.status != 0 {
            let message = run.message.unwrap_or_default();
            let output = run.folder.join(OUTPUT_FILE);
            bail!(
                "the run that is to be traced ended with status {}: {message} (its output is in {})",
                run.status,
                output.display()
            );
        }
        Ok(())
    }

    /// The states that are asked for.
    fn cuts(&self, session: &Session) -> Vec<Cut> {
        let numbers = match self.state {
            Some(number) => number..number.saturating_add(1),
            None => 0..self.states,
        };
        session.cuts(self.seed, session.trace.span(), numbers)
    }

    fn explore(
        &self,
        mut session: Session,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(Session, Outcome, f64)> {
        let cuts = self.cuts(&session);
        let begun = Instant::now();
        let mut image_checker = qemu_img::finds;
        let mut checks = StateChecks {
            oracle: true,
            check: None,
            check_every: self.check_every,
            image_checker: Some(&mut image_checker),
            image_checker_every: 500,
            keep: None,
        };
        let total = cuts.len() as u64;
        let mut outcome = Outcome::default();
        let mut told = Ok(());
        session.explore(&cuts, &mut checks, &mut outcome, |outcome| {
            if outcome.cuts.is_multiple_of(16) {
                told = counted(observer, outcome.cuts, total);
            }
            told.is_ok() && !stop.load(Ordering::Relaxed)
        })?;
        told?;
        Ok((session, outcome, begun.elapsed().as_secs_f64()))
    }

    /// The same with a check, in several guests at once.
    fn explore_in_guests(
        &self,
        session: Session,
        trace: &Path,
        check: impl Fn() -> Result<GuestCheck>,
        stop: &Arc<AtomicBool>,
        observer: &mut dyn Observer,
    ) -> Result<(Session, Outcome, f64)> {
        let cuts = self.cuts(&session);
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = self.checkers.map_or_else(processors, usize::from).min(cuts.len().max(1));
        let checks = (0..count).map(|_| check()).collect::<Result<_>>()?;
        let begun = Instant::now();
        let total = cuts.len() as u64;
        let mut told = Ok(());
        let outcome = together::explore(trace, &cuts, checks, self.check_every, stop, |done| {
            if told.is_ok() {
                told = counted(observer, done, total);
            }
        })?;
        told?;
        Ok((session, outcome, begun.elapsed().as_secs_f64()))
    }
}

fn counted(observer: &mut dyn Observer, done: u64, total: u64) -> std::io::Result<()> {
    observer.event(Event::Counted { what: "power cuts", done, total })
}

/// The experiment's guest, for a check.
fn made(experiment: &Experiment, observer: &mut dyn Observer) -> Result<Guest> {
    let mut told = Ok(());
    let guest = guest::ensure(&guest::recipe(&experiment.guest), &mut |what, fraction| {
        if told.is_ok() {
            told = observer.event(Event::Step { what, fraction });
        }
    })?;
    told?;
    observer.event(Event::Prepared)?;
    Ok(guest)
}
