//! One thread of a job: what it does next, and when it may.

use stasis_block::{Command, Operation, Random};
use stasis_clock::{Nanos, SECOND};

use super::offsets::{Offsets, Region};
use super::values::Each;
use super::{Direction, Job, Weighted};
use crate::permutation::mix;
use crate::JobError;

/// A thread of a job.
#[derive(Debug)]
pub(super) struct Thread {
    region: Region,
    align: u64,
    direction: Direction,
    rwmixread: u64,
    blocks: Each<Weighted<u64>>,
    offsets: Offsets,
    random: Random,
    /// What is left to do.
    bytes: u64,
    ios: u64,
    total_bytes: u64,
    total_ios: u64,
    time_based: bool,
    runtime: Option<Nanos>,
    ramp_time: Nanos,
    startdelay: Nanos,
    /// When it begins to be measured, and when it ends.
    measured: Nanos,
    deadline: Nanos,
    rate: Each<Rate>,
    poisson: bool,
    fsync: u64,
    unsynced: u64,
    end_fsync: bool,
    thinktime: Nanos,
    thinktime_blocks: u64,
    thought: u64,
    /// The I/O that comes next, and the earliest time for it.
    pub(super) next: Option<Command>,
    pub(super) earliest: Nanos,
    /// I/Os in flight, and the most there may be.
    pub(super) in_flight: u32,
    pub(super) iodepth: u32,
    /// Whether nothing is submitted before everything in flight is done, and
    /// then not for so long (ns).
    pub(super) waits: Option<Nanos>,
    /// Whether it stands in the queue of submissions.
    pub(super) queued: bool,
    /// Whether nothing more comes.
    pub(super) finished: bool,
}

/// How fast one direction may go.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    /// I/Os a second; 0 for any number.
    ios: u64,
    /// Bytes a second; 0 for any number.
    bytes: u64,
    /// When the next is allowed, in parts of a nanosecond since the start.
    at: u128,
}

/// Parts of a nanosecond in which rates are counted: intervals need not be
/// whole.
const PARTS: u128 = 1 << 32;

impl Rate {
    /// When the next I/O of `bytes` may be submitted (ns since the start); the
    /// one after it comes an interval later, times `stretch`.
    fn next(&mut self, bytes: u64, stretch: f64) -> Nanos {
        let at = (self.at / PARTS) as Nanos;
        let second = u128::from(SECOND) * PARTS;
        let by_ios = second.checked_div(u128::from(self.ios)).unwrap_or(0);
        let by_bytes =
            (u128::from(bytes) * second).checked_div(u128::from(self.bytes)).unwrap_or(0);
        let step = by_ios.max(by_bytes);
        let step = if stretch == 1.0 { step } else { (step as f64 * stretch) as u128 };
        self.at = self.at.saturating_add(step);
        at
    }
}

impl Thread {
    /// Thread `clone` of `job` on a drive of `capacity`.
    pub(super) fn new(job: &Job, clone: u32, capacity: u64, seed: u64) -> Result<Self, JobError> {
        let wrong = |problem: String| JobError::Job { job: job.name.clone(), problem };
        let step = job.offset_increment.of(capacity).saturating_mul(clone.into());
        let offset = job.offset.of(capacity).saturating_add(step);
        let length = match job.size {
            Some(size) => size.of(capacity),
            None => capacity.saturating_sub(offset),
        };
        if offset.checked_add(length).is_none_or(|end| end > capacity) {
            return Err(wrong(format!(
                "its region of {length} bytes at {offset} ends beyond the drive of {capacity} bytes: \
                 make `size` smaller, or the drive larger with --size"
            )));
        }
        let used: &[usize] = match job.direction {
            Direction::Read => &[0],
            Direction::Write => &[1],
            Direction::Trim => &[2],
            Direction::Mixed => &[0, 1],
        };
        let blocks = || used.iter().flat_map(|&direction| job.blocks[direction].all());
        let align = blocks().min().unwrap_or(1).max(1);
        let largest = blocks().max().unwrap_or(1);
        if largest > length {
            return Err(wrong(format!(
                "its region of {length} bytes is smaller than a block of {largest}: make `size` larger"
            )));
        }
        let region = Region { offset, length };
        let offsets = if job.random {
            let once = !job.norandommap && align == largest;
            Offsets::random(&job.distribution, region, align, once, mix(seed, 1))
        } else {
            Offsets::sequential()
        };
        let one_pass = match job.io_size {
            Some(size) => size.of(capacity),
            // Whole blocks only, as far as that can be said beforehand.
            None if align == largest => length - length % align,
            None => length,
        };
        let endless = job.time_based && job.runtime.is_some();
        if job.time_based && job.runtime.is_none() {
            return Err(wrong("time_based needs a runtime".into()));
        }
        let total_bytes = if endless { u64::MAX } else { one_pass.saturating_mul(job.loops) };
        let total_ios = job.number_ios.unwrap_or(u64::MAX);
        let rate = std::array::from_fn(|direction| Rate {
            ios: job.rate_iops[direction],
            bytes: job.rate[direction],
            at: 0,
        });
        Ok(Self {
            region,
            align,
            direction: job.direction,
            rwmixread: job.rwmixread.into(),
            blocks: job.blocks.clone(),
            offsets,
            random: Random::new(seed),
            bytes: total_bytes,
            ios: total_ios,
            total_bytes,
            total_ios,
            time_based: endless,
            runtime: job.runtime,
            ramp_time: job.ramp_time,
            startdelay: job.startdelay,
            measured: 0,
            deadline: Nanos::MAX,
            rate,
            poisson: job.poisson,
            fsync: job.fsync.unwrap_or(0),
            unsynced: 0,
            end_fsync: job.end_fsync,
            thinktime: job.thinktime,
            thinktime_blocks: job.thinktime_blocks,
            thought: 0,
            next: None,
            earliest: 0,
            in_flight: 0,
            iodepth: job.iodepth,
            waits: None,
            queued: false,
            finished: false,
        })
    }

