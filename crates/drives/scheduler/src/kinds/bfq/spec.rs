//! The parameters of `bfq`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, MILLISECOND, SECOND};
use stasis_block::units;

use crate::share::share;

/// Limit on the factor by which a weight is multiplied.
pub(super) const MAX_RAISE: u32 = 1000;

/// The parameters of `bfq`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BfqSpec {
    /// The largest budget in bytes; 0: the data that the drive moves at its peak rate
    /// within `budget_timeout`, so that a budget and a timeout are about the
    /// same (Linux's BFQ).
    #[serde(with = "units::size")]
    pub max_budget: u64,
    /// Longest turn of a queue (ns): 125 ms is CFQ's mean slice, and long against a seek (Valente
    /// and Checconi 2010).
    #[serde(with = "units::duration")]
    pub budget_timeout: Nanos,
    /// Time that the drive idles for a queue whose owner waits (ns): about one seek of a disk and
    /// longer than typical think times (CFQ, BFQ). 0: never.
    #[serde(with = "units::duration")]
    pub idle: Nanos,
    /// True if a queue that seeks is charged for its time, as if it had moved data at the peak
    /// rate. Otherwise sequential queues get no more sectors than random ones, and the drive's rate
    /// falls to theirs (2010: a queue that times out is charged its whole budget).
    pub charge_time: bool,
    /// Time after which a request is late, so that its queue's budget begins with it (ns).
    #[serde(with = "units::duration")]
    pub expire_sync: Nanos,
    /// The same where nobody waits (ns).
    #[serde(with = "units::duration")]
    pub expire_async: Nanos,
    /// True if the interactive and soft real-time heuristics raise weights.
    pub low_latency: bool,
    /// Factor of a weight while raised: with 30, the one that is raised has nine tenths of the
    /// drive beside three that are not (Linux's BFQ).
    #[schemars(range(min = 1, max = MAX_RAISE))]
    pub raise: u32,
    /// Factor of a weight while help is given. It is more than `raise`: within a start of a second,
    /// beside five readers, nothing of the drive is to be theirs, and their turns are of an eighth
    /// of a second.
    #[schemars(range(min = 1, max = MAX_RAISE))]
    pub help_raise: u32,
    /// The part of time for which help is given in the long run, from 0 to 1 (kept in
    /// millionths); 0: never more than `help_burst`. A half leaves the others half
    /// the time to themselves.
    #[serde(with = "share")]
    pub help_share: u32,
    /// Help that each can get at once beyond that share (ns): 60 s is the start-up that the
    /// publication gives up on (D3.6, 7).
    #[serde(with = "units::duration")]
    pub help_burst: Nanos,
}

impl Default for BfqSpec {
    fn default() -> Self {
        Self {
            max_budget: 0,
            budget_timeout: 125 * MILLISECOND,
            idle: 8 * MILLISECOND,
            charge_time: true,
            expire_sync: 125 * MILLISECOND,
            expire_async: 250 * MILLISECOND,
            low_latency: true,
            raise: 30,
            help_raise: 300,
            help_share: 500_000,
            help_burst: 60 * SECOND,
        }
    }
}
