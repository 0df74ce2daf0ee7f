//! `clook`: all requests of all queues in one sweep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

use super::Parameters;
use crate::clook_queue::{ClookQueue, Requests};
use crate::plain::{Order, Plain};
use crate::pool::{Held, Pool};
use crate::{QueueId, QueuedRequest, Scheduler};

/// A scheduler without parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClookSpec {}

impl Parameters for ClookSpec {
    const NAME: &'static str = "clook";
    const ABOUT: &'static str = "one sweep over all requests";

    fn build(&self) -> Box<dyn Scheduler> {
        Plain::boxed(Clook::default())
    }
}

#[derive(Debug, Default)]
struct Clook {
    requests: Requests,
    clook: ClookQueue,
}

impl Order for Clook {
    const NAME: &'static str = ClookSpec::NAME;

    fn push(&mut self, pool: &mut Pool, slot: u32, _queue: QueueId, _request: &QueuedRequest) {
        self.clook.push(&mut self.requests, pool, slot);
    }

    fn pop(&mut self, _now: Nanos, pool: &mut Pool) -> Option<Held> {
        let slot = self.clook.next()?;
        Some(self.clook.send(&mut self.requests, pool, slot))
    }
}
