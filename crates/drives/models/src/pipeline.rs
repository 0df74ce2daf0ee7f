//! The pipeline that a drive's commands share: each command holds it for its own time, in the
//! order of submission. It bounds the rate of a model whose latencies are independent.

use stasis_block::clock::Nanos;
use stasis_block::inside::Parts;
use stasis_block::{Command, Operation, Status, TimePerByte};

use crate::latency::Latency;

/// A pipeline that commands enter one after another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pipeline {
    // Time at which it takes the next command.
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

    /// Like [`Self::enter`], but for a command that does not wait.
    pub fn pass(&mut self, now: Nanos, slot: Nanos) {
        self.free_at = self.free_at.max(now.saturating_add(slot));
    }
}

/// A model whose reads and writes share a bandwidth.
#[derive(Debug)]
pub(crate) struct Throttled<L> {
    inner: L,
    time_per_byte: Option<TimePerByte>,
    pipeline: Pipeline,
    // Parts of the last command's time: its wait, and the transfer's time beyond the inner latency.
    wait: Nanos,
    transfer: Nanos,
}

impl<L: Latency> Throttled<L> {
    /// Without a bandwidth there is no bound.
    pub fn new(inner: L, bandwidth: Option<stasis_block::Rate>) -> Self {
        let time_per_byte = bandwidth.map(stasis_block::Rate::time_per_byte);
        let pipeline = Pipeline::default();
        Self { inner, time_per_byte, pipeline, wait: 0, transfer: 0 }
    }
}

impl<L: Latency> Latency for Throttled<L> {
    fn tells(&self) -> bool {
        self.time_per_byte.is_some()
    }

    fn parts(&self, latency: Nanos) -> Parts<Nanos> {
        let own = latency.saturating_sub(self.wait.saturating_add(self.transfer));
        let mut parts = self.inner.parts(own);
        parts.queue += self.wait;
        parts.transfer += self.transfer;
        parts
    }

    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos {
        let transfers =
            matches!(command.operation, Operation::Read | Operation::Write | Operation::Copy);
        let Some(time_per_byte) = self.time_per_byte.filter(|_| transfers) else {
            (self.wait, self.transfer) = (0, 0);
            return self.inner.latency(now, command);
        };
        let slot = time_per_byte.times(command.length);
        let wait = self.pipeline.enter(now, slot);
        let inner = self.inner.latency(now.saturating_add(wait), command);
        // No command is done before its data has moved.
        let own = inner.max(slot);
        (self.wait, self.transfer) = (wait, own - inner);
        wait.saturating_add(own)
    }

    fn refuses(&self, command: &Command) -> Option<Status> {
        self.inner.refuses(command)
    }

    fn reseed(&mut self, seed: u64) {
        self.inner.reseed(seed);
    }

    fn waiting(&self, now: Nanos) -> Option<String> {
        self.inner.waiting(now)
    }
}
