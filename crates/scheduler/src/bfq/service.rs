//! The queue that has the drive: how it gets it, what it sends, when it loses it.

use stasis_block::Tag;
use stasis_clock::{Nanos, MILLISECOND, SECOND};

use super::fair::Owner;
use super::queue::{Queue, Reason, ASYNC, SYNC};
use super::{Bfq, BfqSpec, Level};
use crate::priority::{Class, CLASS_WAIT};

/// A rate is measured over at least this time and these sectors (512 KiB), so
/// that one request from a drive's cache does not count as its rate.
const MEASURE_TIME: Nanos = MILLISECOND;
const MEASURE_SECTORS: u64 = 1024;
/// A higher rate moves the peak by this part: bursts into caches are short.
const PEAK_STEP: u64 = 8;
/// What a class gets that those before it held up: this part of a largest budget.
const CLASS_BUDGET: u64 = 32;

/// All that wait have their turns within this time, as long as changing from one
/// to the next costs little: then a queue is never more than three such rounds of
/// its share behind (docs/schedulers.md), which is 2 % of what it gets in 10 s.
const ROUND: Nanos = 60 * MILLISECOND;
/// And the least that a turn is worth, in sectors.
const LEAST: u64 = MEASURE_SECTORS / 4;
/// A turn is at least so many times what changing to it costs: nine tenths of
/// the drive's time are service.
const WORTH: u64 = 9;
/// What changing costs is a mean in which the latest counts this part.
const CHANGE_STEP: u64 = 8;

#[derive(Debug)]
pub(super) struct Current {
    pub(super) queue: u32,
    /// Since when.
    pub(super) began: Nanos,
    /// Until when the drive idles for it.
    pub(super) idle_until: Option<Nanos>,
    granted: u64,
    served: u64,
    preempted: bool,
    /// Nothing of it is done yet.
    first: bool,
    lane: usize,
    /// Its lane is [`ASYNC`] because that was late: it stays so.
    late: bool,
}

#[derive(Debug)]
pub(super) enum Decision {
    Send(u32),
    Wait,
    Expire(Reason),
}

/// How long to idle for a queue with nothing to do; 0: not at all.
pub(super) fn patience(spec: &BfqSpec, queue: &Queue, now: Nanos) -> Nanos {
    if queue.class == Class::Idle || queue.removed {
        return 0;
    }
    queue.lanes[SYNC].patience.wait(spec.idle, queue.is_raised(now))
}

impl Bfq {
    /// A queue's next budget: at least its next request.
    fn next_budget(&self, number: u32) -> u64 {
        let queue = &self.queues[number];
        let next = queue.next_sectors(&self.pool);
        queue.budget(self.largest_budget(number)).max(next)
    }

    /// The largest budget of a queue: what is its part of a round, unless changing
    /// queues costs too much for that.
    fn largest_budget(&self, number: u32) -> u64 {
        let (max, rate) = (self.max_budget(), self.peak.max(self.seeking));
        if self.spec.max_budget > 0 || rate == 0 {
            return max;
        }
        let queue = &self.queues[number];
        let within = |time: Nanos| rate.saturating_mul(time) / SECOND;
        let part = |level: &Level, class: Class, id: u32, of: u64| {
            let (weight, all) = level.fairs[class.index()].share(&self.entities, id);
            of.saturating_mul(weight) / all.max(1)
        };
        let mut budget = within(ROUND);
        let level = match queue.group {
            Some(group) => {
                let group = &self.groups[group as usize];
                budget = part(&self.root, Class::BestEffort, group.entity, budget);
                &group.level
            }
            None => &self.root,
        };
        budget = part(level, queue.class, queue.entity, budget);
        let least = if self.peak == 0 { MEASURE_SECTORS } else { LEAST };
        max.min(budget.max(within(WORTH.saturating_mul(self.change))).max(least))
    }

