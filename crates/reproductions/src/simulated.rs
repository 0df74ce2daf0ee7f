//! Experiments that need no guest: a model under a fio job's load. A grid of them runs on all
//! cores: each is a function of its point, whatever runs beside it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// A point of a grid.
#[derive(Debug, Clone)]
pub struct Point {
    /// The model, as a table.
    pub model: Value,
    /// The drive's size (bytes).
    pub capacity: u64,
    /// The fio job file.
    pub job: String,
}

/// Runs simulations until it is told to stop.
pub struct Simulator {
    stop: Arc<AtomicBool>,
    /// How many run at a time.
    jobs: usize,
}

impl Simulator {
    /// Runs so many simulations at a time, by default one on each core; ends at the next batch
    /// of I/Os once `stop` is set.
    pub fn new(stop: Arc<AtomicBool>, jobs: Option<usize>) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Self { stop, jobs: jobs.unwrap_or_else(cores).max(1) }
    }

    /// Runs all points. What `reduce` makes of each comes in the order of the points; what a
    /// simulation measured is gone once it is reduced, so that memory is that of the
    /// simulations under way.
    ///
    /// # Errors
    /// That of the first point, in their order, which failed; and when it is stopped.
    pub fn run_all<T: Send>(
        &self,
        points: &[Point],
        reduce: impl Fn(Simulated) -> T + Sync,
    ) -> Result<Vec<T>> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let ended: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(points.len()));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(points.len()) {
                scope.spawn(|| {
                    // Points are begun in their order, so that those before a failed one end.
                    while !failed.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(point) = points.get(number) else { break };
                        let result = self.run(point.model.clone(), point.capacity, &point.job);
                        failed.fetch_or(result.is_err(), Ordering::Relaxed);
                        let result = result.map(&reduce);
                        ended.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                    }
                });
            }
        });
        let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.sort_by_key(|(number, _)| *number);
        ended.into_iter().map(|(_, result)| result).collect()
    }

    /// A drive of `capacity` bytes like the table `model`, under the load of the
    /// fio job file `job`.
    ///
    /// # Errors
    /// Where the model or the job cannot be, and when it is stopped.
    fn run(&self, model: Value, capacity: u64, job: &str) -> Result<Simulated> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn points(models: &[&str]) -> Vec<Point> {
        let point = |model: &&str| Point {
            model: json!({ "kind": "fixed", "read": model, "write": model }),
            capacity: 16 << 20,
            job: "[r]\nrw=randread\nbs=4k\nnumber_ios=500\n".into(),
        };
        models.iter().map(point).collect()
    }

    #[test]
    fn a_grid_has_its_order_however_many_run_at_a_time() {
        let points = points(&["10us", "20us", "30us", "40us", "50us"]);
        for jobs in [1, 2, 8] {
            let simulator = Simulator::new(Arc::default(), Some(jobs));
            let first = |run: Simulated| (run.reads.len(), run.reads[0]);
            let all = simulator.run_all(&points, first).unwrap();
            let expected = [1e4, 2e4, 3e4, 4e4, 5e4].map(|ns| (500, ns));
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn the_first_that_fails_is_told_and_the_rest_is_left() {
        let simulator = Simulator::new(Arc::default(), Some(2));
        let error = simulator.run_all(&points(&["10us", "soon", "later"]), |_| ()).unwrap_err();
        assert!(format!("{error:#}").contains("soon"), "{error:#}");
        let stopped = Simulator::new(Arc::new(AtomicBool::new(true)), None);
        let error = stopped.run_all(&points(&["10us", "20us"]), |_| ()).unwrap_err();
        assert!(error.is::<Stopped>(), "{error:#}");
    }
}
