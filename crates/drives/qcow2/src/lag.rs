//! Costs of flushes, and the writes that a crash can undo.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;

use crate::{Counters, Settings};

/// Writes that a crash can undo, and the limit on how long it can.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// Times at which the flushes ended that are not durable yet.
    orders: VecDeque<Nanos>,
    /// Flushes that became durable before the first of them.
    durable: u64,
    /// Bytes written since the last flush of the drive below.
    bytes: u64,
    /// Bytes written in all, and those of them known to be durable.
    written: u64,
    kept: u64,
    /// Flushes of the drive below that are under way. One that waits for its turn at the image's
    /// tables is not: an order that has the turn can wait for the lag.
    flushing: u32,
}

/// Writes that a flush of the drive below makes durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Covered {
    orders: u64,
    bytes: u64,
}

impl Lag {
    /// Counts a write of this many bytes.
    pub(crate) fn written(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.written = self.written.saturating_add(bytes);
    }

    /// A flush of the guest ended as an order.
    pub(crate) fn ordered(&mut self, now: Nanos, counters: &mut Counters) {
        self.orders.push_back(now);
        let orders = self.orders.len() as u64;
        counters.lag_most_flushes = counters.lag_most_flushes.max(orders);
        counters.lag_most_bytes = counters.lag_most_bytes.max(self.written - self.kept);
    }

    /// Returns the time at which a flush has to be submitted: early enough to be over in time, if
    /// it takes no longer than half of the allowed time.
    pub(crate) fn due(&self, settings: &Settings) -> Option<Nanos> {
        let oldest = *self.orders.front().filter(|_| self.flushing == 0)?;
        let full = self.bytes >= settings.max_lag_bytes;
        Some(if full { oldest } else { oldest.saturating_add(settings.max_lag / 2) })
    }

    /// Returns whether flushes of the guest have to wait.
    pub(crate) fn is_over(&self, now: Nanos, settings: &Settings) -> bool {
        self.orders.front().is_some_and(|oldest| {
            now > oldest.saturating_add(settings.max_lag)
                || self.bytes >= settings.max_lag_bytes.saturating_mul(2)
        })
    }

    /// A flush of the drive below begins, and waits for nothing but the drive; returns the writes
    /// that it covers.
    pub(crate) fn flush(&mut self) -> Covered {
        self.flushing += 1;
        self.bytes = 0;
        Covered { orders: self.durable + self.orders.len() as u64, bytes: self.written }
    }

    /// The flush has ended.
    pub(crate) fn flushed(
        &mut self,
        covered: Covered,
        now: Option<Nanos>,
        counters: &mut Counters,
    ) {
        self.flushing -= 1;
        let Some(now) = now else { return };
        self.kept = self.kept.max(covered.bytes);
        while self.durable < covered.orders {
            let Some(ended) = self.orders.pop_front() else { break };
            self.durable += 1;
            counters.lag_longest = counters.lag_longest.max(now.saturating_sub(ended));
        }
    }
}
