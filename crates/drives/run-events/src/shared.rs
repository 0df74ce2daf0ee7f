//! Service that those who share a drive received.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stasis_block::inside::Inside;

/// Service of a shared drive while the run's commands ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedOutcome {
    /// Its name in the experiment.
    pub name: String,
    /// Its scheduler with all its parameters, as a table of an experiment has them.
    pub scheduler: Value,
    /// Each virtual disk on it.
    pub tenants: Vec<TenantOutcome>,
    /// Each workload of the host on it.
    pub workloads: Vec<WorkloadOutcome>,
    /// Internal activity of the drive, where it reports any.
    pub inside: Option<Inside>,
    /// Time at which the first step of `tails` begins (ns of virtual time).
    #[serde(default)]
    pub tails_from_ns: u64,
    /// Length of each step (ns).
    #[serde(default)]
    pub tails_step_ns: u64,
    /// Each virtual disk's and each workload's tail latency over time, in this order.
    #[serde(default)]
    pub tails: Vec<TenantTail>,
}

/// Tail latency of a tenant over virtual time, step by step; the last step may not be over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantTail {
    /// Its name, as among the tenants or the workloads.
    pub name: String,
    /// Requests that completed in each step.
    pub requests_each_step: Vec<u64>,
    /// 99th percentile of their latencies, from when the drive's scheduler got a request until it
    /// completed (ns): by nearest rank, at most 1/32 above that; none in a step without requests.
    pub p99_ns_each_step: Vec<Option<u64>>,
}

/// Service of a queue of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Completed requests.
    pub requests: u64,
    /// Bytes that they covered.
    pub bytes: u64,
    /// Time that they had at the drive, together (ns).
    #[serde(default)]
    pub at_drive_ns: u64,
}

/// Effect of the limits on a tenant's rate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limited {
    /// Completed requests that had waited for a limit.
    pub limited_requests: u64,
    /// Time that they waited, together (s).
    pub limited_seconds: f64,
}

/// Service of a virtual disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantOutcome {
    /// Its name: MACHINE.DISK.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Service that it received.
    #[serde(flatten)]
    pub service: Service,
    /// Requests that its guest preferred to its others.
    pub urgent_requests: u64,
    /// Number of times that its guest asked for help.
    pub help_calls: u64,
    /// For how long it was helped (s).
    pub helped_seconds: f64,
    /// For how long it asked and was not helped (s).
    pub unhelped_seconds: f64,
    /// Effect of its limits.
    #[serde(flatten)]
    pub limited: Limited,
}

/// Service of a workload of the host, from when it began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadOutcome {
    /// Its name in the experiment.
    pub name: String,
    /// Weight of each of its threads.
    pub weight: u32,
    /// Weight of the group of its threads, if they are a group.
    pub group_weight: Option<u32>,
    /// Time since it began (s).
    pub seconds: f64,
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes of those that ended well.
    pub bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// Mean rate (bytes/s).
    pub bytes_per_second: f64,
    /// Mean latency (ns).
    pub mean_latency_ns: u64,
    /// Longest latency (ns).
    pub longest_latency_ns: u64,
    /// Effect of its limits.
    #[serde(flatten)]
    pub limited: Limited,
    /// Each of its threads.
    pub threads: Vec<Service>,
    /// Rate in each 2 s (bytes/s).
    pub bytes_per_second_each_2s: Vec<f64>,
}
