//! `clook`: all requests of all queues in one sweep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::Tag;
use stasis_clock::Nanos;

use super::Parameters;
use crate::clook_queue::{ClookQueue, Requests};
use crate::plain_queues::PlainQueues;
use crate::pool::Pool;
use crate::{QueueId, QueueSpec, QueueStatistics, Refused, Request, Scheduler};

/// A scheduler without parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClookSpec {}

impl Parameters for ClookSpec {
    const NAME: &'static str = "clook";
    const ABOUT: &'static str = "one sweep over all requests";

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Clook::new())
    }
}

/// The scheduler `clook`.
#[derive(Debug, Default)]
pub struct Clook {
    pool: Pool,
    queues: PlainQueues,
    requests: Requests,
    clook: ClookQueue,
}

impl Clook {
    /// With no queues.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Scheduler for Clook {
    fn name(&self) -> &'static str {
        ClookSpec::NAME
    }

    fn create(&mut self, _now: Nanos, _spec: &QueueSpec) -> QueueId {
        self.queues.create()
    }

    fn remove(&mut self, _now: Nanos, queue: QueueId) {
        self.queues.remove(queue);
    }

    fn add(&mut self, now: Nanos, queue: QueueId, request: &Request) -> Result<(), Refused> {
        let slot = self.queues.add(&mut self.pool, queue, request, now)?;
        self.clook.push(&mut self.requests, &mut self.pool, slot);
        Ok(())
    }

    fn dispatch(&mut self, _now: Nanos) -> Option<Tag> {
        let slot = self.clook.next()?;
        let held = self.clook.send(&mut self.requests, &mut self.pool, slot);
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
