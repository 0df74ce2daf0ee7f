//! Budget of a queue in a turn, and the measured rate of the drive that it depends on.

use stasis_block::clock::{Nanos, MILLISECOND, SECOND};

use super::fair::Owner;
use super::queue::{Reason, MAX_FIRST};
use super::state::{Bfq, Level};
use crate::priority::{Class, CLASS_WAIT};
use crate::SECTOR;

/// A rate is measured over at least this time and these sectors (512 KiB), so
/// that one request from a drive's cache does not count as its rate.
const MEASURE_TIME: Nanos = MILLISECOND;
const MEASURE_SECTORS: u64 = 1024;
/// A higher rate moves the peak by this part: bursts into caches are short.
const PEAK_STEP: u64 = 8;
/// All that wait have their turns within this time, as long as changing from one to the next costs
/// little: then a queue is never more than three such rounds of its share behind
/// (docs/reference/schedulers.md), which is 2 % of its service in 10 s.
const ROUND: Nanos = 60 * MILLISECOND;
/// And the least that a turn is worth, in sectors.
const MIN_SECTORS: u64 = MEASURE_SECTORS / 4;
/// Length of a turn on average of all queues, in units of the cost of changing to it, each queue's
/// in proportion to its share: nine tenths of the drive's time are service.
const WORTH: u64 = 9;
/// Least length of any turn, in the same unit.
const MIN_WORTH: u64 = 2;
/// Inverse of the latest value's weight in the average cost of a change of queues.
const CHANGE_STEP: u64 = 8;

impl Bfq {
    /// The largest budget now, in sectors.
    pub(super) fn max_budget(&self) -> u64 {
        if self.spec.max_budget > 0 {
            return self.spec.max_budget.div_ceil(SECTOR);
        }
        if self.peak == 0 {
            return MAX_FIRST;
        }
        let budget = u128::from(self.peak) * u128::from(self.spec.budget_timeout);
        u64::try_from(budget / u128::from(SECOND)).unwrap_or(u64::MAX).max(1)
    }

    /// A queue's next budget: at least its next request.
    pub(super) fn next_budget(&self, number: u32) -> u64 {
        let queue = &self.queues[number];
        let next = queue.next_sectors(&self.pool);
        queue.budget(self.largest_budget(number)).max(next)
    }

    /// The largest budget of a queue: its part of a round, unless changing queues costs too much
    /// for that.
    pub(super) fn largest_budget(&self, number: u32) -> u64 {
        let (max, rate) = (self.max_budget(), self.peak.max(self.seeking));
        if self.spec.max_budget > 0 || rate == 0 {
            return max;
        }
        let queue = &self.queues[number];
        let within = |time: Nanos| rate.saturating_mul(time) / SECOND;
        let change = within(self.change);
        let (mut round, mut mean) = (within(ROUND), change.saturating_mul(WORTH));
        let mut part = |level: &Level, class: Class, id: u32| {
            let (weight, all, count) = level.fairs[class.index()].share(&self.entities, id);
            round = round.saturating_mul(weight) / all.max(1);
            // Its part of all their turns.
            mean = mean.saturating_mul(count).saturating_mul(weight) / all.max(1);
        };
        let level = match queue.group {
            Some(group) => {
                let group = &self.groups[group as usize];
                part(&self.root, Class::BestEffort, group.entity);
                &group.level
            }
            None => &self.root,
        };
        part(level, queue.class, queue.entity);
        let least = if self.peak == 0 { MEASURE_SECTORS } else { MIN_SECTORS };
        let worth = mean.max(change.saturating_mul(MIN_WORTH));
        max.min(round.max(worth).max(least))
    }

    /// Learns the cost of a change to another queue: the time of its first request beyond that of
    /// its sectors.
    pub(super) fn learn_change(&mut self, now: Nanos, queue: u32, sectors: u64) {
        let Some(current) = self.current.as_mut().filter(|current| current.queue == queue) else {
            return;
        };
        let rate = self.peak.max(self.seeking);
        if !std::mem::take(&mut current.first) || rate == 0 {
            return;
        }
        let took = now.saturating_sub(current.began);
        let change = took.saturating_sub(sectors.saturating_mul(SECOND) / rate);
        self.change = (self.change * (CHANGE_STEP - 1) + change) / CHANGE_STEP;
    }

    /// A group's next budget: that of its queue which is next.
    pub(super) fn group_budget(&self, now: Nanos, group: u32) -> Option<u64> {
        let level = &self.groups[group as usize].level;
        let waits = |class: usize| level.fairs[class].is_waiting();
        let (class, _) = level.turns.next(now, CLASS_WAIT, waits)?;
        match self.entities[level.fairs[class].peek(&self.entities)?].owner {
            Owner::Queue(queue) => Some(self.next_budget(queue)),
            Owner::Group(_) => None,
        }
    }

    /// Learns the drive's peak rate from a queue that kept it busy; one that seeks gives only a
    /// lower bound.
    pub(super) fn measure(&mut self, reason: Reason, elapsed: Nanos, served: u64, seeks: bool) {
        let busy = matches!(reason, Reason::Exhausted | Reason::Timeout);
        if !busy || elapsed < MEASURE_TIME || served < MEASURE_SECTORS {
            return;
        }
        let rate = u128::from(served) * u128::from(SECOND) / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let estimate = if seeks { &mut self.seeking } else { &mut self.peak };
        if *estimate == 0 {
            *estimate = rate;
        } else if rate > *estimate {
            *estimate += (rate - *estimate).div_ceil(PEAK_STEP);
        }
    }
}