    /// Learns what changing to another queue costs: how much longer its first
    /// request took than its sectors do.
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
    fn group_budget(&self, now: Nanos, group: u32) -> Option<u64> {
        let level = &self.groups[group as usize].level;
        let waits = |class: usize| level.fairs[class].is_waiting();
        let (class, _) = level.turns.next(now, CLASS_WAIT, waits)?;
        match self.entities[level.fairs[class].peek(&self.entities, &self.trees)?].owner {
            Owner::Queue(queue) => Some(self.next_budget(queue)),
            Owner::Group(_) => None,
        }
    }

    /// A queue that has something to do, and neither waits nor has the drive.
    pub(super) fn activate(&mut self, now: Nanos, number: u32) {
        let queue = &mut self.queues[number];
        let (id, group, from) = (queue.entity, queue.group, queue.class.index());
        (queue.class, queue.spec.priority) = (queue.wanted.class, queue.wanted);
        let (to, changes) = (queue.class.index(), queue.class.index() != from);
        if changes {
            let level = match group {
                Some(group) => &mut self.groups[group as usize].level,
                None => &mut self.root,
            };
            level.fairs[from].leave(&mut self.entities, &mut self.trees, id);
        }
        self.reweigh(now, number);
        let budget = self.next_budget(number);
        let level = match group {
            Some(group) => &mut self.groups[group as usize].level,
            None => &mut self.root,
        };
        if !level.fairs[to].is_waiting() {
            level.turns.begins(now, to);
        }
        level.fairs[to].activate(&mut self.entities, &mut self.trees, id, budget);
        if let Some(group) = group {
            self.activate_group(now, group);
        }
    }

    /// A request came to a queue that waits: the budget that its finish was
    /// computed from must do for the request that is now next.
    pub(super) fn widen(&mut self, now: Nanos, number: u32) {
        let queue = &self.queues[number];
        let (id, group, class) = (queue.entity, queue.group, queue.class.index());
        let next = queue.next_sectors(&self.pool);
        if next <= self.entities[id].budget() {
            return;
        }
        let level = match group {
            Some(group) => &mut self.groups[group as usize].level,
            None => &mut self.root,
        };
        level.fairs[class].budget(&mut self.entities, &mut self.trees, id, next);
        if let Some(group) = group {
            self.activate_group(now, group);
        }
    }

    /// A queue of the group came to wait: so does the group, or its budget changes.
    fn activate_group(&mut self, now: Nanos, group: u32) {
        let Some(budget) = self.group_budget(now, group) else { return };
        let id = self.groups[group as usize].entity;
        let class = Class::BestEffort.index();
        let fair = &mut self.root.fairs[class];
        if self.entities[id].is_waiting() {
            fair.budget(&mut self.entities, &mut self.trees, id, budget);
        } else if self.entities[id].is_idle() {
            if !fair.is_waiting() {
                self.root.turns.begins(now, class);
            }
            fair.activate(&mut self.entities, &mut self.trees, id, budget);
        }
    }

    /// The queue that has the drive goes if this one, which waits, is more
    /// urgent and would be next: a raised weight is no use while another has a
    /// large budget to spend.
    pub(super) fn preempt_for(&mut self, now: Nanos, number: u32) {
        let Some(current) = &self.current else { return };
        let (queue, other) = (&self.queues[number], &self.queues[current.queue]);
        let within = queue.group.filter(|_| queue.group == other.group);
        let level = within.map_or(&self.root, |group| &self.groups[group as usize].level);
        // Class first, then whether it is raised where the two compete.
        let standing = |queue: &Queue| match queue.group {
            Some(group) if within.is_none() => {
                let group = &self.groups[group as usize];
                (group.entity, Class::BestEffort.index(), group.helped == 0)
            }
            _ => (queue.entity, queue.class.index(), !queue.is_raised(now)),
        };
        let ((id, class, plain), (_, other_class, other_plain)) =
            (standing(queue), standing(other));
        let next = level.fairs[class].peek(&self.entities, &self.trees) == Some(id);
        if next && (class, plain) < (other_class, other_plain) {
            if let Some(current) = &mut self.current {
                current.preempted = true;
            }
        }
    }

