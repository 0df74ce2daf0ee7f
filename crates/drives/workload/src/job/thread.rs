//! One thread of a job: its next action, and the earliest time of it (fio's backend.c).

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Random};

use super::files::{Choice, Files};
use super::history::History;
use super::offsets::Offsets;
use super::pace::{Pauses, Pausing, Rates};
use super::plan::Plan;
use super::queue::{Queue, Turn};
use super::{Direction, Engine, Job};
use crate::permutation::mix;
use crate::JobError;

/// A thread's next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The thread submits an I/O, at that time (ns).
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
    /// Its I/Os complete; then perhaps a flush of each file.
    Closing,
    /// All have completed.
    Closed,
    /// Reads of the blocks written before.
    Verify,
    /// The reads complete; then perhaps another pass.
    Verified,
}

/// The next step of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sample {
    /// An I/O.
    Io(Command),
    /// Nothing before an I/O in flight has completed.
    Busy,
    /// Nothing more.
    None,
}

/// A thread of a job.
#[derive(Debug)]
pub(super) struct Thread {
    direction: Direction,
    offsets: Offsets,
    files: Files,
    random: Random,
    priority: u16,
    fua: [bool; 3],
    queue: Queue,
    does_io: bool,
    /// True if a pass continues at the end of its region until the runtime is over.
    time_based: bool,
    /// True if a `cpuio` thread ends only with the others.
    with_others: bool,

    phase: Phase,
    terminated: bool,
    /// Bytes of a pass, of all passes, and I/Os of all passes at most.
    pass_limit: u64,
    limit: u64,
    all_limit: u64,
    ios_limit: u64,
    /// True if passes continue until [`Thread::limit`].
    repeats: bool,
    largest: u64,
    loops: u64,
    /// Bytes and I/Os that were prepared, without what was read again.
    issued_bytes: Each,
    issued: Each,
    /// Bytes and I/Os with what was read again: in all, and in this pass.
    moved_bytes: u64,
    moved: u64,
    pass_bytes: u64,
    /// I/Os that have completed but for flushes, and the last one's operation.
    completed: u64,
    last_completed: Option<Operation>,

    rwmixread: u64,
    mix: usize,
    mix_until: u64,
    fsync: u64,
    fdatasync: u64,
    /// Flushes at the end of a pass, one for each file; and how many are left.
    end_flushes: usize,
    flushes_left: usize,
    last: Option<Operation>,
    waits_for_flush: bool,
    waits_for_trim: bool,
    /// True if it waits for a flush or a trim.
    waiting: bool,

    /// Writes to read again, if they are.
    history: Option<History>,
    /// True if there is any verification, even without reads.
    verifies: bool,
    verify_only: bool,
    backlog: u64,
    backlog_batch: u64,
    /// Reads that are still to follow one another.
    backlog_left: u64,

    rates: Rates,
    drains: bool,
    pauses: Pauses,
    runtime: Option<Nanos>,
    ramp_time: Nanos,
    /// Times at which it begins to be measured, and at which it ends.
    measured: Nanos,
    deadline: Nanos,

    /// The I/O that comes next, and the earliest time for it.
    next: Option<Command>,
    earliest: Nanos,
}

/// Reads, writes, trims.
type Each = super::Each<u64>;

/// The place of an operation in [`Each`].
fn place(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        _ => 2,
    }
}

