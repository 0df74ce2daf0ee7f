//! Many experiments or simulations in one command: some at the same time, until each has ended or
//! the user stops. Results that are complete are kept ([`KeptResults`]).

mod kept_results;
mod point_digest;

use std::borrow::Cow;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::failure;

pub use crate::stopped::Stopped;
pub use kept_results::{gone, KeptResults};
pub use point_digest::digest_of;
pub use stasis_guest_image::sha256::digest;

/// Interval between two updates of a batch's progress.
const TICK: Duration = Duration::from_millis(200);

/// A point of a batch: an experiment or a simulation.
pub trait Point: Sync {
    /// Name of the point in messages, and of its folder.
    fn name(&self) -> Cow<'_, str>;

    /// Returns whether nothing else may run at the same time, because wall-clock time is a result.
    fn runs_alone(&self) -> bool {
        false
    }
}

/// The circumstances of one point's run.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Index of the point in the batch.
    pub index: usize,
    /// Number of points that have begun, this one included.
    pub number: usize,
    /// Index of the thread; it runs one point at a time.
    pub worker: usize,
    /// True if other points may run at the same time.
    pub is_beside_others: bool,
}

/// A point's result, or the reason of its failure.
pub type Outcome<R> = Result<R, String>;

/// Runs the points of a command.
#[derive(Debug)]
pub struct Batch<'a> {
    jobs: usize,
    stop: &'a AtomicBool,
}

impl<'a> Batch<'a> {
    /// A batch of `jobs` points at a time, by default one for each core. No point begins once
    /// `stop` is set.
    pub fn new(jobs: Option<usize>, stop: &'a AtomicBool) -> Self {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        Self { jobs: jobs.unwrap_or_else(cores).max(1), stop }
    }

    /// Limit on the points that run at the same time.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// Returns the indices of the points that run at the same time as others.
    pub fn beside<P: Point>(&self, points: &[P]) -> Vec<usize> {
        let beside: Vec<_> =
            (0..points.len()).filter(|&index| !points[index].runs_alone()).collect();
        if beside.len().min(self.jobs) > 1 {
            beside
        } else {
            Vec::new()
        }
    }

