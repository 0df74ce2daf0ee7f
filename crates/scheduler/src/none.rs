//! `none`: in the order of arrival.

use std::collections::VecDeque;

use stasis_block::Tag;
use stasis_clock::Nanos;

use crate::pool::Pool;
use crate::queues::Slab;
use crate::{QueueId, QueueSpec, QueueStatistics, Refused, Request, Scheduler};

/// A queue that nothing schedules: what it got, and how much it still has.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    pub(crate) statistics: QueueStatistics,
    pub(crate) held: usize,
    pub(crate) removed: bool,
}

/// The queues of schedulers that know requests only.
#[derive(Debug, Default)]
pub(crate) struct PlainQueues(Slab<Plain>);

impl PlainQueues {
    pub(crate) fn create(&mut self) -> QueueId {
        QueueId(self.0.insert(Plain::default()))
    }

    pub(crate) fn remove(&mut self, queue: QueueId) {
        if let Some(plain) = self.0.get_mut(queue.0) {
            plain.removed = true;
            self.drop_if_done(queue.0);
        }
    }

    /// Takes a request of the queue into the pool.
    pub(crate) fn add(
        &mut self,
        pool: &mut Pool,
        queue: QueueId,
        request: &Request,
        deadline: Nanos,
    ) -> Result<u32, Refused> {
        let plain = self.0.get_mut(queue.0).filter(|plain| !plain.removed);
        let plain = plain.ok_or(Refused::Queue(queue))?;
        let slot = pool.add(queue.0, request, deadline)?;
        plain.held += 1;
        Ok(slot)
    }

    pub(crate) fn sent(&mut self, queue: u32, sectors: u64) {
        let statistics = &mut self.0[queue].statistics;
        statistics.requests += 1;
        statistics.sectors += sectors;
    }

    pub(crate) fn complete(&mut self, pool: &mut Pool, tag: Tag) {
        if let Some(held) = pool.complete(tag) {
            self.0[held.queue].held -= 1;
            self.drop_if_done(held.queue);
        }
    }

    pub(crate) fn statistics(&self, queue: QueueId) -> QueueStatistics {
        self.0.get(queue.0).map(|plain| plain.statistics).unwrap_or_default()
    }

    fn drop_if_done(&mut self, queue: u32) {
        if self.0[queue].removed && self.0[queue].held == 0 {
            self.0.remove(queue);
        }
    }
}

/// The scheduler `none`.
#[derive(Debug, Default)]
pub struct Unordered {
    pool: Pool,
    queues: PlainQueues,
    waiting: VecDeque<u32>,
}

impl Unordered {
    /// With no queues.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Scheduler for Unordered {
    fn name(&self) -> &'static str {
        "none"
    }

    fn create(&mut self, _now: Nanos, _spec: &QueueSpec) -> QueueId {
        self.queues.create()
    }

    fn remove(&mut self, _now: Nanos, queue: QueueId) {
        self.queues.remove(queue);
    }

    fn add(&mut self, now: Nanos, queue: QueueId, request: &Request) -> Result<(), Refused> {
        let slot = self.queues.add(&mut self.pool, queue, request, now)?;
        self.waiting.push_back(slot);
        Ok(())
    }

    fn dispatch(&mut self, _now: Nanos) -> Option<Tag> {
        let held = self.pool.send(self.waiting.pop_front()?);
        self.queues.sent(held.queue, held.sectors);
        Some(held.tag)
    }

    fn complete(&mut self, _now: Nanos, tag: Tag) {
        self.queues.complete(&mut self.pool, tag);
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }

    fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    fn statistics(&self, _now: Nanos, queue: QueueId) -> QueueStatistics {
        self.queues.statistics(queue)
    }
}
