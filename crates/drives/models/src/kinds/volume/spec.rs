//! The description of a volume in an experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Rate};

use crate::kinds::rated::RatedLatency;
use crate::span::Span;
use crate::spec::{is_false, Problem};

/// Maximum number of tiers.
pub(super) const MAX_TIERS: usize = 64;

/// Limits of the volumes up to a size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeTier {
    /// Size of its largest volume.
    #[serde(with = "units::size")]
    pub size: u64,
    /// I/Os a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub iops: Option<u64>,
    /// I/Os a second during a burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub burst_iops: Option<u64>,
    /// Bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// Bytes a second during a burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bandwidth: Option<Rate>,
}

/// The kind `volume`: network storage of a cloud, with its provider's limits; see the
/// [module](super).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// Latency of a read that waits for no limit: a duration, a span, or percentiles.
    pub read: RatedLatency,
    /// Latency of a write that waits for no limit.
    pub write: RatedLatency,
    /// Time of a flush; 0 if not given.
    #[serde(default)]
    pub flush: Span,
    /// Time of a discard; 0 if not given.
    #[serde(default)]
    pub discard: Span,
    /// Size of the volume, which the limits follow; the drive's own if not given. A drive may be a
    /// part of its volume.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::size_option")]
    pub size: Option<u64>,
    /// Size of the smallest volume: a smaller drive is a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::size_option")]
    pub min_size: Option<u64>,
    /// Size of the largest volume.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::size_option")]
    pub max_size: Option<u64>,
    /// Bytes up to which a command counts as one I/O; any number if not given.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::size_option")]
    pub io_size: Option<u64>,
    /// True if a command that continues the last one of its direction first fills up that one's I/O.
    #[serde(default, skip_serializing_if = "is_false")]
    pub merge: bool,
    /// I/Os a second, reads and writes together; no limit if neither this nor a share for each GiB is
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub iops: Option<u64>,
    /// Further I/Os a second for each GiB of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub iops_per_gib: Option<u64>,
    /// I/Os a second of the smallest volume at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_iops: Option<u64>,
    /// I/Os a second of the largest volume at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_iops: Option<u64>,
    /// Highest value of `iops` for each GiB of the volume: more is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_iops_per_gib: Option<u64>,
    /// I/Os a second during a burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub burst_iops: Option<u64>,
    /// I/Os that the bucket of credits holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub iops_credits: Option<u64>,
    /// Bytes a second, reads and writes together; no limit if no such key is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// Further bytes a second for each GiB of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_per_gib: Option<Rate>,
    /// Bytes a second for each I/O a second: the limit where no other is given; else a higher value of
    /// `bandwidth` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_per_iops: Option<Rate>,
    /// Bytes a second of any volume at most, during a burst as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bandwidth: Option<Rate>,
    /// Bytes a second during a burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bandwidth: Option<Rate>,
    /// Further bytes a second during a burst for each GiB of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bandwidth_per_gib: Option<Rate>,
    /// Bytes that the bucket of credits holds for each GiB of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::size_option")]
    pub bandwidth_credits_per_gib: Option<u64>,
    /// Length of the burst that a full bucket is good for (ns), where its credits are not given.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::duration_option")]
    pub burst: Option<Nanos>,
    /// Limits that go in steps of the size, by ascending size. A key beside them is in the place of
    /// the tier's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_TIERS))]
    pub tiers: Vec<VolumeTier>,
}

impl VolumeSpec {
    /// A volume without limits.
    pub fn new(read: RatedLatency, write: RatedLatency) -> Self {
        Self {
            read,
            write,
            flush: Span::default(),
            discard: Span::default(),
            size: None,
            min_size: None,
            max_size: None,
            io_size: None,
            merge: false,
            iops: None,
            iops_per_gib: None,
            min_iops: None,
            max_iops: None,
            max_iops_per_gib: None,
            burst_iops: None,
            iops_credits: None,
            bandwidth: None,
            bandwidth_per_gib: None,
            bandwidth_per_iops: None,
            max_bandwidth: None,
            burst_bandwidth: None,
            burst_bandwidth_per_gib: None,
            bandwidth_credits_per_gib: None,
            burst: None,
            tiers: Vec::new(),
        }
    }

    /// Checks that a burst has a bucket, and a bucket a burst.
    pub(super) fn check_burst(&self) -> Result<(), Problem> {
        let of_tier = |has: fn(&VolumeTier) -> bool| self.tiers.iter().any(has);
        let ios = self.burst_iops.is_some() || of_tier(|tier| tier.burst_iops.is_some());
        let bytes = self.burst_bandwidth.is_some()
            || self.burst_bandwidth_per_gib.is_some()
            || of_tier(|tier| tier.burst_bandwidth.is_some());
        let length = self.burst.is_some_and(|length| length > 0);
        if ios && self.iops_credits.is_none() && !length {
            return Err(Problem::value("burst_iops", "needs `iops_credits` or `burst`"));
        }
        if bytes && self.bandwidth_credits_per_gib.is_none() && !length {
            let needs = "needs `bandwidth_credits_per_gib` or `burst`";
            return Err(Problem::value("burst_bandwidth", needs));
        }
        if self.iops_credits.is_some() && !ios {
            return Err(Problem::value("iops_credits", "needs `burst_iops`"));
        }
        if self.bandwidth_credits_per_gib.is_some() && !bytes {
            let needs = "needs `burst_bandwidth` or `burst_bandwidth_per_gib`";
            return Err(Problem::value("bandwidth_credits_per_gib", needs));
        }
        if self.burst.is_some() && !ios && !bytes {
            return Err(Problem::value("burst", "needs `burst_iops` or `burst_bandwidth`"));
        }
        Ok(())
    }
}
