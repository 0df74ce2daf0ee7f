//! Experiments that need no guest: a model under a fio job's load. A grid of them runs on all
//! cores: each is a function of its point, whatever runs beside it. Each has its results in a
//! separate folder; a point with complete results of the same program is not run again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stasis_block::clock::Nanos;
use stasis_block::Operation;
use stasis_models::{BuildContext, ModelSpec};
use stasis_runner::batch::{self, digest_of, Batch, KeptResults, Stopped};
use stasis_workload::{JobFile, Load, Pause, Simulation};

use crate::reproduction::{Part, Reproduction};

/// Completions between two looks at whether to stop.
const BATCH: usize = 4096;

/// A point of a grid.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Name of the point and of its folder.
    pub id: String,
    /// Description in one line.
    #[serde(skip)]
    pub description: String,
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
    /// If the point cannot be written as JSON, or cannot be simulated.
    pub fn part(&self) -> Result<Part> {
        self.model()?.check(self.capacity).with_context(|| format!("{}: the model", self.id))?;
        self.load().with_context(|| self.id.clone())?;
        Ok(Part {
            name: self.id.clone(),
            what: self.description.clone(),
            digest: digest_of(self)?,
            guests: Vec::new(),
            memory: 0,
            timed: None,
        })
    }

    fn model(&self) -> Result<ModelSpec> {
        serde_json::from_value(self.model.clone()).context("the model")
    }

    fn load(&self) -> Result<Load> {
        let file = JobFile::parse(&self.job, &|_| None).context("the job")?;
        Load::new(&file, self.capacity, 1, 0).context("the job")
    }
}

impl batch::Point for Point {
    fn name(&self) -> Cow<'_, str> {
        self.id.as_str().into()
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

/// The simulation's result, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
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
    kept: KeptResults,
    stop: Arc<AtomicBool>,
    /// Number of simulations that run at a time; none for one on each core.
    jobs: Option<usize>,
}

impl Simulator {
    /// Makes a simulator for the request's folder, with the requested number of simulations at a
    /// time, by default one on each core; ends at the next batch of I/Os once the stop flag is set.
    ///
    /// # Errors
    /// This program's file cannot be read.
    pub fn new(request: &Reproduction) -> Result<Self> {
        Ok(Self {
            kept: KeptResults::new(&request.folder, request.force, request.gather)?,
            stop: Arc::clone(&request.stop),
            jobs: request.jobs,
        })
    }

    /// Runs all points, also after one fails.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn run_all(&self, points: &[Point]) -> Result<Simulations> {
        let batch = Batch::new(self.jobs, &self.stop);
        let outcomes = batch.run_all(points, |point, _| self.point(point), |_| ())?;
        let failed = batch::failed(points, &outcomes);
        let done = points.iter().zip(outcomes);
        let done = done.filter_map(|(point, simulated)| Some((point.id.clone(), simulated.ok()?)));
        Ok(Simulations { done: done.collect(), failed })
    }

    /// Runs one, if it is not complete.
    fn point(&self, point: &Point) -> Result<Simulated> {
        let digest = digest_of(point)?;
        let kept = self.kept.find(&point.id, &digest, |_, kept: Kept| Ok(kept.simulated));
        if let Some(simulated) = kept {
            return Ok(simulated);
        }
        let begun = self.kept.begin(&point.id, &digest)?;
        Ok(begun.complete(Kept { simulated: self.run(point)? })?.simulated)
    }

    /// The point's drive under its load.
    ///
    /// # Errors
    /// If the model or the job is invalid, or the simulation is stopped.
    fn run(&self, point: &Point) -> Result<Simulated> {
        let context = BuildContext { seed: 1, capacity: point.capacity, path: 0 };
        let mut simulation = Simulation::new(point.model()?.build(&context)?, point.load()?);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn points(models: &[&str]) -> Vec<Point> {
        let point = |(number, model): (usize, &&str)| Point {
            id: number.to_string(),
            description: String::new(),
            model: json!({ "kind": "fixed", "read": model, "write": model }),
            capacity: 16 << 20,
            job: "[r]\nrw=randread\nbs=4k\nnumber_ios=500\n".into(),
        };
        models.iter().enumerate().map(point).collect()
    }

    fn simulator(folder: &Path, jobs: usize, gather: bool) -> Simulator {
        let kept = KeptResults::new(folder, false, gather).unwrap();
        Simulator { kept, stop: Arc::default(), jobs: Some(jobs) }
    }

    #[test]
    fn a_grid_is_the_same_however_many_run_at_a_time() {
        let points = points(&["10us", "20us", "30us", "40us", "50us"]);
        for jobs in [1, 2, 8] {
            let folder = tempfile::tempdir().unwrap();
            let all = simulator(folder.path(), jobs, false).run_all(&points).unwrap();
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
        let bench = simulator(folder.path(), 2, false);
        let all = bench.run_all(&points(&["10us", "soon", "20us"])).unwrap();
        assert!(all.get("0").is_some() && all.get("2").is_some());
        let [(id, message)] = &all.failed[..] else { panic!("{:?}", all.failed) };
        assert!(id == "1" && message.contains("soon"), "{message}");
        // Complete points are read; the others are neither run nor read.
        let bench = simulator(folder.path(), 2, true);
        let again = bench.run_all(&points(&["10us", "30us", "20us"])).unwrap();
        assert_eq!(again.get("0"), all.get("0"));
        let [(id, message)] = &again.failed[..] else { panic!("{:?}", again.failed) };
        assert!(id == "1" && message.starts_with("not complete here"), "{message}");
        // Results of another point of the same name do not count.
        assert_eq!(bench.run_all(&points(&["15us"])).unwrap().failed.len(), 1);
        bench.stop.store(true, Ordering::Relaxed);
        assert!(bench.run_all(&points(&["10us"])).unwrap_err().is::<Stopped>());
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let latencies = Latencies::of((1..=1000).rev().collect());
        let percentiles =
            [0.0, 0.5, 50.0, 99.0, 99.9, 100.0].map(|percent| latencies.percentile(percent));
        assert_eq!(percentiles, [1.0, 5.0, 500.0, 990.0, 999.0, 1000.0]);
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
