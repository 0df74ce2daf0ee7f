//! `cfq`: every queue in turn has the drive for a slice of time. After Linux's
//! CFQ as the publication's reference has it (Axboe, "CFQ I/O scheduler",
//! linux.conf.au 2007; Linux, Documentation/block/cfq-iosched.txt).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, MILLISECOND};
use stasis_block::{units, Tag};

use super::{lasts, Parameters, Problem};
use crate::anticipation::Anticipation;
use crate::clook_queue::{ClookQueue, Requests};
use crate::pool::Pool;
use crate::priority::{Class, Turns, CLASS_WAIT};
use crate::queues::Slab;
use crate::{Priority, QueueId, QueueSpec, QueueStatistics, QueuedRequest, Refused, Scheduler};

/// The parameters of `cfq`, with the defaults of Linux's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CfqSpec {
    /// A slice of a queue whose owner waits, at the default level (ns).
    #[serde(with = "units::duration")]
    pub slice_sync: Nanos,
    /// A slice of another queue, at the default level (ns).
    #[serde(with = "units::duration")]
    pub slice_async: Nanos,
    /// Time that the drive idles for a queue whose owner waits (ns); 0: never.
    #[serde(with = "units::duration")]
    pub idle: Nanos,
    /// Time after which a request is late, so that the queue's slice begins with it (ns).
    #[serde(with = "units::duration")]
    pub expire_sync: Nanos,
    /// The same where nobody waits (ns).
    #[serde(with = "units::duration")]
    pub expire_async: Nanos,
}

impl Default for CfqSpec {
    fn default() -> Self {
        Self {
            slice_sync: 100 * MILLISECOND,
            slice_async: 40 * MILLISECOND,
            idle: 8 * MILLISECOND,
            expire_sync: 125 * MILLISECOND,
            expire_async: 250 * MILLISECOND,
        }
    }
}

impl Parameters for CfqSpec {
    const NAME: &'static str = "cfq";
    const ABOUT: &'static str = "slices of time in turn";

    fn check(&self) -> Result<(), Problem> {
        lasts("slice_sync", self.slice_sync)?;
        lasts("slice_async", self.slice_async)?;
        lasts("expire_sync", self.expire_sync)?;
        lasts("expire_async", self.expire_async)
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Cfq::new(*self))
    }
}

#[derive(Debug, Default)]
struct Queue {
    priority: Priority,
    // Priority that it changes to when it next stands in line.
    wanted: Priority,
    clook: ClookQueue,
    anticipation: Anticipation,
    sync: bool,
    in_flight: usize,
    in_line: bool,
    removed: bool,
    statistics: QueueStatistics,
}

#[derive(Debug)]
struct Slice {
    queue: u32,
    // From its first request on.
    end: Option<Nanos>,
    idle_until: Option<Nanos>,
    // It began for being held up by a better class: one request.
    single: bool,
    // A better class came.
    preempted: bool,
}

/// The scheduler `cfq`.
#[derive(Debug, Default)]
pub struct Cfq {
    spec: CfqSpec,
    pool: Pool,
    queues: Slab<Queue>,
    requests: Requests,
    lines: [VecDeque<u32>; Class::COUNT],
    turns: Turns,
    slice: Option<Slice>,
}

impl Cfq {
    /// With no queues.
    pub fn new(spec: CfqSpec) -> Self {
        Self { spec, ..Self::default() }
    }

    /// A slice grows and shrinks by a fifth a level (`CFQ_SLICE_SCALE`).
    fn length(&self, queue: &Queue) -> Nanos {
        let base = if queue.sync { self.spec.slice_sync } else { self.spec.slice_async };
        let level = u64::from(queue.priority.level.min(Priority::LOWEST));
        base / 5 * (5 + u64::from(Priority::DEFAULT_LEVEL) - level)
    }

    fn stand_in_line(&mut self, now: Nanos, number: u32, front: bool) {
        let queue = &mut self.queues[number];
        queue.in_line = true;
        queue.priority = queue.wanted;
        let class = queue.priority.class.index();
        if self.lines[class].is_empty() {
            self.turns.begins(now, class);
        }
        if front {
            self.lines[class].push_front(number);
        } else {
            self.lines[class].push_back(number);
        }
    }

    fn end_slice(&mut self, now: Nanos) {
        if let Some(slice) = self.slice.take() {
            if self.queues[slice.queue].clook.is_empty() {
                self.drop_if_done(slice.queue);
            } else {
                self.stand_in_line(now, slice.queue, slice.preempted);
            }
        }
    }

    fn begin_slice(&mut self, now: Nanos) -> Option<()> {
        let waits = |class: usize| !self.lines[class].is_empty();
        let (class, single) = self.turns.next(now, CLASS_WAIT, waits)?;
        let queue = self.lines[class].pop_front()?;
        self.turns.begins(now, class);
        self.queues[queue].in_line = false;
        self.slice = Some(Slice { queue, end: None, idle_until: None, single, preempted: false });
        Some(())
    }

