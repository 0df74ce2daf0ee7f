//! Experiments that need no guest: a model under a fio job's load. A grid of them runs on all
//! cores: each is a function of its point, whatever runs beside it. Each has its results in a
//! separate folder; a point with complete results of the same program is not run again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stasis_block::Operation;
use stasis_clock::Nanos;
use stasis_models::{BuildContext, ModelSpec};
use stasis_runner::failure;
use stasis_workload::{JobFile, Load, Pause, Simulation};

use crate::bench::Stopped;
use crate::complete::{digest_of, program_digest, Key, COMPLETE_FILE, NOT_COMPLETE};
use crate::request::{Part, Request};

/// Completions between two looks at whether to stop.
const BATCH: usize = 4096;

/// A point of a grid.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Name of the point and of its folder.
    pub id: String,
    /// Description in one line.
    #[serde(skip)]
    pub what: String,
    /// The model, as a table.
    pub model: Value,
    /// The drive's size (bytes).
    pub capacity: u64,
    /// The fio job file.
    pub job: String,
}

impl Point {
    /// Describes the point for a program that runs it elsewhere.
    ///
    /// # Errors
    /// If the point cannot be written as JSON.
    pub fn part(&self) -> Result<Part> {
        Ok(Part {
            name: self.id.clone(),
            what: self.what.clone(),
            digest: digest_of(self)?,
            guests: Vec::new(),
            memory: 0,
            timed: None,
        })
    }
}

/// Steps of percentiles between 0 and 100 %.
const STEPS: usize = 200;
/// A percentile between the last two steps, as a measure of tails.
const TAIL: f64 = 99.9;

/// Summary of latencies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    count: u64,
    sum_ns: u64,
    /// By nearest rank, at each of [`STEPS`] from 0 to 100 %; empty without latencies.
    steps_ns: Vec<Nanos>,
    /// Likewise, at [`TAIL`].
    tail_ns: Nanos,
}

impl Latencies {
    fn of(mut all: Vec<Nanos>) -> Self {
        all.sort_unstable();
        let rank = |permille: usize| (permille * all.len()).div_ceil(1000);
        let at = |permille: usize| all.get(rank(permille).saturating_sub(1)).copied();
        Self {
            count: all.len() as u64,
            sum_ns: all.iter().sum(),
            steps_ns: (0..=STEPS).filter_map(|step| at(step * 1000 / STEPS)).collect(),
            tail_ns: at(999).unwrap_or_default(),
        }
    }

    /// Arithmetic mean (ns); not a number without latencies.
    pub fn mean(&self) -> f64 {
        self.sum_ns as f64 / self.count as f64
    }

    /// Percentile (ns) by nearest rank: [`TAIL`], or the step that is next; not a number without
    /// latencies.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.count > 0 && percent == TAIL {
            return self.tail_ns as f64;
        }
        let step = (percent / 100.0 * STEPS as f64).round() as usize;
        self.steps_ns.get(step).map_or(f64::NAN, |ns| *ns as f64)
    }

    /// The distribution: a latency (ns), and the share of those that are not above it.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let shares = (0..=STEPS).map(|step| step as f64 / STEPS as f64);
        self.steps_ns.iter().map(|ns| *ns as f64).zip(shares).collect()
    }
}

/// Latencies of a simulation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    pub reads: Latencies,
    pub writes: Latencies,
}

impl Simulated {
    /// Mean of reads and writes together (ns).
    pub fn mean(&self) -> f64 {
        let (reads, writes) = (&self.reads, &self.writes);
        (reads.sum_ns + writes.sum_ns) as f64 / (reads.count + writes.count) as f64
    }
}

/// The content of [`COMPLETE_FILE`].
#[derive(Debug, Serialize, Deserialize)]
struct Complete {
    #[serde(flatten)]
    key: Key,
    simulated: Simulated,
}

/// All simulations of a reproduction.
#[derive(Debug, Default)]
pub struct Simulations {
    done: BTreeMap<String, Simulated>,
    /// Failed simulations, each with its reason.
    pub failed: Vec<(String, String)>,
}

impl Simulations {
    /// A simulation, where it was to be run and did not fail.
    pub fn get(&self, id: &str) -> Option<&Simulated> {
        self.done.get(id)
    }
}

/// Runs simulations until its stop flag is set.
pub struct Simulator {
    folder: PathBuf,
    force: bool,
    gather: bool,
    program: String,
    stop: Arc<AtomicBool>,
    /// Number of simulations that run at a time.
    jobs: usize,
}

