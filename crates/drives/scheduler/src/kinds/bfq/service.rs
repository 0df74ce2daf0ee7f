//! The queue that has the drive: how it gets the drive, sends requests and loses the drive.

use stasis_block::clock::{Nanos, MILLISECOND, SECOND};
use stasis_block::Tag;

use super::fair::Owner;
use super::queue::{self, Queue, Reason, ASYNC, LANES, SYNC, URGENT};
use super::spec::BfqSpec;
use super::state::{Bfq, Current};
use crate::pool::Pool;
use crate::priority::{Class, CLASS_WAIT};

/// Divisor of the largest budget: the quotient is the budget of a class that was held up.
const CLASS_BUDGET: u64 = 32;

/// Time that the drive idles for a request that a queue's owner prefers: as BFQ does for a queue
/// that it has raised (block/bfq-iosched.c, `bfq_arm_slice_timer`).
const URGENT_IDLE: Nanos = 20 * MILLISECOND;

/// Next action at the drive.
#[derive(Debug)]
pub(super) enum Decision {
    Send(u32),
    Wait,
    Expire(Reason),
}

/// Time to idle for a lane with nothing to do; 0: none.
pub(super) fn anticipation(spec: &BfqSpec, queue: &Queue, lane: usize, now: Nanos) -> Nanos {
    if lane == ASYNC || queue.class == Class::Idle || queue.removed {
        return 0;
    }
    let raised = queue.is_raised(now);
    let window = match lane {
        URGENT if raised && spec.idle > 0 => spec.idle.max(URGENT_IDLE),
        _ => spec.idle,
    };
    queue.lanes[lane].anticipation.wait(window, raised)
}

/// From which lane the next request of the queue that has the drive comes; `None`:
/// the drive is kept idle for a better one. `leaves`: whether one that the owner does
/// not prefer is to have its turn.
fn next_lane(
    spec: &BfqSpec,
    current: &Current,
    queue: &Queue,
    leaves: impl Fn() -> bool,
    now: Nanos,
) -> Option<usize> {
    if current.late && queue.waits(ASYNC) {
        return Some(ASYNC);
    }
    for lane in [URGENT, SYNC] {
        // Even where budget or time is over: a queue that leaves with nothing waiting comes back
        // without the service it is owed.
        let returns =
            || queue.lanes[lane].in_flight > 0 && anticipation(spec, queue, lane, now) > 0;
        let expected = || current.lane >= lane && (current.idle_until[lane].is_some() || returns());
        if queue.waits(lane) || expected() {
            let lane = if lane == URGENT && leaves() { SYNC } else { lane };
            return Some(lane).filter(|&lane| queue.waits(lane));
        }
    }
    Some(ASYNC)
}

/// Returns whether the requests that a queue's owner prefers have had so much service that one of
/// the others is to go: `raise` times its cost, in accordance with BFQ's weights. `drive`: its rate
/// in sectors/s, 0 if that is not known, and the cost of a change of queues (ns).
fn leaves(spec: &BfqSpec, pool: &Pool, queue: &Queue, drive: (u64, Nanos), now: Nanos) -> bool {
    let (rate, change) = drive;
    let clook = &queue.lanes[SYNC].clook;
    let (Some(next), Some((deadline, _))) = (clook.next(), clook.earliest(pool)) else {
        return false;
    };
    let transfer = u128::from(pool.get(next).sectors) * u128::from(SECOND);
    let pause = transfer.checked_div(rate.into()).map(|transfer| {
        // There and back.
        let cost = (transfer as Nanos).saturating_add(2 * change);
        cost.saturating_mul(spec.raise.into())
    });
    let arrival = deadline.saturating_sub(spec.expire_sync);
    now >= arrival.max(queue.yielded).saturating_add(pause.unwrap_or(spec.expire_async))
}

impl Bfq {
    /// Gives the drive to the next queue.
    fn select(&mut self, now: Nanos) -> Option<()> {
        let mut level = &mut self.root;
        let mut held_up = false;
        let queue = loop {
            let waits = |class: usize| level.fairs[class].is_waiting();
            let (class, late) = level.turns.next(now, CLASS_WAIT, waits)?;
            held_up |= late;
            level.turns.begins(now, class);
            let id = level.fairs[class].select(&mut self.entities)?;
            match self.entities[id].owner {
                Owner::Queue(queue) => break queue,
                Owner::Group(group) => level = &mut self.groups[group as usize].level,
            }
        };
        let budget = self.entities[self.queues[queue].entity].budget();
        let little = (self.max_budget() / CLASS_BUDGET).max(1);
        let granted = if held_up { budget.min(little) } else { budget };
        let (idle_until, served, preempted, first) = ([None; LANES], 0, false, true);
        let held = &self.queues[queue];
        // Written-back data has a turn when it is late, and every other turn then.
        let earliest = || held.lanes[ASYNC].clook.earliest(&self.pool);
        let late = held.waits(ASYNC) && earliest().is_some_and(|(deadline, _)| deadline <= now);
        let best = [URGENT, SYNC].into_iter().find(|&lane| held.waits(lane));
        let late = late && (!held.wrote_back || best.is_none());
        let lane = best.filter(|_| !late).unwrap_or(ASYNC);
        let own = held.lanes[lane].budget(self.largest_budget(queue));
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

    /// Next action at the drive; `None` if nothing waits.
    pub(super) fn decide(&mut self, now: Nanos) -> Option<Decision> {
        if self.current.is_none() {
            self.select(now)?;
        }
        let current = self.current.as_mut()?;
        let queue = &self.queues[current.queue];
        if current.preempted {
            return Some(Decision::Expire(Reason::Preempted));
        }
        // An idle period that is over is no event any more.
        for until in &mut current.idle_until {
            *until = until.filter(|&until| now < until);
        }
        let drive = (self.peak, self.change);
        let leaves = || leaves(&self.spec, &self.pool, queue, drive, now);
        let Some(lane) = next_lane(&self.spec, current, queue, leaves, now) else {
            return Some(Decision::Wait);
        };
        current.lane = lane;
        // A late request goes first, then the sweep continues from there.
        let (fresh, clook) = (current.served == 0, &queue.lanes[current.lane].clook);
        let late = clook.earliest(&self.pool);
        let late = late.filter(|&(deadline, _)| fresh && deadline <= now).map(|(_, slot)| slot);
        let Some(slot) = late.or_else(|| clook.next()) else {
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
        let at = queue::lane(self.pool.get(slot));
        let lane = &mut queue.lanes[at];
        let held = lane.clook.send(&mut self.requests, &mut self.pool, slot);
        queue.changed(at, true);
        if at == SYNC {
            queue.yielded = now;
        }
        queue.statistics.requests += 1;
        queue.statistics.sectors += held.sectors;
        queue.raise.serve(held.sectors);
        if let Some(current) = &mut self.current {
            current.served += held.sectors;
        }
        self.charge(number, held.sectors);
        // A weight that is raised no longer ends with the first request after.
        let queue = &self.queues[number];
        if queue.weighs_raised && !queue.raise.is_on(now) {
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
                fair.charge(&mut self.entities, group.entity, sectors);
                &mut group.level
            }
            None => &mut self.root,
        };
        let fair = &mut level.fairs[queue.class.index()];
        fair.charge(&mut self.entities, queue.entity, sectors);
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
        let seeks = queue.lanes[current.lane].anticipation.seeks();
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
        level.fairs[class].expire(&mut self.entities, id, next);
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
            fair.expire(&mut self.entities, id, next);
        }
        self.drop_if_done(number);
    }
}
