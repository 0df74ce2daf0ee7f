//! All threads of a job file, in the order of time (fio's backend.c: `run_threads`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stasis_block::clock::Nanos;
use stasis_block::Fate;

use super::thread::{Next, Thread};
use super::{ExitWhat, Job, JobFile};
use crate::permutation::mix;
use crate::{Io, JobError, TraceError, Workload};

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Running,
    Ended,
}

/// Properties of a thread by the place of its job in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    job: usize,
    group: u32,
    /// True if it and all after it wait until nothing runs.
    stonewall: bool,
    /// The job whose threads must have ended.
    waits_for: Option<usize>,
    startdelay: Nanos,
    exit_what: ExitWhat,
    state: State,
    /// True if it stands in the queue.
    queued: bool,
}

/// The load of a job file on one drive: its threads, each with as many I/Os in flight as its
/// `iodepth`.
#[derive(Debug)]
pub struct Load {
    threads: Vec<Thread>,
    places: Vec<Place>,
    jobs: Vec<(String, usize)>,
    /// True if a thread's end ends others.
    exitall: bool,
    running: usize,
    /// True if a thread has ended since jobs were last begun.
    changed: bool,
    /// Time at which a thread continues. Each stands here once at most.
    ready: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Processor time of a thread for each I/O (ns).
    path: Nanos,
}

/// Limit on the number of threads, as results number them.
const MAX_THREADS: u64 = 65_535;

impl Load {
    /// The load of `file` on a drive of `capacity` bytes. Each thread needs
    /// `path` ns of its processor between a completion and the submission
    /// after it.
    ///
    /// # Errors
    /// [`JobError`] if the jobs do not fit the drive.
    pub fn new(file: &JobFile, capacity: u64, seed: u64, path: Nanos) -> Result<Self, JobError> {
        let (mut threads, mut places) = (Vec::new(), Vec::new());
        let mut group = 0;
        let total: u64 = file.jobs.iter().map(|job| u64::from(job.numjobs)).sum();
        for (index, job) in file.jobs.iter().enumerate() {
            if total > MAX_THREADS {
                let problem = format!("{total} threads in all, but there may be {MAX_THREADS}");
                return Err(JobError::Job { job: job.name.clone(), problem });
            }
            if index > 0 && (job.stonewall || job.new_group) {
                group += 1;
            }
            let waits_for = job
                .wait_for
                .as_ref()
                .and_then(|name| file.jobs[..index].iter().position(|before| before.name == *name));
            let seed = mix(mix(seed, job.randseed), index as u64);
            for clone in 0..job.numjobs {
                threads.push(Thread::new(job, clone, capacity, mix(seed, clone.into()))?);
                places.push(Place {
                    job: index,
                    group,
                    stonewall: job.stonewall && clone == 0,
                    waits_for,
                    startdelay: job.startdelay,
                    exit_what: job.exit_what,
                    state: State::Pending,
                    queued: false,
                });
            }
        }
        let ready = BinaryHeap::with_capacity(threads.len());
        let jobs = file.jobs.iter().map(|job| (job.name.clone(), job.numjobs as usize)).collect();
        let exitall = file.jobs.iter().any(|job| job.exitall);
        let (running, changed) = (0, true);
        let mut load = Self { threads, places, jobs, exitall, running, changed, ready, path };
        load.settle(0);
        Ok(load)
    }

    /// The jobs by name, each with its number of threads. Threads are numbered through,
    /// in this order.
    pub fn jobs(&self) -> &[(String, usize)] {
        &self.jobs
    }

    /// Begins the jobs that may begin, until nothing changes.
    #[inline]
    fn settle(&mut self, now: Nanos) {
        while self.changed {
            self.changed = false;
            self.begin(now);
        }
    }

