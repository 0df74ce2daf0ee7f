//! All threads of a job file, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stasis_clock::Nanos;

use super::thread::Thread;
use super::{Job, JobFile};
use crate::permutation::mix;
use crate::{Io, JobError, TraceError, Workload};

/// The load of a job file on one drive: its threads, each with as many I/Os in
/// flight as its `iodepth` says.
#[derive(Debug)]
pub struct Load {
    threads: Vec<Thread>,
    jobs: Vec<(String, usize)>,
    /// The stage of each thread: those of one stage run together.
    stages: Vec<u32>,
    stage: u32,
    /// Threads of the stage that have not ended.
    running: usize,
    /// When a thread submits next. Each stands here once at most.
    ready: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// What a thread's processor needs for each I/O (ns).
    path: Nanos,
}

/// The most threads, as results number them.
const THREADS_MAX: u64 = 65_535;

impl Load {
    /// The load of `file` on a drive of `capacity` bytes. Each thread needs
    /// `path` ns of its processor between a completion and the submission
    /// after it.
    ///
    /// # Errors
    /// [`JobError`] if the jobs do not fit the drive.
    pub fn new(file: &JobFile, capacity: u64, seed: u64, path: Nanos) -> Result<Self, JobError> {
        let (mut threads, mut stages) = (Vec::new(), Vec::new());
        let mut stage = 0;
        let total: u64 = file.jobs.iter().map(|job| u64::from(job.numjobs)).sum();
        for (index, job) in file.jobs.iter().enumerate() {
            if total > THREADS_MAX {
                let problem = format!("{total} threads in all, but there may be {THREADS_MAX}");
                return Err(JobError::Job { job: job.name.clone(), problem });
            }
            if job.stonewall && index > 0 {
                stage += 1;
            }
            let seed = mix(mix(seed, job.randseed), index as u64);
            for clone in 0..job.numjobs {
                threads.push(Thread::new(job, clone, capacity, mix(seed, clone.into()))?);
                stages.push(stage);
            }
        }
        let ready = BinaryHeap::with_capacity(threads.len());
        let jobs = file.jobs.iter().map(|job| (job.name.clone(), job.numjobs as usize)).collect();
        let mut load = Self { threads, jobs, stages, stage: 0, running: 0, ready, path };
        load.begin(0);
        Ok(load)
    }

    /// The jobs by name, each with its number of threads. Threads are numbered through,
    /// in this order.
    pub fn jobs(&self) -> &[(String, usize)] {
        &self.jobs
    }

    /// The threads of the present stage begin.
    fn begin(&mut self, now: Nanos) {
        let of_stage = |index: &usize| self.stages[*index] == self.stage;
        let members: Vec<usize> = (0..self.threads.len()).filter(of_stage).collect();
        self.running = members.len();
        for index in members {
            let at = self.threads[index].begin(now);
            self.go_on(index, at);
        }
    }

    /// Queues the thread's next submission, at `at` or later; or it has ended.
    fn go_on(&mut self, index: usize, mut at: Nanos) {
        let thread = &mut self.threads[index];
        if thread.queued || thread.in_flight >= thread.iodepth || thread.finished {
            return;
        }
        if let Some(pause) = thread.waits {
            if thread.in_flight > 0 {
                return;
            }
            at = at.saturating_add(pause);
            thread.waits = None;
        }
        if thread.prepare(at) {
            thread.queued = true;
            self.ready.push(Reverse((at.max(thread.earliest), index as u32)));
        } else if thread.in_flight == 0 {
            thread.finished = true;
            self.running -= 1;
            if self.running == 0 && self.stages.last().is_some_and(|&last| self.stage < last) {
                self.stage += 1;
                self.begin(at);
            }
        }
    }
}

impl Workload for Load {
    fn next_at(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((at, _))| *at)
    }

    fn take(&mut self) -> Result<Option<Io>, TraceError> {
        let Some(Reverse((at, index))) = self.ready.pop() else { return Ok(None) };
        let thread = &mut self.threads[index as usize];
        thread.queued = false;
        let early = thread.is_early(at);
        let command = thread.take();
        self.go_on(index as usize, at.saturating_add(self.path));
        Ok(command.map(|command| Io { thread: index as u16, early, command }))
    }

    fn complete(&mut self, at: Nanos, thread: u16) {
        let index = usize::from(thread);
        self.threads[index].in_flight -= 1;
        self.go_on(index, at.saturating_add(self.path));
    }

    fn fraction(&self, now: Nanos) -> Option<f64> {
        let sum: f64 = self.threads.iter().map(|thread| thread.fraction(now)).sum();
        Some(sum / self.threads.len() as f64)
    }
}

impl Job {
    /// I/Os in flight of all its threads at most.
    pub fn depth(&self) -> u64 {
        u64::from(self.numjobs) * u64::from(self.iodepth)
    }
}
