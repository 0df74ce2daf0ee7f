//! One thread of a job: its next action, and the earliest time of it (fio's backend.c).

use stasis_block::{Command, Operation, Random};
use stasis_clock::Nanos;

use super::offsets::Offsets;
use super::pace::{Pauses, Pausing, Rates};
use super::plan::Plan;
use super::{Direction, Engine, Job};
use crate::permutation::mix;
use crate::JobError;

/// A thread's next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The thread submits its prepared I/O, at that time (ns).
    Submit(Nanos),
    /// The thread looks again at that time (ns).
    Look(Nanos),
    /// The thread waits for a completion.
    Wait,
    /// The thread has ended.
    Over,
}

/// Phase of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A pass: I/Os are submitted.
    Pass,
    /// Its I/Os complete; then perhaps a flush.
    Closing,
    /// The flush completes, if there is one; then perhaps another pass.
    Closed,
}

/// A thread of a job.
#[derive(Debug)]
pub(super) struct Thread {
    direction: Direction,
    offsets: Offsets,
    random: Random,
    priority: u16,
    depth: u32,
    does_io: bool,
    /// Whether a pass continues at the end of its region until the runtime is over.
    time_based: bool,
    /// Whether a `cpuio` thread ends only with the others.
    with_others: bool,

    phase: Phase,
    terminated: bool,
    /// Bytes of a pass, of all passes, and I/Os of all passes at most.
    pass_limit: u64,
    limit: u64,
    all_limit: u64,
    ios_limit: u64,
    /// Whether passes continue until [`Thread::limit`].
    repeats: bool,
    largest: u64,
    loops: u64,
    issued_bytes: u64,
    pass_bytes: u64,
    /// I/Os but for flushes.
    issued: Each,
    completed: u64,

    rwmixread: u64,
    mix: usize,
    mix_until: u64,
    fsync: u64,
    fdatasync: u64,
    end_fsync: bool,
    writes: bool,
    last: Option<Operation>,
    waits_for_flush: bool,
    flushing: bool,

    rates: Rates,
    drains: bool,
    pauses: Pauses,
    runtime: Option<Nanos>,
    ramp_time: Nanos,
    /// When it begins to be measured, and when it ends.
    measured: Nanos,
    deadline: Nanos,

    /// The I/O that comes next, and the earliest time for it.
    next: Option<Command>,
    earliest: Nanos,
    in_flight: u32,
}

/// Reads, writes, trims.
type Each = super::Each<u64>;

impl Thread {
    /// Thread `clone` of `job` on a drive of `capacity`.
    pub(super) fn new(job: &Job, clone: u32, capacity: u64, seed: u64) -> Result<Self, JobError> {
        let does_io = job.does_io();
        let plan = match does_io {
            true => job.plan(clone, capacity)?,
            false => Plan {
                region: super::offsets::Region { offset: 0, length: 0 },
                size: 0,
                io_size: None,
            },
        };
        let blocks = job.blocks();
        let largest = blocks.iter().map(|blocks| blocks.bounds().1).max().unwrap_or(1);
        let least = std::array::from_fn(|d| blocks[d].bounds().0);
        let beyond = plan.io_size.is_some_and(|bytes| bytes > plan.size);
        let wrong = |problem| JobError::Job { job: job.name.clone(), problem };
        let wraps = job.writes() && beyond;
        let offsets = match does_io {
            true => Offsets::new(job, plan.region, capacity, wraps, mix(seed, 1)),
            false => Offsets::new(&Job::default(), plan.region, capacity, wraps, 0),
        };
        let limit = plan.io_size.unwrap_or(plan.size);
        let pass_limit = match (job.writes() && job.random && job.maps_nothing(), plan.io_size) {
            (true, Some(bytes)) => plan.size.max(bytes),
            _ => plan.size,
        };
        Ok(Self {
            direction: job.direction,
            offsets: offsets.map_err(wrong)?,
            random: Random::new(seed),
            priority: job.prioclass << 13 | job.prio,
            depth: job.in_flight_max(),
            does_io,
            time_based: job.time_based,
            with_others: job.exit_on_io_done,
            phase: Phase::Pass,
            terminated: false,
            pass_limit,
            limit,
            all_limit: limit.saturating_mul(job.loops),
            ios_limit: job.number_ios.map_or(u64::MAX, |ios| ios.saturating_mul(job.loops)),
            repeats: plan.io_size.is_some(),
            largest,
            loops: job.loops,
            issued_bytes: 0,
            pass_bytes: 0,
            issued: [0; 3],
            completed: 0,
            rwmixread: job.rwmixread.into(),
            mix: 0,
            mix_until: 0,
            fsync: job.fsync,
            fdatasync: job.fdatasync,
            end_fsync: job.end_fsync || job.fsync_on_close,
            writes: job.writes(),
            last: None,
            waits_for_flush: !matches!(job.engine, Engine::Asynchronous { waits: false }),
            flushing: false,
            rates: Rates::new(job, least),
            drains: !job.offload,
            pauses: Pauses::new(job),
            runtime: job.runtime,
            ramp_time: job.ramp_time,
            measured: 0,
            deadline: Nanos::MAX,
            next: None,
            earliest: 0,
            in_flight: 0,
        })
    }