    fn drop_if_done(&mut self, number: u32) {
        let queue = &self.queues[number];
        let current = self.slice.as_ref().is_some_and(|slice| slice.queue == number);
        if queue.removed && queue.in_flight == 0 && queue.clook.is_empty() && !current {
            self.queues.remove(number);
        }
    }
}

impl Scheduler for Cfq {
    fn name(&self) -> &'static str {
        CfqSpec::NAME
    }

    fn create(&mut self, _now: Nanos, spec: &QueueSpec) -> QueueId {
        let (priority, wanted) = (spec.priority, spec.priority);
        QueueId(self.queues.insert(Queue { priority, wanted, ..Queue::default() }))
    }

    fn remove(&mut self, _now: Nanos, queue: QueueId) {
        if let Some(found) = self.queues.get_mut(queue.0) {
            found.removed = true;
            self.drop_if_done(queue.0);
        }
    }

    fn add(&mut self, now: Nanos, id: QueueId, request: &QueuedRequest) -> Result<(), Refused> {
        let queue = self.queues.get_mut(id.0).filter(|queue| !queue.removed);
        let queue = queue.ok_or(Refused::Queue(id))?;
        let expire = if request.sync { self.spec.expire_sync } else { self.spec.expire_async };
        let slot = self.pool.add(id.0, request, now.saturating_add(expire))?;
        queue.anticipation.arrived(now, self.pool.get(slot), self.spec.idle);
        queue.clook.push(&mut self.requests, &mut self.pool, slot);
        queue.sync = request.sync;
        queue.wanted = request.priority.unwrap_or(queue.wanted);
        let (in_line, class) = (queue.in_line, queue.wanted.class);
        match &mut self.slice {
            Some(slice) if slice.queue == id.0 => slice.idle_until = None,
            _ if in_line => {}
            slice => {
                if let Some(slice) = slice {
                    slice.preempted |= class < self.queues[slice.queue].priority.class;
                }
                self.stand_in_line(now, id.0, false);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Tag> {
        loop {
            if self.slice.is_none() {
                self.begin_slice(now)?;
            }
            let slice = self.slice.as_mut()?;
            let over = slice.preempted || slice.end.is_some_and(|end| end <= now);
            let number = slice.queue;
            let queue = &self.queues[number];
            if !over && queue.clook.is_empty() {
                let waited_for = self.spec.idle > 0 && queue.sync && queue.in_flight > 0;
                if waited_for || slice.idle_until.is_some_and(|until| now < until) {
                    return None;
                }
            }
            if over || queue.clook.is_empty() {
                self.end_slice(now);
                continue;
            }
            let late = queue.clook.earliest(&self.pool).filter(|&(deadline, _)| deadline <= now);
            let late = late.filter(|_| slice.end.is_none()).map(|(_, slot)| slot);
            let slot = late.or_else(|| queue.clook.next())?;
            if slice.end.is_none() {
                let length = self.length(queue);
                let slice = self.slice.as_mut()?;
                slice.end = Some(if slice.single { now } else { now.saturating_add(length) });
            }
            let queue = &mut self.queues[number];
            let held = queue.clook.send(&mut self.requests, &mut self.pool, slot);
            queue.in_flight += 1;
            queue.statistics.requests += 1;
            queue.statistics.sectors += held.sectors;
            return Some(held.tag);
        }
    }

    fn complete(&mut self, now: Nanos, tag: Tag) {
        let Some(held) = self.pool.complete(tag) else { return };
        let queue = &mut self.queues[held.queue];
        queue.in_flight -= 1;
        if queue.in_flight > 0 || !queue.clook.is_empty() {
            return;
        }
        queue.anticipation.idles(now);
        if let Some(slice) = self.slice.as_mut().filter(|slice| slice.queue == held.queue) {
            let waits = held.sync && queue.priority.class != Class::Idle && !queue.removed;
            let wait = if waits { queue.anticipation.wait(self.spec.idle, false) } else { 0 };
            slice.idle_until = (wait > 0).then(|| now.saturating_add(wait));
        }
        self.drop_if_done(held.queue);
    }

    fn next_event(&self) -> Option<Nanos> {
        let until = self.slice.as_ref()?.idle_until?;
        let end = self.slice.as_ref()?.end.unwrap_or(until);
        (self.pool.waiting() > 0).then_some(until.min(end))
    }

    fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    fn statistics(&self, _now: Nanos, queue: QueueId) -> QueueStatistics {
        self.queues.get(queue.0).map(|queue| queue.statistics).unwrap_or_default()
    }
}
