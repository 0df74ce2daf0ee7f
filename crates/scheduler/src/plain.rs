//! The queues of schedulers that order requests, whoever's they are.

use stasis_block::Tag;
use stasis_clock::Nanos;

use crate::pool::Pool;
use crate::queues::Slab;
use crate::{QueueId, QueueStatistics, Refused, Request};

/// A queue that nothing schedules: what it got, and how much it still has.
#[derive(Debug, Default)]
struct Plain {
    statistics: QueueStatistics,
    held: usize,
    removed: bool,
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