impl Simulator {
    /// Makes a simulator for the request's folder, with the requested number of simulations at a
    /// time, by default one on each core; ends at the next batch of I/Os once the stop flag is set.
    ///
    /// # Errors
    /// If this program cannot be read.
    pub fn new(request: &Request) -> Result<Self> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            folder: request.folder.clone(),
            force: request.force,
            gather: request.gather,
            program: program_digest()?,
            stop: Arc::clone(&request.stop),
            jobs: request.jobs.unwrap_or_else(cores).max(1),
        })
    }

    /// Runs all points, also after one fails.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn run_all(&self, points: &[Point]) -> Result<Simulations> {
        let next = AtomicUsize::new(0);
        let ended = Mutex::new(Vec::with_capacity(points.len()));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(points.len()) {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(point) = points.get(number) else { break };
                        let result = self.point(point);
                        ended.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                    }
                });
            }
        });
        if self.stop.load(Ordering::Relaxed) {
            bail!(Stopped);
        }
        let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.sort_by_key(|(number, _)| *number);
        let mut all = Simulations::default();
        for (number, result) in ended {
            let id = points[number].id.clone();
            match result {
                Ok(simulated) => drop(all.done.insert(id, simulated)),
                Err(error) => all.failed.push((id, failure::told(&error))),
            }
        }
        Ok(all)
    }

    /// Runs one, if it is not complete.
    fn point(&self, point: &Point) -> Result<Simulated> {
        let key = Key { program: self.program.clone(), experiment: digest_of(point)? };
        let folder = self.folder.join(&point.id);
        if let Some(done) = completed(&folder, &key).filter(|_| !self.force) {
            return Ok(done);
        }
        if self.gather {
            bail!(NOT_COMPLETE);
        }
        let simulated = self.run(point)?;
        let complete = Complete { key, simulated };
        let path = folder.join(COMPLETE_FILE);
        std::fs::create_dir_all(&folder)
            .and_then(|()| serde_json::to_vec_pretty(&complete).map_err(std::io::Error::from))
            .and_then(|json| std::fs::write(&path, json))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(complete.simulated)
    }

    /// The point's drive under its load.
    ///
    /// # Errors
    /// If the model or the job is invalid, or the simulation is stopped.
    fn run(&self, point: &Point) -> Result<Simulated> {
        let Point { model, capacity, job, .. } = point;
        let model: ModelSpec = serde_json::from_value(model.clone()).context("the model")?;
        let model = model.build(&BuildContext { seed: 1, capacity: *capacity, path: 0 })?;
        let file = JobFile::parse(job, &|_| None).context("the job")?;
        let load = Load::new(&file, *capacity, 1, 0).context("the job")?;
        let mut simulation = Simulation::new(model, load);
        let mut done = Vec::with_capacity(2 * BATCH);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        loop {
            let pause = simulation.run(Nanos::MAX, BATCH, &mut done)?;
            for io in done.drain(..).filter(|io| !io.io.early) {
                let latency = io.at - io.submit;
                match io.io.command.operation {
                    Operation::Read => reads.push(latency),
                    Operation::Write => writes.push(latency),
                    _ => {}
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                bail!(Stopped);
            }
            if pause != Pause::Batch {
                let (reads, writes) = (Latencies::of(reads), Latencies::of(writes));
                return Ok(Simulated { reads, writes });
            }
        }
    }
}

/// Returns the results in `folder`, if they are of `key`.
fn completed(folder: &Path, key: &Key) -> Option<Simulated> {
    let written = std::fs::read(folder.join(COMPLETE_FILE)).ok()?;
    let written: Complete = serde_json::from_slice(&written).ok()?;
    (written.key == *key).then_some(written.simulated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn points(models: &[&str]) -> Vec<Point> {
        let point = |(number, model): (usize, &&str)| Point {
            id: number.to_string(),
            what: String::new(),
            model: json!({ "kind": "fixed", "read": model, "write": model }),
            capacity: 16 << 20,
            job: "[r]\nrw=randread\nbs=4k\nnumber_ios=500\n".into(),
        };
        models.iter().enumerate().map(point).collect()
    }

    fn simulator(folder: &Path, jobs: usize) -> Simulator {
        Simulator {
            folder: folder.to_owned(),
            force: false,
            gather: false,
            program: "p".into(),
            stop: Arc::default(),
            jobs,
        }
    }

    #[test]
    fn a_grid_is_the_same_however_many_run_at_a_time() {
        let points = points(&["10us", "20us", "30us", "40us", "50us"]);
        for jobs in [1, 2, 8] {
            let folder = tempfile::tempdir().unwrap();
            let all = simulator(folder.path(), jobs).run_all(&points).unwrap();
            assert!(all.failed.is_empty());
            for (number, ns) in [1e4, 2e4, 3e4, 4e4, 5e4].into_iter().enumerate() {
                let run = all.get(&number.to_string()).unwrap();
                assert_eq!((run.reads.count, run.reads.mean(), run.mean()), (500, ns, ns));
            }
        }
    }

    #[test]
    fn one_that_fails_stops_no_other_and_what_is_complete_is_not_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = simulator(folder.path(), 2);
        let all = bench.run_all(&points(&["10us", "soon", "20us"])).unwrap();
        assert!(all.get("0").is_some() && all.get("2").is_some());
        let [(id, message)] = &all.failed[..] else { panic!("{:?}", all.failed) };
        assert!(id == "1" && message.contains("soon"), "{message}");
        // Complete points are read; the others are neither run nor read.
        bench.gather = true;
        let again = bench.run_all(&points(&["10us", "30us", "20us"])).unwrap();
        assert_eq!(again.get("0"), all.get("0"));
        assert_eq!(again.failed, [("1".to_owned(), NOT_COMPLETE.to_owned())]);
        // Results of another program, or of another point of the same name, do not count.
        bench.program = "q".into();
        assert_eq!(bench.run_all(&points(&["10us"])).unwrap().failed.len(), 1);
        bench.program = "p".into();
        assert_eq!(bench.run_all(&points(&["15us"])).unwrap().failed.len(), 1);
        bench.stop.store(true, Ordering::Relaxed);
        assert!(bench.run_all(&points(&["10us"])).unwrap_err().is::<Stopped>());
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let latencies = Latencies::of((1..=1000).rev().collect());
        let of = [0.0, 0.5, 50.0, 99.0, 99.9, 100.0].map(|percent| latencies.percentile(percent));
        assert_eq!(of, [1.0, 5.0, 500.0, 990.0, 999.0, 1000.0]);
        assert_eq!((latencies.mean(), latencies.distribution().len()), (500.5, 201));
        let none = Latencies::of(Vec::new());
        assert!(
            none.mean().is_nan()
                && none.percentile(50.0).is_nan()
                && none.percentile(99.9).is_nan()
        );
        let json = serde_json::to_string(&latencies).unwrap();
        assert_eq!(serde_json::from_str::<Latencies>(&json).unwrap(), latencies);
    }
}