impl Thread {
    /// Thread `clone` of `job` on a drive of `capacity`.
    pub(super) fn new(job: &Job, clone: u32, capacity: u64, seed: u64) -> Result<Self, JobError> {
        let does_io = job.does_io();
        let plan = match does_io {
            true => job.plan(clone, capacity, mix(seed, 2))?,
            false => Plan::nothing(),
        };
        let blocks = job.blocks();
        let largest = blocks.iter().map(|blocks| blocks.bounds().1).max().unwrap_or(1);
        let least = std::array::from_fn(|d| blocks[d].bounds().0);
        let wrong = |problem| JobError::Job { job: job.name.clone(), problem };
        let idle = Job::default();
        let planned = if does_io { job } else { &idle };
        let offsets = Offsets::new(planned, &plan.files, job.service.renews(), mix(seed, 1));
        let limit = plan.io_size.unwrap_or(plan.size);
        let history = match job.reads_again() && does_io {
            true => Some(job.history(&plan).map_err(wrong)?),
            false => None,
        };
        let (waits_for_flush, waits_for_trim) = match job.engine {
            _ if job.offload => (false, false),
            Engine::Asynchronous { waits_for_flush, waits_for_trim } => {
                (waits_for_flush, waits_for_trim)
            }
            Engine::Synchronous | Engine::Processor => (true, true),
        };
        Ok(Self {
            direction: job.direction,
            offsets: offsets.map_err(wrong)?,
            files: Files::new(&job.service, job.openfiles, plan.files.len(), mix(seed, 3)),
            random: Random::new(seed),
            priority: job.prioclass << 13 | job.prio,
            fua: [job.read_fua, job.write_fua, false],
            queue: Queue::new(job),
            does_io,
            time_based: job.time_based,
            with_others: job.exit_on_io_done,
            phase: Phase::Pass,
            terminated: false,
            pass_limit: job.pass_limit(&plan),
            limit,
            all_limit: limit.saturating_mul(job.loops),
            ios_limit: job.ios_limit(),
            repeats: plan.io_size.is_some(),
            largest,
            loops: job.loops,
            issued_bytes: [0; 3],
            issued: [0; 3],
            moved_bytes: 0,
            moved: 0,
            pass_bytes: 0,
            completed: 0,
            last_completed: None,
            rwmixread: job.rwmixread.into(),
            mix: 0,
            mix_until: 0,
            fsync: job.fsync,
            fdatasync: job.fdatasync,
            end_flushes: match (job.end_fsync || job.fsync_on_close) && job.writes() {
                true => plan.files.len(),
                false => 0,
            },
            flushes_left: 0,
            last: None,
            waits_for_flush,
            waits_for_trim,
            waiting: false,
            history,
            verifies: job.verify,
            verify_only: job.verify_only && job.writes(),
            backlog: job.verify_backlog,
            backlog_batch: match job.verify_batch {
                0 => job.verify_backlog,
                batch => batch,
            },
            backlog_left: 0,
            rates: Rates::new(job, least),
            drains: !job.offload,
            pauses: Pauses::new(job),
            runtime: job.runtime,
            ramp_time: job.ramp_time,
            measured: 0,
            deadline: Nanos::MAX,
            next: None,
            earliest: 0,
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

    /// Stops submitting.
    pub(super) fn terminate(&mut self) {
        self.terminated = true;
    }

    /// Returns whether it does nothing but wait for the others.
    pub(super) fn waits_for_others(&self) -> bool {
        !self.does_io && self.with_others
    }

    /// Returns whether an I/O submitted at `at` comes before the measurement.
    pub(super) fn is_early(&self, at: Nanos) -> bool {
        at < self.measured
    }

    /// Returns the thread's next action at `now`. An I/O to submit stays prepared until it is
    /// taken.
    #[inline]
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        loop {
            match self.queue.turn() {
                Turn::Submit => return Next::Submit(now),
                Turn::Wait => return Next::Wait,
                Turn::Free if self.waiting => return Next::Wait,
                Turn::Free => {}
            }
            if let Step::Next(next) = self.step(now) {
                return next;
            }
        }
    }

    /// Returns the thread's next step at `now`, where its queue has nothing to do.
    #[inline(never)]
    fn step(&mut self, now: Nanos) -> Step {
        let over = self.terminated || now >= self.deadline;
        if !self.does_io {
            return Step::Next(match over || self.runtime.is_none() && !self.with_others {
                true => Next::Over,
                false if self.deadline < Nanos::MAX => Next::Look(self.deadline),
                false => Next::Wait,
            });
        }
        match self.phase {
            Phase::Pass => match self.pass(now, over) {
                Some(step) => return step,
                None => {
                    self.next = None;
                    self.queue.drain();
                    self.phase = Phase::Closing;
                    let synced = self.last == Some(Operation::Flush) || self.verify_only;
                    self.flushes_left = if synced { 0 } else { self.end_flushes };
                }
            },
            Phase::Closing if self.flushes_left > 0 => {
                self.flushes_left -= 1;
                self.alone(Command::flush());
            }
            Phase::Closing => self.phase = Phase::Closed,
            Phase::Closed if over || self.history.is_none() || self.pass_bytes == 0 => {
                if over || !self.again() {
                    return Step::Next(Next::Over);
                }
                self.begin_pass();
            }
            Phase::Closed => self.phase = Phase::Verify,
            Phase::Verify => {
                let read = match over {
                    true => None,
                    false => self.history.as_mut().and_then(History::next),
                };
                match read {
                    Some(read) => self.read_again(read),
                    None => {
                        self.queue.drain();
                        self.phase = Phase::Verified;
                    }
                }
            }
            Phase::Verified => {
                if over || !self.again() {
                    return Step::Next(Next::Over);
                }
                self.begin_pass();
            }
        }
        Step::Go
    }

    fn begin_pass(&mut self) {
        (self.phase, self.pass_bytes, self.last, self.mix_until) = (Phase::Pass, 0, None, 0);
        if self.direction == Direction::TrimWrite {
            // As in fio, in each pass anew.
            self.ios_limit = self.ios_limit.saturating_mul(2);
        }
        self.offsets.reset();
        self.files.reset();
    }

    /// Returns the thread's next step in a pass, where its queue has nothing to do; `None` where
    /// the pass is over.
    fn pass(&mut self, now: Nanos, over: bool) -> Option<Step> {
        if over {
            return None;
        }
        if self.verify_only {
            self.suppose();
            return None;
        }
        let command = match self.next.take() {
            Some(command) => command,
            None => {
                let issued = self.issued.iter().sum();
                match self.pauses.look(now, (issued, self.completed), self.queue.is_used()) {
                    Pausing::No => {}
                    Pausing::Waits => {
                        self.queue.drain();
                        return Some(Step::Go);
                    }
                    Pausing::Until(at) => {
                        return Some(Step::Next(Next::Look(at.min(self.deadline))));
                    }
                }
                if self.exceeded() && !self.time_based {
                    return None;
                }
                // As in fio, a pass that is read again ends also where the time does not.
                if self.pass_bytes >= self.pass_limit && (!self.time_based || self.verifies) {
                    return None;
                }
                if !self.queue.has_room() {
                    self.queue.wait();
                    return Some(Step::Go);
                }
                if let Some(read) = self.due_again() {
                    self.read_again(read);
                    self.pauses.issue();
                    return Some(Step::Go);
                }
                match self.sample(now) {
                    Sample::Io(command) => command,
                    Sample::Busy => {
                        if self.queue.is_used() {
                            self.queue.wait();
                        }
                        return Some(Step::Go);
                    }
                    Sample::None => return None,
                }
            }
        };
        if self.earliest > now {
            self.next = Some(command);
            // As in fio, one that is ahead of its rate first waits for its I/Os in flight.
            if self.drains && self.queue.is_used() {
                self.queue.drain();
                return Some(Step::Go);
            }
            return Some(Step::Next(Next::Look(self.earliest.min(self.deadline))));
        }
        self.issue(command);
        Some(Step::Go)
    }

    /// Prepares the I/O that comes next; or keeps it and first sends off what is held back, where
    /// it has to go alone.
    fn issue(&mut self, command: Command) {
        let alone = match command.operation {
            Operation::Flush => self.waits_for_flush,
            Operation::Discard => self.waits_for_trim,
            _ => false,
        };
        if alone && self.queue.holds_back() {
            self.next = Some(command);
            self.queue.commit();
            self.queue.wait();
            return;
        }
        self.last = Some(command.operation);
        if command.operation != Operation::Flush {
            let d = place(command.operation);
            let length = command.length;
            self.files.begin(self.offsets.file_at(command.offset));
            self.issued[d] += 1;
            self.issued_bytes[d] = self.issued_bytes[d].saturating_add(length);
            self.count(length);
            self.rates.issue(d, length, &mut self.random);
            self.pauses.issue();
            if d == 1 {
                if let Some(history) = &mut self.history {
                    history.write(command.offset, length);
                }
            }
        }
        match alone {
            true => self.alone(command),
            false => self.queue.prepare(command),
        }
    }

    /// Submits a command, and waits for it.
    fn alone(&mut self, command: Command) {
        self.queue.alone(command);
        self.waiting = true;
    }

    fn count(&mut self, length: u64) {
        self.moved += 1;
        self.moved_bytes = self.moved_bytes.saturating_add(length);
        self.pass_bytes = self.pass_bytes.saturating_add(length);
    }

    /// Reads again what was written.
    fn read_again(&mut self, (offset, length): (u64, u64)) {
        let mut command = Command::new(Operation::Read, offset, length);
        command.priority = self.priority;
        command.fua = self.fua[0];
        self.files.begin(self.offsets.file_at(offset));
        self.count(length);
        if self.phase == Phase::Pass {
            self.rates.issue(0, length, &mut self.random);
        }
        self.last = Some(Operation::Read);
        self.queue.prepare(command);
    }

    /// The write that is read again within a pass, if it is time for one (fio's
    /// `check_get_verify`).
    #[inline]
    fn due_again(&mut self) -> Option<(u64, u64)> {
        let history = self.history.as_mut()?;
        if self.backlog == 0 || history.len() == 0 {
            return None;
        }
        if self.backlog_left == 0 {
            let due = history.len().is_multiple_of(self.backlog)
                && self.last_completed != Some(Operation::Read);
            if !due {
                return None;
            }
            self.backlog_left = self.backlog_batch;
        }
        let read = history.next()?;
        self.backlog_left -= 1;
        Some(read)
    }

    /// A pass whose I/Os are only supposed (`verify_only`; fio's `do_dry_run`).
    #[cold]
    fn suppose(&mut self) {
        while !self.exceeded() {
            let Sample::Io(command) = self.sample(0) else { return };
            let d = place(command.operation);
            self.last = Some(command.operation);
            if command.operation == Operation::Flush {
                continue;
            }
            self.issued[d] += 1;
            self.issued_bytes[d] = self.issued_bytes[d].saturating_add(command.length);
            self.count(command.length);
            if let (1, Some(history)) = (d, &mut self.history) {
                history.add(command.offset, command.length);
            }
        }
    }

    /// Returns whether as much was done as all passes do.
    fn exceeded(&self) -> bool {
        let [read, write, trim] = self.issued_bytes;
        let bytes = match self.direction {
            Direction::Mixed => read.saturating_add(write),
            Direction::Read => read,
            Direction::Write | Direction::TrimWrite => write,
            Direction::Trim => trim,
        };
        bytes >= self.all_limit || self.moved >= self.ios_limit
    }

    /// Returns whether there is another pass after one.
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
        if self.moved >= self.ios_limit {
            return false;
        }
        self.repeats && self.limit.saturating_sub(self.moved_bytes) >= self.largest
    }

    /// The flush that is due after a write.
    fn flush_is_due(&self) -> bool {
        let due = |every: u64| every > 0 && self.issued[1].is_multiple_of(every);
        self.last == Some(Operation::Write) && (due(self.fsync) || due(self.fdatasync))
    }

    /// Draws the next I/O: a file, a direction, and a place.
    // The way of every I/O: a call and the copy of a command less.
    #[inline(always)]
    fn sample(&mut self, now: Nanos) -> Sample {
        loop {
            let file = match self.files.choose(&mut self.random) {
                Choice::File(file) => file,
                Choice::Busy => return Sample::Busy,
                Choice::Over => return Sample::None,
            };
            self.earliest = 0;
            if self.flush_is_due() {
                return Sample::Io(Command::flush());
            }
            let d = self.direction(file, now);
            if let Some((offset, length)) = self.offsets.next(file, d, &mut self.random) {
                let operation = [Operation::Read, Operation::Write, Operation::Discard][d];
                let mut command = Command::new(operation, offset, length);
                command.priority = self.priority;
                command.fua = self.fua[d];
                return Sample::Io(command);
            }
            self.files.end(file);
            if self.files.is_renewed() {
                self.offsets.reset_file(file);
            }
        }
    }

    /// The direction of the next I/O, as a number; sets the earliest time for it.
    #[inline(always)]
    fn direction(&mut self, file: usize, now: Nanos) -> usize {
        let (d, other) = match self.direction {
            Direction::Read => (0, None),
            Direction::Write | Direction::TrimWrite => (1, None),
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
        match self.direction {
            Direction::TrimWrite if self.offsets.trim_is_due(file) => 2,
            _ => d,
        }
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

    /// Takes the I/O that goes to the drive, if there is one.
    pub(super) fn take(&mut self) -> Option<Command> {
        self.queue.submit()
    }

    /// One of its I/Os has completed.
    pub(super) fn complete(&mut self, command: &Command) {
        self.queue.complete();
        let operation = command.operation;
        let alone = match operation {
            Operation::Flush => self.waiting && (self.waits_for_flush || self.phase != Phase::Pass),
            Operation::Discard => self.waiting && self.waits_for_trim,
            _ => false,
        };
        if alone {
            self.waiting = false;
            self.queue.take_one();
        }
        if operation == Operation::Flush {
            return;
        }
        self.completed += 1;
        self.last_completed = Some(operation);
        self.files.complete(self.offsets.file_at(command.offset));
        if let (Operation::Write, Some(history)) = (operation, &mut self.history) {
            history.complete(command.offset, command.length);
        }
    }

    /// Part of its work that is done, from 0 to 1.
    pub(super) fn fraction(&self, now: Nanos) -> f64 {
        let part = |done: u64, total: u64| done as f64 / (total as f64).max(1.0);
        let mut most: f64 = 0.0;
        if !self.time_based {
            most = part(self.moved, self.ios_limit);
            most = most.max(part(self.issued_bytes.iter().sum(), self.all_limit));
        }
        if let Some(runtime) = self.runtime.filter(|_| self.deadline < Nanos::MAX) {
            let whole = self.ramp_time.saturating_add(runtime);
            let begun = self.deadline - whole.min(self.deadline);
            most = most.max(now.saturating_sub(begun) as f64 / whole.max(1) as f64);
        }
        most.clamp(0.0, 1.0)
    }
}

/// A step of a pass.
enum Step {
    /// The thread's next action.
    Next(Next),
    /// The queue has something to do, perhaps.
    Go,
}
