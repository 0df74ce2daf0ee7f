//! Schedulers that order requests, independent of their queues.

use std::fmt::Debug;

use stasis_block::clock::Nanos;
use stasis_block::Tag;

use crate::pool::{Held, Pool};
use crate::queues::Slab;
use crate::{QueueId, QueueSpec, QueueStatistics, QueuedRequest, Refused, Scheduler};

/// An order of requests that is independent of the service of their queues: with [`Plain`] it is a
/// scheduler.
pub(crate) trait Order: Debug + Send + 'static {
    /// The scheduler's name in experiments.
    const NAME: &'static str;

    /// A queue was made.
    fn created(&mut self, _queue: QueueId, _spec: &QueueSpec) {}

    /// By when a request is to go (ns).
    fn deadline(&self, now: Nanos, _request: &QueuedRequest) -> Nanos {
        now
    }

    /// Takes in a request, which is at `slot` in the pool.
    fn push(&mut self, pool: &mut Pool, slot: u32, queue: QueueId, request: &QueuedRequest);

    /// Sends the request that goes now ([`Pool::send`]); `None` if none waits.
    fn pop(&mut self, now: Nanos, pool: &mut Pool) -> Option<Held>;
}

/// A queue that nothing schedules: its service, and the number of its waiting requests.
#[derive(Debug, Default)]
struct Queue {
    statistics: QueueStatistics,
    held: usize,
    removed: bool,
}

/// A scheduler that serves requests in an [`Order`], and counts each queue's service.
#[derive(Debug)]
pub(crate) struct Plain<O> {
    pool: Pool,
    queues: Slab<Queue>,
    order: O,
}

impl<O: Order> Plain<O> {
    /// The scheduler, with no queues.
    pub(crate) fn boxed(order: O) -> Box<dyn Scheduler> {
        Box::new(Self { pool: Pool::default(), queues: Slab::default(), order })
    }

    fn drop_if_done(&mut self, queue: u32) {
        if self.queues[queue].removed && self.queues[queue].held == 0 {
            self.queues.remove(queue);
        }
    }
}

impl<O: Order> Scheduler for Plain<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn create(&mut self, _now: Nanos, spec: &QueueSpec) -> QueueId {
        let queue = QueueId(self.queues.insert(Queue::default()));
        self.order.created(queue, spec);
        queue
    }

    fn remove(&mut self, _now: Nanos, queue: QueueId) {
        if let Some(plain) = self.queues.get_mut(queue.0) {
            plain.removed = true;
            self.drop_if_done(queue.0);
        }
    }

    fn add(&mut self, now: Nanos, id: QueueId, request: &QueuedRequest) -> Result<(), Refused> {
        let queue = self.queues.get_mut(id.0).filter(|queue| !queue.removed);
        let queue = queue.ok_or(Refused::Queue(id))?;
        let slot = self.pool.add(id.0, request, self.order.deadline(now, request))?;
        queue.held += 1;
        self.order.push(&mut self.pool, slot, id, request);
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Tag> {
        let held = self.order.pop(now, &mut self.pool)?;
        let statistics = &mut self.queues[held.queue].statistics;
        statistics.requests += 1;
        statistics.sectors += held.sectors;
        Some(held.tag)
    }

    fn complete(&mut self, _now: Nanos, tag: Tag) {
        if let Some(held) = self.pool.complete(tag) {
            self.queues[held.queue].held -= 1;
            self.drop_if_done(held.queue);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }

    fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    fn statistics(&self, _now: Nanos, queue: QueueId) -> QueueStatistics {
        self.queues.get(queue.0).map(|queue| queue.statistics).unwrap_or_default()
    }
}