    /// Runs all points by `run`, also after one fails: first those that can run at the same time,
    /// then the others in turn. `on_progress` receives each point that has ended, and is called
    /// without one every 200 ms. Returns the outcomes by index, none of a point that was not begun.
    pub fn run<P: Point, R: Send>(
        &self,
        points: &[P],
        run: impl Fn(&P, Turn) -> Result<R> + Sync,
        mut on_progress: impl FnMut(Option<(&P, &Outcome<R>)>),
    ) -> Vec<Option<Outcome<R>>> {
        let beside = self.beside(points);
        let alone = (0..points.len()).filter(|index| beside.binary_search(index).is_err());
        let alone: Vec<_> = alone.collect();
        let mut outcomes: Vec<_> = points.iter().map(|_| None).collect();
        let begun = AtomicUsize::new(0);
        for (indices, workers) in [(&beside, self.jobs), (&alone, 1)] {
            let next = AtomicUsize::new(0);
            let work = |worker: usize| {
                if self.stop.load(Ordering::Relaxed) {
                    return None;
                }
                let index = *indices.get(next.fetch_add(1, Ordering::Relaxed))?;
                let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
                let turn = Turn { index, number, worker, is_beside_others: workers > 1 };
                Some((index, run(&points[index], turn).map_err(|error| failure::told(&error))))
            };
            let (sender, ended) = channel();
            thread::scope(|scope| {
                for worker in 0..workers.min(indices.len()) {
                    let (sender, work) = (sender.clone(), &work);
                    scope.spawn(move || {
                        // The receiver outlives the threads.
                        while work(worker).is_some_and(|outcome| sender.send(outcome).is_ok()) {}
                    });
                }
                // The loop ends with the last thread.
                drop(sender);
                loop {
                    match ended.recv_timeout(TICK) {
                        Ok((index, outcome)) => {
                            on_progress(Some((&points[index], &outcome)));
                            outcomes[index] = Some(outcome);
                        }
                        Err(RecvTimeoutError::Timeout) => on_progress(None),
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
            });
        }
        outcomes
    }

    /// Like [`Batch::run`], for results that are of use only together.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn run_all<P: Point, R: Send>(
        &self,
        points: &[P],
        run: impl Fn(&P, Turn) -> Result<R> + Sync,
        on_progress: impl FnMut(Option<(&P, &Outcome<R>)>),
    ) -> Result<Vec<Outcome<R>>, Stopped> {
        let outcomes = self.run(points, run, on_progress);
        if self.stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        outcomes.into_iter().collect::<Option<_>>().ok_or(Stopped)
    }
}

/// Returns the names of the points that failed, with the reasons.
pub fn failed<P: Point, R>(points: &[P], outcomes: &[Outcome<R>]) -> Vec<(String, String)> {
    let failed = points.iter().zip(outcomes).filter_map(|(point, outcome)| {
        Some((point.name().into_owned(), outcome.as_ref().err()?.clone()))
    });
    failed.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use anyhow::bail;

    use super::*;

    struct Number(usize, bool);

    impl Point for Number {
        fn name(&self) -> Cow<'_, str> {
            self.0.to_string().into()
        }

        fn runs_alone(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn outcomes_are_in_order_and_failures_have_names() {
        let stop = AtomicBool::new(false);
        let points: Vec<_> = (0..20).map(|number| Number(number, false)).collect();
        for jobs in [1, 3, 50] {
            let mut ended = 0;
            let run = |point: &Number, turn: Turn| {
                assert!(turn.worker < jobs && turn.index == point.0);
                assert_eq!(turn.is_beside_others, jobs > 1);
                if point.0 == 7 {
                    bail!("seven");
                }
                Ok(point.0 * 2)
            };
            let batch = Batch::new(Some(jobs), &stop);
            let outcomes =
                batch.run_all(&points, run, |point| ended += usize::from(point.is_some()));
            let outcomes = outcomes.unwrap();
            assert_eq!((outcomes[3].clone(), outcomes[19].clone()), (Ok(6), Ok(38)));
            assert_eq!(failed(&points, &outcomes), [("7".to_owned(), "seven".to_owned())]);
            assert_eq!(ended, 20);
        }
    }

    #[test]
    fn points_run_at_the_same_time_except_those_that_run_alone() {
        let stop = AtomicBool::new(false);
        let points = [Number(0, true), Number(1, false), Number(2, true), Number(3, false)];
        let (meet, order) = (Barrier::new(2), Mutex::new(Vec::new()));
        let run = |point: &Number, turn: Turn| {
            // Both or neither: a batch that ran one after the other would stand here.
            if turn.is_beside_others {
                meet.wait();
            }
            order.lock().unwrap().push((point.0, turn.number));
            Ok(())
        };
        let batch = Batch::new(Some(2), &stop);
        assert_eq!(batch.beside(&points), [1, 3]);
        batch.run_all(&points, run, |_| ()).unwrap();
        assert_eq!(order.into_inner().unwrap()[2..], [(0, 3), (2, 4)]);
        assert!(Batch::new(Some(1), &stop).beside(&points).is_empty());
    }

    #[test]
    fn no_point_begins_after_a_stop() {
        let stop = AtomicBool::new(false);
        let points: Vec<_> = (0..9).map(|number| Number(number, false)).collect();
        let run = |point: &Number, _: Turn| {
            stop.store(point.0 == 4, Ordering::Relaxed);
            Ok(point.0)
        };
        let outcomes = Batch::new(Some(1), &stop).run(&points, run, |_| ());
        assert_eq!(outcomes.iter().flatten().count(), 5);
        assert!(Batch::new(Some(2), &stop).run_all(&points, run, |_| ()).is_err());
    }
}
