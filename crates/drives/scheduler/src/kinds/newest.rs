//! Newest first: the request that came last goes first.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

use super::{counts, Parameters, Problem};
use crate::plain::{Order, Plain};
use crate::pool::{Held, Pool};
use crate::{QueueId, QueuedRequest, Scheduler};

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
        Plain::boxed(Newest { overtake_limit: self.overtake_limit, ..Newest::default() })
    }
}

#[derive(Debug, Default)]
struct Newest {
    /// Places in the pool, the newest request's at the end.
    waiting: VecDeque<u32>,
    overtake_limit: u32,
    /// Requests that have overtaken the oldest one.
    overtaken: u32,
}

impl Order for Newest {
    const NAME: &'static str = NewestSpec::NAME;

    fn push(&mut self, _pool: &mut Pool, slot: u32, _queue: QueueId, _request: &QueuedRequest) {
        self.waiting.push_back(slot);
    }

    fn pop(&mut self, _now: Nanos, pool: &mut Pool) -> Option<Held> {
        let oldest = self.overtaken == self.overtake_limit && !self.waiting.is_empty();
        self.overtaken = if oldest || self.waiting.len() < 2 { 0 } else { self.overtaken + 1 };
        let slot = if oldest { self.waiting.pop_front() } else { self.waiting.pop_back() };
        Some(pool.send(slot?))
    }
}