    /// Gives the drive to the next queue.
    fn select(&mut self, now: Nanos) -> Option<()> {
        let mut level = &mut self.root;
        let mut held_up = false;
        let queue = loop {
            let waits = |class: usize| level.fairs[class].is_waiting();
            let (class, late) = level.turns.next(now, CLASS_WAIT, waits)?;
            held_up |= late;
            level.turns.begins(now, class);
            let id = level.fairs[class].select(&mut self.entities, &mut self.trees)?;
            match self.entities[id].owner {
                Owner::Queue(queue) => break queue,
                Owner::Group(group) => level = &mut self.groups[group as usize].level,
            }
        };
        let budget = self.entities[self.queues[queue].entity].budget();
        let little = (self.max_budget() / CLASS_BUDGET).max(1);
        let granted = if held_up { budget.min(little) } else { budget };
        let (idle_until, served, preempted, first) = (None, 0, false, true);
        let lanes = &self.queues[queue].lanes;
        // What is written back has a turn when it is late, and every other one then.
        let earliest = lanes[ASYNC].sweep.earliest(&self.pool);
        let late = earliest.is_some_and(|(deadline, _)| deadline <= now);
        let late = late && (!self.queues[queue].wrote_back || lanes[SYNC].sweep.is_empty());
        let lane = if late || lanes[SYNC].sweep.is_empty() { ASYNC } else { SYNC };
        let own = lanes[lane].budget(self.largest_budget(queue));
        let granted = granted.min(own.max(self.queues[queue].next_sectors(&self.pool)));
        self.queues[queue].wrote_back = late;
        let began = now;
        self.current = Some(Current {
            queue,
            began,
            idle_until,
            granted,
            served,
            preempted,
            first,
            lane,
            late,
        });
        Some(())
    }

    /// What to do with the drive now; `None` if nothing waits.
    pub(super) fn decide(&mut self, now: Nanos) -> Option<Decision> {
        if self.current.is_none() {
            self.select(now)?;
        }
        let current = self.current.as_mut()?;
        let queue = &self.queues[current.queue];
        if current.preempted {
            return Some(Decision::Expire(Reason::Preempted));
        }
        let waits = |lane: usize| !queue.lanes[lane].sweep.is_empty();
        if current.lane == ASYNC && waits(SYNC) && (!current.late || !waits(ASYNC)) {
            current.lane = SYNC;
        } else if current.lane == SYNC && !waits(SYNC) {
            // Even where budget or time is over: a queue that leaves with nothing
            // waiting comes back without what it is owed.
            let returns = queue.lanes[SYNC].in_flight > 0 && patience(&self.spec, queue, now) > 0;
            if returns || current.idle_until.is_some_and(|until| now < until) {
                return Some(Decision::Wait);
            }
            current.lane = ASYNC;
        }
        // A late request goes first, then the sweep goes on from there.
        let (fresh, sweep) = (current.served == 0, &queue.lanes[current.lane].sweep);
        let late = sweep.earliest(&self.pool);
        let late = late.filter(|&(deadline, _)| fresh && deadline <= now).map(|(_, slot)| slot);
        let Some(slot) = late.or_else(|| sweep.next()) else {
            return Some(Decision::Expire(Reason::Emptied));
        };
        if !fresh && now.saturating_sub(current.began) >= self.spec.budget_timeout {
            return Some(Decision::Expire(Reason::Timeout));
        }
        let fits = current.served.saturating_add(self.pool.get(slot).sectors) <= current.granted;
        let fits = fits || fresh;
        Some(if fits { Decision::Send(slot) } else { Decision::Expire(Reason::Exhausted) })
    }

