//! `none`: in the order of arrival.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::Tag;
use stasis_clock::Nanos;

use super::Parameters;
use crate::plain_queues::PlainQueues;
use crate::pool::Pool;
use crate::{QueueId, QueueSpec, QueueStatistics, Refused, Request, Scheduler};

/// A scheduler without parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoneSpec {}

impl Parameters for NoneSpec {
    const NAME: &'static str = "none";
    const ABOUT: &'static str = "in the order of arrival";

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Unordered::new())
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
        NoneSpec::NAME
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