    /// It begins at `now`; returns when its first I/O may come.
    pub(super) fn begin(&mut self, now: Nanos) -> Nanos {
        let start = now.saturating_add(self.startdelay);
        self.measured = start.saturating_add(self.ramp_time);
        self.deadline = match self.runtime {
            Some(runtime) => self.measured.saturating_add(runtime),
            None => Nanos::MAX,
        };
        for rate in &mut self.rate {
            rate.at = u128::from(start) * PARTS;
        }
        start
    }

    /// Whether an I/O submitted at `at` comes before what is measured.
    pub(super) fn is_early(&self, at: Nanos) -> bool {
        at < self.measured
    }

    /// Sees to it that `next` holds the next I/O; false if there is none that
    /// could be submitted at `at` or later.
    pub(super) fn prepare(&mut self, at: Nanos) -> bool {
        let over = at.max(self.earliest) >= self.deadline;
        if self.next.is_some() && !over {
            return true;
        }
        self.next = None;
        if over || self.bytes == 0 || self.ios == 0 {
            if self.end_fsync && self.unsynced > 0 {
                self.unsynced = 0;
                self.next = Some(Command::flush());
                (self.bytes, self.ios) = (0, 0);
                self.deadline = Nanos::MAX;
            }
            return self.next.is_some();
        }
        self.next = Some(self.sample());
        at.max(self.earliest) < self.deadline || self.prepare(at)
    }

    fn sample(&mut self) -> Command {
        if self.fsync > 0 && self.unsynced >= self.fsync {
            self.unsynced = 0;
            return Command::flush();
        }
        let direction = match self.direction {
            Direction::Read => 0,
            Direction::Write => 1,
            Direction::Trim => 2,
            Direction::Mixed => usize::from(self.random.below(100) >= self.rwmixread),
        };
        let length = match self.blocks[direction].only() {
            Some(length) => length,
            None => self.blocks[direction].choose(self.random.below(100)),
        };
        let offset =
            self.offsets.next(self.region, self.align, direction, length, &mut self.random);
        let rate = &mut self.rate[direction];
        if rate.ios > 0 || rate.bytes > 0 {
            let stretch = match self.poisson {
                // Intervals between the events of a Poisson process.
                true => -(1.0 - self.random.unit()).ln(),
                false => 1.0,
            };
            self.earliest = rate.next(length, stretch);
        }
        let operation = [Operation::Read, Operation::Write, Operation::Discard][direction];
        Command::new(operation, offset, length)
    }

    /// Takes the prepared I/O.
    pub(super) fn take(&mut self) -> Option<Command> {
        let command = self.next.take()?;
        self.in_flight += 1;
        if command.operation == Operation::Flush {
            // As with libaio, a flush is waited for.
            self.waits = Some(0);
            return Some(command);
        }
        if !self.time_based {
            self.bytes = self.bytes.saturating_sub(command.length);
        }
        if self.total_ios != u64::MAX {
            self.ios -= 1;
        }
        if command.operation == Operation::Write {
            self.unsynced += 1;
        }
        if self.thinktime > 0 {
            self.thought += 1;
            if self.thought == self.thinktime_blocks {
                self.thought = 0;
                self.waits = Some(self.thinktime);
            }
        }
        Some(command)
    }

    /// How much of it is done, from 0 to 1.
    pub(super) fn fraction(&self, now: Nanos) -> f64 {
        if self.finished {
            return 1.0;
        }
        let part = |left: u64, total: u64| 1.0 - left as f64 / (total as f64).max(1.0);
        let mut most = part(self.ios, self.total_ios);
        if !self.time_based {
            most = most.max(part(self.bytes, self.total_bytes));
        }
        if let Some(runtime) = self.runtime.filter(|_| self.deadline < Nanos::MAX) {
            let whole = self.ramp_time.saturating_add(runtime);
            let begun = self.deadline - whole.min(self.deadline);
            most = most.max(now.saturating_sub(begun) as f64 / whole.max(1) as f64);
        }
        most.clamp(0.0, 1.0)
    }
}
