//! The limits of a volume of a certain size.

use stasis_block::clock::{Nanos, SECOND};
use stasis_block::units::format_size;
use stasis_block::Rate;

use super::limits::{Limit, Limits};
use super::spec::{VolumeSpec, VolumeTier};

const GIB: u64 = 1 << 30;

/// Units of a volume of `size` bytes that has so many for each GiB.
fn by_size(for_each: u64, size: u64) -> u64 {
    let units = u128::from(for_each) * u128::from(size) / u128::from(GIB);
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Units that a bucket holds from which `rate` more units a second are taken for so long (ns).
fn for_length(rate: u64, length: Nanos) -> u64 {
    let units = u128::from(rate) * u128::from(length) / u128::from(SECOND);
    u64::try_from(units).unwrap_or(u64::MAX)
}

impl VolumeSpec {
    /// Size of the volume that a drive of `capacity` bytes is, or is a part of.
    fn volume_size(&self, capacity: u64) -> u64 {
        self.size.unwrap_or(capacity).max(self.min_size.unwrap_or(0))
    }

    /// Returns the tier of a volume of `size` bytes: the smallest one that it fits into.
    fn tier(&self, size: u64) -> Option<&VolumeTier> {
        self.tiers.iter().find(|tier| size <= tier.size)
    }

    /// Checks that there is a volume for a drive of `capacity` bytes.
    ///
    /// # Errors
    /// A sentence with the value that cannot be, and what to do.
    pub(super) fn check_size(&self, capacity: u64) -> Result<(), String> {
        let shown = format_size;
        if let Some(size) = self.size.filter(|size| capacity > *size) {
            return Err(format!(
                "a drive of {} does not fit a volume of {}: make the drive smaller, or `size` larger",
                shown(capacity),
                shown(size)
            ));
        }
        let size = self.volume_size(capacity);
        let largest = [self.max_size, self.tiers.last().map(|tier| tier.size)];
        if let Some(largest) = largest.into_iter().flatten().min().filter(|most| size > *most) {
            return Err(format!(
                "there is no such volume of {}: the largest has {}",
                shown(size),
                shown(largest)
            ));
        }
        let smaller = "take less, or a larger volume: `size`, of which the drive may be a part";
        if let (Some(iops), Some(for_each)) = (self.iops, self.max_iops_per_gib) {
            let most = by_size(for_each, size).max(self.min_iops.unwrap_or(0));
            if iops > most {
                return Err(format!(
                    "a volume of {} has at most {most} I/Os a second ({for_each} for each GiB), not \
                     {iops}: {smaller}",
                    shown(size)
                ));
            }
        }
        let limit = self.iops_at(size).zip(self.bandwidth_per_iops);
        if let (Some(rate), Some((iops, for_each))) = (self.bandwidth, limit) {
            let most = Rate::per_second(for_each.bytes_per_second().saturating_mul(iops));
            if rate.bytes_per_second() > most.bytes_per_second() {
                return Err(format!(
                    "with {iops} I/Os a second the bandwidth is at most {most} ({for_each} for each), \
                     not {rate}: take less, or more `iops`"
                ));
            }
        }
        Ok(())
    }

    /// I/Os a second of a volume of `size` bytes.
    fn iops_at(&self, size: u64) -> Option<u64> {
        let tier = self.tier(size);
        let given = self.iops.or(tier.and_then(|tier| tier.iops));
        if given.is_none() && self.iops_per_gib.is_none() {
            return None;
        }
        let grown = by_size(self.iops_per_gib.unwrap_or(0), size);
        let iops = given.unwrap_or(0).saturating_add(grown).max(self.min_iops.unwrap_or(1));
        Some(iops.min(self.max_iops.unwrap_or(u64::MAX)))
    }

    /// Bytes a second of a volume of `size` bytes, and during a burst.
    fn bandwidth_at(&self, size: u64) -> [Option<u64>; 2] {
        let tier = self.tier(size);
        let most = self.max_bandwidth.map_or(u64::MAX, Rate::bytes_per_second);
        let sum = |given: Option<Rate>, for_each: Option<Rate>| {
            let given = given.map(Rate::bytes_per_second);
            let grown = for_each.map(|rate| by_size(rate.bytes_per_second(), size));
            let sum = given.unwrap_or(0).saturating_add(grown.unwrap_or(0)).min(most);
            given.or(grown).map(|_| sum)
        };
        let own = self.bandwidth.or(tier.and_then(|tier| tier.bandwidth));
        let burst = self.burst_bandwidth.or(tier.and_then(|tier| tier.burst_bandwidth));
        let of_iops = || {
            let for_each = self.bandwidth_per_iops?.bytes_per_second();
            Some(for_each.saturating_mul(self.iops_at(size)?).min(most))
        };
        let own = sum(own, self.bandwidth_per_gib).or_else(of_iops);
        [own, sum(burst, self.burst_bandwidth_per_gib)]
    }

    /// The limits for a drive of `capacity` bytes.
    pub(super) fn limits(&self, capacity: u64) -> Limits {
        let size = self.volume_size(capacity);
        let length = self.burst.unwrap_or(0);
        let burst = self.burst_iops.or(self.tier(size).and_then(|tier| tier.burst_iops));
        let ios = self.iops_at(size).map(|rate| {
            Limit::new(rate, burst, |more| {
                self.iops_credits.unwrap_or_else(|| for_length(more, length))
            })
        });
        let [rate, burst] = self.bandwidth_at(size);
        let bytes = rate.map(|rate| {
            Limit::new(rate, burst, |more| match self.bandwidth_credits_per_gib {
                Some(for_each) => by_size(for_each, size),
                None => for_length(more, length),
            })
        });
        Limits { ios, bytes }
    }
}