    /// Begins the thread at `now`.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.measured = now.saturating_add(self.ramp_time);
        self.deadline = match self.runtime {
            Some(runtime) => self.measured.saturating_add(runtime),
            None => Nanos::MAX,
        };
        self.rates.begin(now);
        self.pauses.begin(now);
        self.loops = self.loops.saturating_sub(1);
    }

    /// Nothing more is submitted.
    pub(super) fn terminate(&mut self) {
        self.terminated = true;
    }

    /// Whether it does nothing but wait for the others.
    pub(super) fn waits_for_others(&self) -> bool {
        !self.does_io && self.with_others
    }

    /// Whether an I/O submitted at `at` comes before the measurement.
    pub(super) fn is_early(&self, at: Nanos) -> bool {
        at < self.measured
    }

    /// Its next action at `now`. An I/O to submit stays prepared until it is taken.
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        if self.flushing {
            return Next::Wait;
        }
        let over = self.terminated || now >= self.deadline;
        if !self.does_io {
            return match over || self.runtime.is_none() && !self.with_others {
                true => Next::Over,
                false if self.deadline < Nanos::MAX => Next::Look(self.deadline),
                false => Next::Wait,
            };
        }
        if self.phase == Phase::Pass {
            if let Some(next) = self.pass(now, over) {
                return next;
            }
            self.next = None;
            self.phase = Phase::Closing;
        }
        if self.in_flight > 0 {
            return Next::Wait;
        }
        if self.phase == Phase::Closing {
            self.phase = Phase::Closed;
            if self.end_fsync && self.writes && self.last != Some(Operation::Flush) {
                self.next = Some(Command::flush());
            }
        }
        if self.next.is_some() {
            return Next::Submit(now);
        }
        if over || !self.again() {
            return Next::Over;
        }
        (self.phase, self.pass_bytes, self.last, self.mix_until) = (Phase::Pass, 0, None, 0);
        self.offsets.reset();
        self.next(now)
    }

    /// Its next action in a pass; `None` where the pass is over.
    fn pass(&mut self, now: Nanos, over: bool) -> Option<Next> {
        if over {
            return None;
        }
        if self.next.is_none() {
            let issued = self.issued.iter().sum();
            match self.pauses.look(now, (issued, self.completed), (self.in_flight, self.depth)) {
                Pausing::No => {}
                Pausing::Waits => return Some(Next::Wait),
                Pausing::Until(at) => return Some(Next::Look(at.min(self.deadline))),
            }
            if self.in_flight >= self.depth {
                return Some(Next::Wait);
            }
            let done = self.pass_bytes >= self.pass_limit || self.exceeded();
            if done && !self.time_based {
                return None;
            }
            self.next = Some(self.sample(now)?);
        }
        if self.earliest <= now {
            return Some(Next::Submit(now));
        }
        // As in fio, one that is ahead of its rate first waits for its I/Os in flight.
        if self.drains && self.in_flight > 0 {
            return Some(Next::Wait);
        }
        match self.earliest < self.deadline {
            true => Some(Next::Submit(self.earliest)),
            false => Some(Next::Look(self.deadline)),
        }
    }

    fn exceeded(&self) -> bool {
        self.issued_bytes >= self.all_limit || self.issued.iter().sum::<u64>() >= self.ios_limit
    }

    /// Whether there is another pass after one.
    fn again(&mut self) -> bool {
        if self.pass_bytes == 0 {
            return false;
        }
        if self.time_based {
            return true;
        }
        if self.loops > 0 {
            self.loops -= 1;
            return true;
        }
        if self.issued.iter().sum::<u64>() >= self.ios_limit {
            return false;
        }
        self.repeats && self.limit.saturating_sub(self.issued_bytes) >= self.largest
    }

    /// The flush that is due after a write.
    fn flush_is_due(&self) -> bool {
        let due = |every: u64| every > 0 && self.issued[1].is_multiple_of(every);
        self.last == Some(Operation::Write) && (due(self.fsync) || due(self.fdatasync))
    }

    fn sample(&mut self, now: Nanos) -> Option<Command> {
        self.earliest = 0;
        if self.flush_is_due() {
            return Some(Command::flush());
        }
        let (d, other) = match self.direction {
            Direction::Read => (0, None),
            Direction::Write => (1, None),
            Direction::Trim => (2, None),
            Direction::Mixed => {
                self.mix();
                let other = 1 - self.mix;
                let used = if other == 0 { self.rwmixread } else { 100 - self.rwmixread };
                (self.mix, (used > 0).then_some(other))
            }
        };
        let (d, earliest) = self.rates.choose(d, other, now);
        if other.is_some() {
            self.mix = d;
        }
        self.earliest = earliest;
        let (offset, length) = self.offsets.next(d, &mut self.random)?;
        let operation = [Operation::Read, Operation::Write, Operation::Discard][d];
        let mut command = Command::new(operation, offset, length);
        command.priority = self.priority;
        Some(command)
    }

    /// The direction of the next I/O of a mix. As in fio, a direction is kept until it has its
    /// share of the other one's amount.
    fn mix(&mut self) {
        if self.issued[self.mix] < self.mix_until {
            return;
        }
        let drawn = usize::from(self.random.below(100) >= self.rwmixread);
        if drawn != self.mix {
            let share = if drawn == 0 { self.rwmixread } else { 100 - self.rwmixread };
            self.mix_until = (u128::from(self.issued[self.mix]) * u128::from(share) / 100) as u64;
        }
        self.mix = drawn;
    }

    /// Takes the prepared I/O at `now`, if it is still to be submitted.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Command> {
        let over = self.terminated || now >= self.deadline;
        if self.phase == Phase::Pass && (over || self.earliest > now) {
            return None;
        }
        let command = self.next.take()?;
        self.in_flight += 1;
        self.last = Some(command.operation);
        if command.operation == Operation::Flush {
            self.flushing = self.waits_for_flush;
            return Some(command);
        }
        let d = match command.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            _ => 2,
        };
        self.issued[d] += 1;
        self.issued_bytes = self.issued_bytes.saturating_add(command.length);
        self.pass_bytes = self.pass_bytes.saturating_add(command.length);
        self.rates.issue(d, command.length, &mut self.random);
        self.pauses.issue();
        Some(command)
    }

    /// One of its I/Os has completed.
    pub(super) fn complete(&mut self, operation: Operation) {
        self.in_flight -= 1;
        match operation {
            Operation::Flush => self.flushing = false,
            _ => self.completed += 1,
        }
    }

    /// Part of its work that is done, from 0 to 1.
    pub(super) fn fraction(&self, now: Nanos) -> f64 {
        let part = |done: u64, total: u64| done as f64 / (total as f64).max(1.0);
        let mut most: f64 = 0.0;
        if !self.time_based {
            most = part(self.issued.iter().sum(), self.ios_limit);
            most = most.max(part(self.issued_bytes, self.all_limit));
        }
        if let Some(runtime) = self.runtime.filter(|_| self.deadline < Nanos::MAX) {
            let whole = self.ramp_time.saturating_add(runtime);
            let begun = self.deadline - whole.min(self.deadline);
            most = most.max(now.saturating_sub(begun) as f64 / whole.max(1) as f64);
        }
        most.clamp(0.0, 1.0)
    }
}

impl Job {
    /// Whether random offsets may meet a block again before all were met.
    fn maps_nothing(&self) -> bool {
        self.norandommap || self.distribution != super::Distribution::Uniform
    }
}