    pub(super) fn send(&mut self, now: Nanos, slot: u32) -> Tag {
        let number = self.pool.get(slot).queue;
        let queue = &mut self.queues[number];
        let lane = &mut queue.lanes[usize::from(self.pool.get(slot).sync)];
        let held = lane.sweep.send(&mut self.requests, &mut self.pool, slot);
        lane.in_flight += 1;
        queue.statistics.requests += 1;
        queue.statistics.sectors += held.sectors;
        queue.raise.serve(held.sectors);
        if let Some(current) = &mut self.current {
            current.served += held.sectors;
        }
        self.charge(number, held.sectors);
        // A weight that is raised no longer ends with the first request after.
        if self.queues[number].raise.until() <= now {
            self.reweigh(now, number);
        }
        held.tag
    }

    fn charge(&mut self, number: u32, sectors: u64) {
        let queue = &self.queues[number];
        let level = match queue.group {
            Some(group) => {
                let group = &mut self.groups[group as usize];
                let fair = &mut self.root.fairs[Class::BestEffort.index()];
                fair.charge(&mut self.entities, &mut self.trees, group.entity, sectors);
                &mut group.level
            }
            None => &mut self.root,
        };
        let fair = &mut level.fairs[queue.class.index()];
        fair.charge(&mut self.entities, &mut self.trees, queue.entity, sectors);
    }

    /// Takes the drive from the queue that has it.
    pub(super) fn expire(&mut self, now: Nanos, reason: Reason) {
        let Some(current) = self.current.take() else { return };
        let (number, max) = (current.queue, self.max_budget());
        let largest = self.largest_budget(number);
        let elapsed = now.saturating_sub(current.began);
        let queue = &mut self.queues[number];
        let lane = &mut queue.lanes[current.lane];
        lane.adjust(reason, current.granted, current.served, largest);
        let seeks = queue.lanes[current.lane].patience.seeks();
        let raised = queue.is_raised(now);
        self.measure(reason, elapsed, current.served, seeks);
        if seeks && self.spec.charge_time && !raised {
            let time = u128::from(self.peak) * u128::from(elapsed) / u128::from(SECOND);
            let time = u64::try_from(time).unwrap_or(u64::MAX).min(max);
            self.charge(number, time.saturating_sub(current.served));
        }
        let queue = &self.queues[number];
        let (id, group, class) = (queue.entity, queue.group, queue.class.index());
        let more = queue.is_waiting();
        let stays = more && queue.wanted == queue.spec.priority;
        let next = stays.then(|| self.next_budget(number));
        let level = match group {
            Some(group) => &mut self.groups[group as usize].level,
            None => &mut self.root,
        };
        if stays && !level.fairs[class].is_waiting() {
            level.turns.begins(now, class);
        }
        level.fairs[class].expire(&mut self.entities, &mut self.trees, id, next);
        if more && !stays {
            self.activate(now, number);
        }
        self.reweigh(now, number);
        if let Some(group) = group {
            let next = self.group_budget(now, group);
            let id = self.groups[group as usize].entity;
            let class = Class::BestEffort.index();
            let fair = &mut self.root.fairs[class];
            if next.is_some() && !fair.is_waiting() {
                self.root.turns.begins(now, class);
            }
            fair.expire(&mut self.entities, &mut self.trees, id, next);
        }
        self.drop_if_done(number);
    }

    /// Learns the drive's peak rate from a queue that kept it busy; one that
    /// seeks says only what it is at least.
    fn measure(&mut self, reason: Reason, elapsed: Nanos, served: u64, seeks: bool) {
        let busy = matches!(reason, Reason::Exhausted | Reason::Timeout);
        if !busy || elapsed < MEASURE_TIME || served < MEASURE_SECTORS {
            return;
        }
        let rate = u128::from(served) * u128::from(SECOND) / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let of = if seeks { &mut self.seeking } else { &mut self.peak };
        if *of == 0 {
            *of = rate;
        } else if rate > *of {
            *of += (rate - *of).div_ceil(PEAK_STEP);
        }
    }
}
