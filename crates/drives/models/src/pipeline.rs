//! The pipeline that a drive's commands share: each command holds it for its own time, in the
//! order of submission. It bounds the rate of a model whose latencies are independent.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Status, TimePerByte};

use crate::latency::Latency;

/// A pipeline that commands enter one after another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pipeline {
    // When it takes the next command.
    free_at: Nanos,
}

impl Pipeline {
    /// A command that arrives at `now` holds the pipeline for `slot`; the time (ns) that
    /// it waits before.
    pub fn enter(&mut self, now: Nanos, slot: Nanos) -> Nanos {
        let start = self.free_at.max(now);
        self.free_at = start.saturating_add(slot);
        start - now
    }
}

/// A model whose reads and writes share a bandwidth.
#[derive(Debug)]
pub(crate) struct Throttled<L> {
    inner: L,
    time_per_byte: Option<TimePerByte>,
    pipeline: Pipeline,
}

impl<L: Latency> Throttled<L> {
    /// Without a bandwidth there is no bound.
    pub fn new(inner: L, bandwidth: Option<stasis_block::Rate>) -> Self {
        let time_per_byte = bandwidth.map(stasis_block::Rate::time_per_byte);
        Self { inner, time_per_byte, pipeline: Pipeline::default() }
    }
}

impl<L: Latency> Latency for Throttled<L> {
    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos {
        let transfers =
            matches!(command.operation, Operation::Read | Operation::Write | Operation::Copy);
        let Some(time_per_byte) = self.time_per_byte.filter(|_| transfers) else {
            return self.inner.latency(now, command);
        };
        let slot = time_per_byte.times(command.length);
        let wait = self.pipeline.enter(now, slot);
        // No command is done before its data has moved.
        let own = self.inner.latency(now.saturating_add(wait), command).max(slot);
        wait.saturating_add(own)
    }

    fn refuses(&self, command: &Command) -> Option<Status> {
        self.inner.refuses(command)
    }
}