    #[cold]
    fn begin(&mut self, now: Nanos) {
        for index in 0..self.places.len() {
            let place = self.places[index];
            if place.state != State::Pending {
                continue;
            }
            if place.startdelay > now {
                self.queue(index, place.startdelay);
                continue;
            }
            if place.stonewall && self.running > 0 {
                break;
            }
            let waits =
                |other: &Place| Some(other.job) == place.waits_for && other.state != State::Ended;
            if self.places.iter().any(waits) {
                continue;
            }
            self.places[index].state = State::Running;
            self.running += 1;
            self.threads[index].begin(now);
            self.go_on(index, now);
        }
    }

    fn queue(&mut self, index: usize, at: Nanos) {
        if !self.places[index].queued {
            self.places[index].queued = true;
            self.ready.push(Reverse((at, index as u32)));
        }
    }

    /// Queues the thread's next action, at `at` or later; or it has ended.
    fn go_on(&mut self, index: usize, at: Nanos) {
        let place = &mut self.places[index];
        if place.queued || place.state != State::Running {
            return;
        }
        match self.threads[index].next(at) {
            Next::Submit(at) | Next::Look(at) => {
                place.queued = true;
                self.ready.push(Reverse((at, index as u32)));
            }
            Next::Wait => {}
            Next::Over => self.end(index, at),
        }
    }

    /// A thread has ended, and others perhaps with it.
    #[cold]
    fn end(&mut self, index: usize, now: Nanos) {
        self.places[index].state = State::Ended;
        self.running -= 1;
        self.changed = true;
        let Place { group, exit_what, .. } = self.places[index];
        if self.exitall {
            self.terminate(now, |place| match exit_what {
                ExitWhat::All => true,
                ExitWhat::Group => place.group == group,
                ExitWhat::Begun => place.state == State::Running,
            });
        }
        let idle = |thread: &Thread, place: &Place| {
            place.state == State::Ended || thread.waits_for_others()
        };
        let (threads, places) = (&self.threads, &self.places);
        if self.running > 0 && threads.iter().zip(places).all(|(thread, place)| idle(thread, place))
        {
            self.terminate(now, |_| true);
        }
    }

    /// Ends the threads of which `which` holds, once nothing of theirs is in flight; those that
    /// have not begun never do.
    fn terminate(&mut self, now: Nanos, which: impl Fn(&Place) -> bool) {
        let mut ending = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            if place.state == State::Ended || !which(place) {
                continue;
            }
            place.queued = false;
            if place.state == State::Pending {
                place.state = State::Ended;
            }
            self.threads[index].terminate();
            ending.push(index);
        }
        let places = &self.places;
        self.ready.retain(|Reverse((_, index))| places[*index as usize].queued);
        for index in ending {
            if self.places[index].state == State::Running {
                self.queue(index, now);
            }
        }
    }
}

impl Workload for Load {
    #[inline]
    fn next_at(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((at, _))| *at)
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Io>, TraceError> {
        let Some(Reverse((at, index))) = self.ready.pop() else { return Ok(None) };
        let (thread, place) = (index as u16, index as usize);
        self.places[place].queued = false;
        if self.places[place].state == State::Pending {
            self.changed = true;
            self.settle(at);
            return Ok(None);
        }
        let early = self.threads[place].is_early(at);
        let command = self.threads[place].take();
        let then = if command.is_some() { at.saturating_add(self.path) } else { at };
        self.go_on(place, then);
        self.settle(at);
        Ok(command.map(|command| Io { thread, early, number: 0, command }))
    }

    #[inline]
    fn complete(&mut self, at: Nanos, io: &Io, _: Fate) {
        let index = usize::from(io.thread);
        self.threads[index].complete(&io.command);
        self.go_on(index, at.saturating_add(self.path));
        self.settle(at);
    }

    fn fraction(&self, now: Nanos) -> Option<f64> {
        let done = |(thread, place): (&Thread, &Place)| match place.state {
            State::Ended => 1.0,
            _ => thread.fraction(now),
        };
        let sum: f64 = self.threads.iter().zip(&self.places).map(done).sum();
        Some(sum / self.threads.len() as f64)
    }
}

impl Job {
    /// I/Os in flight of all its threads at most.
    pub fn depth(&self) -> u64 {
        u64::from(self.numjobs) * u64::from(self.in_flight_max())
    }
}
