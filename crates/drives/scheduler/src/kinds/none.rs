//! `none`: in the order of arrival.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

use super::Parameters;
use crate::plain::{Order, Plain};
use crate::pool::{Held, Pool};
use crate::{QueueId, QueuedRequest, Scheduler};

/// A scheduler without parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoneSpec {}

impl Parameters for NoneSpec {
    const NAME: &'static str = "none";
    const ABOUT: &'static str = "in the order of arrival";

    fn build(&self) -> Box<dyn Scheduler> {
        Plain::boxed(Arrival::default())
    }
}

#[derive(Debug, Default)]
struct Arrival {
    waiting: VecDeque<u32>,
}

impl Order for Arrival {
    const NAME: &'static str = NoneSpec::NAME;

    fn push(&mut self, _pool: &mut Pool, slot: u32, _queue: QueueId, _request: &QueuedRequest) {
        self.waiting.push_back(slot);
    }

    fn pop(&mut self, _now: Nanos, pool: &mut Pool) -> Option<Held> {
        Some(pool.send(self.waiting.pop_front()?))
    }
}
