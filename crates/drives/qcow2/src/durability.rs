//! Costs of flushes, and the writes that a crash can undo.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use stasis_clock::Nanos;

use crate::Settings;

/// Counters of the guest's flushes, and of the other operations at the drive below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Flushes of the guest.
    pub guest_flushes: u64,
    /// Of them and of the guest's writes those that asked to be durable whatever
    /// the image's way.
    pub guest_durable: u64,
    /// Flushes of the drive below, those of `lag_flushes` among them.
    pub host_flushes: u64,
    /// Barriers of the drive below.
    pub host_barriers: u64,
    /// Flushes that nobody waited for: they bound the loss by a crash.
    pub lag_flushes: u64,
    /// Flushes of the guest that waited for such a flush.
    pub lag_waits: u64,
    /// Reads of the drive below.
    pub host_reads: u64,
    /// Writes, discards and writes of zeroes of the drive below.
    pub host_writes: u64,
    /// Bytes that they covered.
    pub host_write_bytes: u64,
    /// Of them, bytes of tables.
    pub table_write_bytes: u64,
    /// Maximum number of the guest's flushes that had ended and that a crash could have undone, at
    /// any instant.
    pub lag_most_flushes: u64,
    /// Maximum of the data that the guest had written before its last flush and that a crash could
    /// have undone, at any instant (bytes).
    pub lag_most_bytes: u64,
    /// Longest time for which a crash could have undone a flush (ns).
    pub lag_longest: Nanos,
}

impl Counters {
    /// Counts since `before`; maxima stay as they are.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            guest_flushes: self.guest_flushes - before.guest_flushes,
            guest_durable: self.guest_durable - before.guest_durable,
            host_flushes: self.host_flushes - before.host_flushes,
            host_barriers: self.host_barriers - before.host_barriers,
            lag_flushes: self.lag_flushes - before.lag_flushes,
            lag_waits: self.lag_waits - before.lag_waits,
            host_reads: self.host_reads - before.host_reads,
            host_writes: self.host_writes - before.host_writes,
            host_write_bytes: self.host_write_bytes - before.host_write_bytes,
            table_write_bytes: self.table_write_bytes - before.table_write_bytes,
            lag_most_flushes: self.lag_most_flushes,
            lag_most_bytes: self.lag_most_bytes,
            lag_longest: self.lag_longest,
        }
    }
}

/// Writes that a crash can undo, and the limit on how long it can.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// When the flushes ended that are not durable yet.
    orders: VecDeque<Nanos>,
    /// Flushes that became durable before the first of them.
    durable: u64,
    /// Bytes written since the last flush of the drive below.
    bytes: u64,
    /// Bytes written in all, and those of them known to be durable.
    written: u64,
    kept: u64,
    /// Flushes of the drive below that are under way.
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

    /// When a flush has to be submitted: early enough to be over in time, if it takes no longer
    /// than half of the allowed time.
    pub(crate) fn due(&self, settings: &Settings) -> Option<Nanos> {
        let oldest = *self.orders.front().filter(|_| self.flushing == 0)?;
        let full = self.bytes >= settings.max_lag_bytes;
        Some(if full { oldest } else { oldest.saturating_add(settings.max_lag / 2) })
    }

    /// Whether flushes of the guest have to wait.
    pub(crate) fn is_over(&self, now: Nanos, settings: &Settings) -> bool {
        self.orders.front().is_some_and(|oldest| {
            now > oldest.saturating_add(settings.max_lag)
                || self.bytes >= settings.max_lag_bytes.saturating_mul(2)
        })
    }

    /// A flush of the drive below is submitted; returns the writes that it covers.
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
