//! The time of a thread's next I/O: rates and pauses (fio's backend.c and io_u.c).

use stasis_block::clock::{Nanos, SECOND};
use stasis_block::Random;

use super::values::Each;
use super::Job;

/// Rate of one direction.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    /// Bytes a second; 0 for any number.
    bytes: u64,
    /// The block by which a rate was given as I/Os a second, and the unit of a Poisson process.
    block: u64,
    /// Time at which the next is allowed, in parts of a nanosecond.
    at: u128,
}

/// Parts of a nanosecond in which rates are counted: intervals need not be
/// whole.
const PARTS: u128 = 1 << 32;

/// The rates of a thread by direction.
#[derive(Debug, Clone, Default)]
pub struct Rates {
    each: Each<Rate>,
    /// True if there are any.
    any: bool,
    poisson: bool,
}

impl Rates {
    /// Makes the pace of a job with these smallest blocks. As in fio, I/Os a second are bytes a
    /// second by the smallest block.
    pub fn new(job: &Job, least: Each<u64>) -> Self {
        let each: Each<Rate> = std::array::from_fn(|d| Rate {
            bytes: match job.rate[d] {
                0 => job.rate_iops[d].saturating_mul(least[d]),
                rate => rate,
            },
            block: least[d],
            at: 0,
        });
        let any = each.iter().any(|rate| rate.bytes > 0);
        Self { each, any, poisson: job.poisson }
    }

    /// Starts the rates at `start` (ns).
    pub fn begin(&mut self, start: Nanos) {
        self.each.iter_mut().for_each(|rate| rate.at = u128::from(start) * PARTS);
    }

    fn at(&self, d: usize) -> Nanos {
        match self.each[d].bytes {
            0 => 0,
            _ => Nanos::try_from(self.each[d].at / PARTS).unwrap_or(Nanos::MAX),
        }
    }

    /// The direction that continues at `now` in place of `d`, and the earliest time for it; `other`
    /// is the other one of a mix.
    pub fn choose(&self, d: usize, other: Option<usize>, now: Nanos) -> (usize, Nanos) {
        if !self.any || self.at(d) <= now {
            return (d, 0);
        }
        match other {
            Some(other) if self.at(other) <= now => (other, 0),
            Some(other) if self.at(other) < self.at(d) => (other, self.at(other)),
            _ => (d, self.at(d)),
        }
    }

    /// An I/O of `length` is issued in direction `d`.
    pub fn issue(&mut self, d: usize, length: u64, random: &mut Random) {
        let rate = &mut self.each[d];
        if rate.bytes == 0 {
            return;
        }
        let second = u128::from(SECOND) * PARTS;
        let interval = |bytes: u64| u128::from(bytes) * second / u128::from(rate.bytes);
        let step = match self.poisson {
            // Intervals between the events of a Poisson process.
            true => (interval(rate.block) as f64 * -(1.0 - random.unit()).ln()) as u128,
            false => interval(length),
        };
        rate.at = rate.at.saturating_add(step);
    }
}

/// Pauses between I/Os (`thinktime`).
#[derive(Debug, Clone)]
pub struct Pauses {
    length: Nanos,
    /// I/Os between two; `None` where only time counts.
    blocks: Option<u64>,
    time: Nanos,
    by_issue: bool,
    last: u64,
    last_time: Nanos,
    /// True if [`Pauses::look`] has taken the last I/O into account.
    checked: bool,
    /// A pause comes once nothing is in flight: the count and the time that led to it.
    due: Option<(u64, Nanos)>,
    until: Nanos,
}

/// Decision about a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pausing {
    /// The thread continues.
    No,
    /// The thread waits for completions.
    Waits,
    /// The thread continues at that time (ns).
    Until(Nanos),
}

impl Pauses {
    /// Makes the pace of a job.
    pub fn new(job: &Job) -> Self {
        let blocks = match (job.thinktime_blocks, job.thinktime_iotime) {
            (None, 0) => Some(1),
            (blocks, _) => blocks,
        };
        Self {
            length: job.thinktime,
            blocks,
            time: job.thinktime_iotime,
            by_issue: job.thinktime_issues,
            last: 0,
            last_time: 0,
            checked: true,
            due: None,
            until: 0,
        }
    }

    /// The thread begins.
    pub fn begin(&mut self, start: Nanos) {
        self.last_time = start;
    }

    /// Notes that an I/O is issued.
    pub fn issue(&mut self) {
        self.checked = self.length == 0;
    }

    /// Decides at `now`, from the counts of I/Os issued and completed, and whether any is in
    /// flight.
    pub fn look(
        &mut self,
        now: Nanos,
        (issued, completed): (u64, u64),
        in_flight: bool,
    ) -> Pausing {
        if !self.checked {
            self.checked = true;
            let count = if self.by_issue { issued } else { completed };
            let by_time = self.time > 0
                && now.saturating_sub(self.last_time) >= self.time.saturating_add(self.length);
            let by_count =
                self.blocks.is_some_and(|blocks| count >= self.last.saturating_add(blocks));
            if by_time || by_count {
                self.due = Some((count, now));
            }
        }
        if let Some((count, time)) = self.due {
            if in_flight {
                return Pausing::Waits;
            }
            (self.due, self.last, self.last_time) = (None, count, time);
            self.until = now.saturating_add(self.length);
        }
        match self.until > now {
            true => Pausing::Until(self.until),
            false => Pausing::No,
        }
    }
}
