//! Experiments that need no guest: a model under a fio job's load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use serde_json::Value;
use stasis_block::Operation;
use stasis_clock::Nanos;
use stasis_models::{BuildContext, ModelSpec};
use stasis_workload::{JobFile, Load, Pause, Simulation};

use crate::bench::Stopped;

/// Completions between two looks at whether to stop.
const BATCH: usize = 4096;

/// What a simulation measured.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    /// Latencies of reads, in the order of completion (ns).
    pub reads: Vec<f64>,
    /// Latencies of writes, likewise (ns).
    pub writes: Vec<f64>,
    /// Virtual time that it took (ns).
    pub time: Nanos,
}

/// Runs simulations until it is told to stop.
pub struct Simulator {
    stop: Arc<AtomicBool>,
}

impl Simulator {
    /// Ends at the next simulation once `stop` is set.
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop }
    }

    /// A drive of `capacity` bytes like the table `model`, under the load of the
    /// fio job file `job`.
    ///
    /// # Errors
    /// Where the model or the job cannot be, and when it is stopped.
    pub fn run(&self, model: Value, capacity: u64, job: &str) -> Result<Simulated> {
        let model: ModelSpec = serde_json::from_value(model).context("the model")?;
        let model = model.build(&BuildContext { seed: 1, capacity, path: 0 })?;
        let file = JobFile::parse(job, &|_| None).context("the job")?;
        let load = Load::new(&file, capacity, 1, 0).context("the job")?;
        let mut simulation = Simulation::new(model, load);
        let (mut done, mut measured) = (Vec::with_capacity(2 * BATCH), Simulated::default());
        loop {
            let pause = simulation.run(Nanos::MAX, BATCH, &mut done)?;
            for io in done.drain(..).filter(|io| !io.io.early) {
                let latency = (io.at - io.submit) as f64;
                match io.io.command.operation {
                    Operation::Read => measured.reads.push(latency),
                    Operation::Write => measured.writes.push(latency),
                    _ => {}
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                bail!(Stopped);
            }
            if pause != Pause::Batch {
                measured.time = simulation.now();
                return Ok(measured);
            }
        }
    }
}
