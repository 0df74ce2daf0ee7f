//! Limits on a tenant's I/Os and bytes a second, with bursts, as providers of volumes set them.
//!
//! Each limit is a [`TokenBucket`].

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Command, Operation, Rate, TokenBucket};
use stasis_config::Mistake;

use crate::{QueueId, QueuedRequest};

/// Names a limit of one dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitId(pub(crate) u32);

/// Limits on I/Os and bytes a second.
///
/// Reads, writes, copies and zeroes count; flushes, barriers and discards do not. A request of more
/// than `io-size` bytes counts as several I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LimitSpec {
    /// I/Os a second.
    #[schemars(range(min = 1))]
    pub iops: Option<u32>,
    /// I/Os a second during a burst.
    #[schemars(range(min = 1))]
    pub burst_iops: Option<u32>,
    /// Bytes a second, such as `125MiB/s`.
    pub bandwidth: Option<Rate>,
    /// Bytes a second during a burst.
    pub burst_bandwidth: Option<Rate>,
    /// Longest burst at the burst's rates, after the tenant was idle for long enough.
    #[serde(with = "units::duration_option")]
    pub burst: Option<Nanos>,
    /// Size up to which a request counts as one I/O (bytes).
    #[serde(with = "units::size_option")]
    pub io_size: Option<u64>,
}

impl LimitSpec {
    /// Returns whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the values together.
    ///
    /// # Errors
    /// Returns the invalid key and what it needs.
    pub fn check(&self) -> Result<(), Mistake> {
        let bandwidth = self.bandwidth.map(Rate::bytes_per_second);
        let burst_bandwidth = self.burst_bandwidth.map(Rate::bytes_per_second);
        let pairs = [
            ("iops", self.iops.map(u64::from), self.burst_iops.map(u64::from)),
            ("bandwidth", bandwidth, burst_bandwidth),
        ];
        for (key, rate, burst) in pairs {
            let of_burst = match (rate, burst) {
                (Some(0), _) => return Err(Mistake::at(key, format!("{key} must be at least 1"))),
                (None, Some(_)) => format!("needs {key}"),
                (Some(rate), Some(burst)) if burst <= rate => format!("must be more than {key}"),
                (_, Some(_)) if self.burst.is_none_or(|burst| burst == 0) => {
                    "needs burst, a time such as 30min".to_owned()
                }
                _ => continue,
            };
            let key = format!("burst-{key}");
            return Err(Mistake::at(&*key, format!("{key} {of_burst}")));
        }
        if self.burst.is_some() && self.burst_iops.is_none() && self.burst_bandwidth.is_none() {
            return Err(Mistake::at("burst", "burst needs burst-iops or burst-bandwidth"));
        }
        if self.io_size.is_some_and(|size| size == 0) {
            return Err(Mistake::at("io-size", "io-size must be at least 1 byte"));
        }
        if self.io_size.is_some() && self.iops.is_none() {
            return Err(Mistake::at("io-size", "io-size needs iops"));
        }
        if !self.is_none() && self.iops.is_none() && self.bandwidth.is_none() {
            return Err("limits need iops or bandwidth".into());
        }
        Ok(())
    }
}

/// Effect of a limit so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitStatistics {
    /// Completed requests that had waited for the limit.
    pub requests: u64,
    /// Time that they waited, together (ns).
    pub waited: u128,
}

impl LimitStatistics {
    /// Returns the effect since it was `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

/// A limit, with the requests that wait for it in order of arrival.
#[derive(Debug)]
pub(crate) struct Limit {
    ios: [Option<TokenBucket>; 2],
    bytes: [Option<TokenBucket>; 2],
    io_size: u64,
    waiting: VecDeque<(Nanos, QueueId, QueuedRequest)>,
    statistics: LimitStatistics,
}

impl Limit {
    /// Replaces the limit; waiting requests and the statistics stay.
    pub(crate) fn change(&mut self, spec: &LimitSpec) {
        let waiting = std::mem::take(&mut self.waiting);
        *self = Self { waiting, statistics: self.statistics, ..Self::new(spec) };
    }

    pub(crate) fn new(spec: &LimitSpec) -> Self {
        let length = spec.burst.unwrap_or(0);
        let pair = |rate: Option<u64>, burst| {
            rate.map_or([None, None], |rate| TokenBucket::pair(rate, burst, length))
        };
        let bandwidth = spec.bandwidth.map(Rate::bytes_per_second);
        let burst_bandwidth = spec.burst_bandwidth.map(Rate::bytes_per_second);
        Self {
            ios: pair(spec.iops.map(u64::from), spec.burst_iops.map(u64::from)),
            bytes: pair(bandwidth, burst_bandwidth),
            io_size: spec.io_size.unwrap_or(u64::MAX).max(1),
            waiting: VecDeque::new(),
            statistics: LimitStatistics::default(),
        }
    }

    /// I/Os and bytes that a command counts as.
    fn cost(&self, command: &Command) -> (u64, u64) {
        match command.operation {
            Operation::Flush | Operation::Barrier | Operation::Discard => (0, 0),
            Operation::Read
            | Operation::Write
            | Operation::Verify
            | Operation::WriteZeroes
            | Operation::Copy => (command.length.div_ceil(self.io_size).max(1), command.length),
        }
    }

    /// Returns the time at which a command may go.
    fn ready_at(&self, command: &Command) -> Nanos {
        if self.cost(command) == (0, 0) {
            return 0;
        }
        let buckets = self.ios.iter().chain(&self.bytes).flatten();
        buckets.map(TokenBucket::ready_at).max().unwrap_or(0)
    }

    fn take(&mut self, now: Nanos, command: &Command) {
        let (ios, bytes) = self.cost(command);
        if ios > 0 {
            self.ios.iter_mut().flatten().for_each(|bucket| bucket.take(now, ios));
            self.bytes.iter_mut().flatten().for_each(|bucket| bucket.take(now, bytes));
        }
    }

    /// A request comes; returns whether it goes at once. Otherwise it waits here.
    pub(crate) fn admits(&mut self, now: Nanos, queue: QueueId, request: &QueuedRequest) -> bool {
        if self.waiting.is_empty() && self.ready_at(&request.command) <= now {
            self.take(now, &request.command);
            return true;
        }
        self.waiting.push_back((now, queue, *request));
        false
    }

    /// The next request that need not wait any more.
    pub(crate) fn release(&mut self, now: Nanos) -> Option<(QueueId, QueuedRequest)> {
        let (since, queue, mut request) = *self.waiting.front()?;
        if self.ready_at(&request.command) > now {
            return None;
        }
        self.waiting.pop_front();
        self.take(now, &request.command);
        request.limited = now.saturating_sub(since);
        Some((queue, request))
    }

    /// A request that had waited here for so long is complete.
    pub(crate) fn completed(&mut self, waited: Nanos) {
        self.statistics.requests += u64::from(waited > 0);
        self.statistics.waited += u128::from(waited);
    }

    /// Returns the time at which the first waiting request may go.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.waiting.front().map(|(_, _, request)| self.ready_at(&request.command))
    }

    /// Number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn statistics(&self) -> LimitStatistics {
        self.statistics
    }
}
