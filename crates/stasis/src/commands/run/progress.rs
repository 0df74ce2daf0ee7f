//! How far a run is: the steps before its command, then virtual time.

use std::time::{Duration, Instant};

use stasis_clock::Nanos;
use stasis_journal::Stage;
use stasis_report::units;

use crate::progress::Steps;

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
        let speed = passed / self.since.elapsed().as_secs_f64().max(1e-3);
        let speed = units::significant(speed, 2);
        self.steps.step(&format!("{passed:.3} s of virtual time, {speed} s a second"), None);
    }

    /// Something else is about to be written to the terminal.
    pub fn clear(&mut self) {
        self.steps.done();
    }
}
