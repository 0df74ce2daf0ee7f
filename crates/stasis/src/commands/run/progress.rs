//! Progress on a terminal: steps of a preparation, and virtual time against
//! wall-clock time while a guest runs. Silent elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use stasis_clock::Nanos;
use stasis_journal::Stage;

/// Steps that take a while.
#[derive(Debug, Default)]
pub struct Steps {
    bar: Option<ProgressBar>,
}

impl Steps {
    /// Nothing is shown before the first step.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a step, with how far everything is where that is known.
    pub fn step(&mut self, what: &str, fraction: Option<f64>) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(100);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        // The templates are constants, checked by every run on a terminal.
        let template = match fraction {
            Some(_) => "{spinner} {msg} [{bar:30}] {percent}% {elapsed}",
            None => "{spinner} {msg} {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        if let Some(fraction) = fraction {
            bar.set_position((fraction * 100.0) as u64);
        }
    }

    /// Takes it off the terminal.
    pub fn done(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.done();
    }
}

/// How a run goes on.
#[derive(Debug)]
pub struct RunProgress {
    steps: Steps,
    stage: Stage,
    since: Instant,
    started_virtual: Option<Nanos>,
}

impl RunProgress {
    /// A run that begins now.
    pub fn new() -> Self {
        Self {
            steps: Steps::new(),
            stage: Stage::Preparing,
            since: Instant::now(),
            started_virtual: None,
        }
    }

    /// The run reaches a stage.
    pub fn stage(&mut self, stage: Stage) {
        self.stage = stage;
        match stage {
            Stage::Preparing => self.steps.step("filling the guest's memory", None),
            Stage::Calibrating => self.steps.step("measuring the cost of exits", None),
            Stage::Booting => self.steps.step("booting", None),
            Stage::Running => {
                self.since = Instant::now();
                self.steps.done();
            }
            Stage::Collecting => self.steps.step("fetching the results", None),
        }
    }

    /// Virtual time is at `now`.
    pub fn virtual_time(&mut self, now: Nanos) {
        if self.stage != Stage::Running {
            return;
        }
        let started = *self.started_virtual.get_or_insert(now);
        let passed = Duration::from_nanos(now - started).as_secs_f64();
        let wall = self.since.elapsed().as_secs_f64();
        self.steps.step(&format!("{passed:.3} s of virtual time in {wall:.1} s"), None);
    }

    /// Something else is about to be written to the terminal.
    pub fn clear(&mut self) {
        self.steps.done();
    }
}
