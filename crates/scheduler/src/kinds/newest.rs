//! Newest first: the request that came last goes first.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::Tag;
use stasis_clock::Nanos;

use super::{counts, Parameters, Problem};
use crate::plain_queues::PlainQueues;
use crate::pool::Pool;
use crate::{QueueId, QueueSpec, QueueStatistics, Refused, Request, Scheduler};

/// The parameters of `newest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewestSpec {
    /// Requests that overtake the oldest one at most.
    #[schemars(range(min = 1))]
    pub overtake_limit: u32,
}

impl Default for NewestSpec {
    fn default() -> Self {
        Self { overtake_limit: 64 }
    }
}

impl Parameters for NewestSpec {
    const NAME: &'static str = "newest";
    const ABOUT: &'static str = "the newest request first";

    fn check(&self) -> Result<(), Problem> {
        counts("overtake_limit", self.overtake_limit, u32::MAX)
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Newest { overtake_limit: self.overtake_limit, ..Newest::default() })
    }
}

#[derive(Debug, Default)]
struct Newest {
    /// The requests, found by their tags in constant time.
    pool: Pool,
    queues: PlainQueues,
    /// Places in the pool, the newest request's at the end.
    waiting: VecDeque<u32>,
    overtake_limit: u32,
    /// Requests that have overtaken the oldest one.
    overtaken: u32,
}

impl Scheduler for Newest {
    fn name(&self) -> &'static str {
        NewestSpec::NAME
    }

    fn create(&mut self, _now: Nanos, _spec: &QueueSpec) -> QueueId {
        self.queues.create()
    }

    fn remove(&mut self, _now: Nanos, queue: QueueId) {
        self.queues.remove(queue);
    }

    fn add(&mut self, now: Nanos, queue: QueueId, request: &Request) -> Result<(), Refused> {
        self.waiting.push_back(self.queues.add(&mut self.pool, queue, request, now)?);
        Ok(())
    }

    fn dispatch(&mut self, _now: Nanos) -> Option<Tag> {
        let oldest = self.overtaken == self.overtake_limit && !self.waiting.is_empty();
        self.overtaken = if oldest || self.waiting.len() < 2 { 0 } else { self.overtaken + 1 };
        let slot = if oldest { self.waiting.pop_front() } else { self.waiting.pop_back() };
        let held = self.pool.send(slot?);
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
