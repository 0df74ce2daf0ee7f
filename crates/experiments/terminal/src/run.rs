//! A run on the terminal: its progress, and the output of the command and the kernel.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use stasis_block::clock::Nanos;
use stasis_results::units;
use stasis_run_events::Stage;
use stasis_runner::{Event, Observer};

use crate::progress::{rounded, Steps};
use crate::{answer, heard};

/// Shows a run.
#[derive(Debug)]
pub struct Terminal {
    console: bool,
    steps: Steps,
    stage: Stage,
    since: Instant,
    started_virtual: Option<Nanos>,
    /// The run's I/Os and faults, a line each, of one with a page.
    so_far: Option<[String; 2]>,
    /// Most virtual time of the commands (ns).
    limit: Option<Nanos>,
}

impl Terminal {
    /// The output of a run that begins now; `console`: show the guest kernel's messages.
    pub fn new(console: bool) -> Self {
        Self {
            console,
            steps: Steps::new(),
            stage: Stage::Preparing,
            since: Instant::now(),
            started_virtual: None,
            so_far: None,
            limit: None,
        }
    }

    /// The commands have so much virtual time at most (ns).
    #[must_use]
    pub fn until(mut self, limit: Option<Nanos>) -> Self {
        self.limit = limit;
        self
    }

    fn stage(&mut self, stage: Stage) {
        self.stage = stage;
        match stage {
            Stage::Preparing => self.steps.step("filling the guest's memory", None),
            Stage::Calibrating => self.steps.step("measuring the cost of exits", None),
            Stage::Booting => self.steps.step("booting", None),
            Stage::Branching => self.steps.done(),
            Stage::Running => {
                self.since = Instant::now();
                self.steps.done();
            }
            Stage::Collecting => self.steps.step("fetching the results", None),
        }
    }

    fn virtual_time(&mut self, now: Nanos) {
        if !matches!(self.stage, Stage::Running | Stage::Branching) {
            return;
        }
        let started = *self.started_virtual.get_or_insert(now);
        let passed = Duration::from_nanos(now - started).as_secs_f64();
        let speed = passed / self.since.elapsed().as_secs_f64().max(1e-3);
        let rate = units::significant(speed, 2);
        let mut text = format!("{passed:.3} s of virtual time, {rate} s a second");
        if let Some(lines) = &self.so_far {
            if let Some(limit) = self.limit.filter(|_| speed > 0.0) {
                let rest = (Duration::from_nanos(limit).as_secs_f64() - passed).max(0.0) / speed;
                let rest = Duration::from_secs_f64(rest.min(1e9));
                text.push_str(&format!(", at most {} left until its limit", rounded(rest)));
            }
            text = format!("{text}\n  {}\n  {}", lines[0], lines[1]);
        }
        self.steps.step(&text, None);
    }

    /// Writes to the terminal in place of the progress.
    fn write(&mut self, bytes: &[u8], to: &mut dyn Write) -> io::Result<()> {
        self.steps.done();
        heard(to.write_all(bytes).and_then(|()| to.flush()))
    }
}

impl Observer for Terminal {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Step { name, fraction } => self.steps.step(name, fraction),
            Event::Counted { units, done, total } => self.steps.count(units, done, total),
            Event::Prepared | Event::Ended => self.steps.done(),
            Event::Stage(stage) => self.stage(stage),
            Event::VirtualTime(now) => self.virtual_time(now),
            Event::SoFar(so_far) => self.so_far = Some(so_far.lines()),
            // The standard output is for the result.
            Event::Output(bytes) if answer::is_json() => {
                self.write(bytes, &mut io::stderr().lock())?;
            }
            Event::Output(bytes) => self.write(bytes, &mut io::stdout().lock())?,
            Event::ErrorOutput(bytes) => self.write(bytes, &mut io::stderr().lock())?,
            Event::Console(bytes) if self.console => {
                self.write(bytes, &mut io::stderr().lock())?;
            }
            Event::Console(_) => {}
            Event::Warning(text) => {
                self.write(format!("stasis: {text}\n").as_bytes(), &mut io::stderr().lock())?;
            }
        }
        Ok(())
    }
}
