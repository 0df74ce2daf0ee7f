//! Configuration of a namespace's zones, as users write it. The zones are all alike; zone `i` lies at
//! byte `i * size` of its namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units::{self, format_size};

/// Command Set Identifier of the Zoned Namespace command set.
pub const CSI: u8 = 2;
/// Maximum number of zones of a namespace: their state stays below 32 MiB.
const MAX_ZONES: u64 = 1 << 20;
/// Unit of a zone descriptor extension in bytes (ZNS 1.1 section 4.1.5.1).
pub const EXTENSION_UNIT: u64 = 64;
/// Largest zone descriptor extension in bytes: its size is an 8-bit field.
const MAX_EXTENSION: u64 = 255 * EXTENSION_UNIT;
/// Limit on the bytes of all extensions of a namespace.
const MAX_EXTENSIONS: u64 = 64 << 20;
/// Largest random write area in blocks: its size is a 16-bit field.
const MAX_ZRWA_BLOCKS: u64 = 0xffff;

/// The zones of a zoned namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Zones {
    /// Distance from one zone's start to the next's, in bytes: a power of two.
    #[schemars(extend("x-word" = "zone-size", "examples" = ["64MiB"]))]
    #[serde(with = "units::size")]
    pub size: u64,
    /// Writable capacity of a zone, in bytes; by default the zone's size.
    #[schemars(extend("x-word" = "zone-capacity"))]
    #[serde(default, with = "units::size_option")]
    pub capacity: Option<u64>,
    /// Maximum number of open zones; by default that of active zones.
    #[schemars(extend("x-word" = "max-open-zones"))]
    #[serde(default)]
    pub max_open: Option<u32>,
    /// Maximum number of active zones, that is open or closed ones; by default no limit.
    #[schemars(extend("x-word" = "max-active-zones"))]
    #[serde(default)]
    pub max_active: Option<u32>,
    /// Size of a zone's descriptor extension, data that the host can attach to the zone, in bytes.
    #[serde(default, with = "units::size")]
    pub extension_size: u64,
    /// Zone random write areas.
    #[serde(default)]
    pub zrwa: Option<Zrwa>,
    /// True if one read may cover several zones.
    #[serde(default)]
    pub reads_cross_zones: bool,
    /// True if a zone that is finished is written to its end: the drive below programs zones in
    /// order, and a zone that is closed for good has its blocks filled up.
    #[serde(skip)]
    pub fills: bool,
}

impl Zones {
    /// Zones that can be written wholly, without limits or anything special.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            capacity: None,
            max_open: None,
            max_active: None,
            extension_size: 0,
            zrwa: None,
            reads_cross_zones: false,
            fills: false,
        }
    }

    /// Writable capacity of a zone in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity.unwrap_or(self.size)
    }

    /// Maximum number of open zones; `None` for no limit.
    pub fn max_open(&self) -> Option<u32> {
        self.max_open.or(self.max_active)
    }

    /// Returns whether these are the same zones, whatever was left to a default.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let explicit = |zones: &Self| Self { capacity: Some(zones.capacity()), ..zones.clone() };
        explicit(self) == explicit(other)
    }
}

/// Zone random write areas: the blocks after a zone's write pointer that can be written in any
/// order and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Zrwa {
    /// Size of an area in bytes.
    #[serde(with = "units::size")]
    pub size: u64,
    /// Granularity of the write pointer's steps in bytes.
    #[serde(with = "units::size")]
    pub granularity: u64,
    /// Maximum number of zones with an area at a time.
    pub count: u32,
}

/// An invalid configuration of zones, with the nearest valid one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZonesError {
    /// The size of a zone is invalid.
    #[error("zones of {} cannot be: their size must be a power of two of at least a block; the nearest is {}",
        format_size(*size), format_size(*nearest))]
    Size {
        /// The value given.
        size: u64,
        /// The nearest allowed value.
        nearest: u64,
    },
    /// The drive is no whole number of zones.
    #[error("zones of {} do not divide a drive of {}; make the drive {} or {}, or the zones {}",
        format_size(*size), format_size(*drive), format_size(*below), format_size(*above),
        format_size(*fitting))]
    Drive {
        /// Size of a zone.
        size: u64,
        /// Size of the drive.
        drive: u64,
        /// Largest smaller drive of whole zones, at least one.
        below: u64,
        /// Smallest larger drive of whole zones.
        above: u64,
        /// The largest zones that divide the drive.
        fitting: u64,
    },
    /// Too many zones.
    #[error("zones of {} are {zones} on this drive, but at most {MAX_ZONES} are possible; make them {}",
        format_size(*size), format_size(*nearest))]
    Count {
        /// Size of a zone.
        size: u64,
        /// Number of chunks that there would be.
        zones: u64,
        /// The smallest size that works.
        nearest: u64,
    },
    /// The capacity does not fit the zone.
    #[error("a zone capacity of {} does not fit a zone of {} in whole blocks; the nearest is {}",
        format_size(*capacity), format_size(*size), format_size(*nearest))]
    Capacity {
        /// The value given.
        capacity: u64,
        /// Size of a zone.
        size: u64,
        /// The nearest allowed value.
        nearest: u64,
    },
    /// A limit of open or active zones that cannot be kept.
    #[error("max_open of {max_open} and max_active of {max_active} cannot be: 1 <= max_open <= max_active; the nearest are {nearest} and {nearest_active}")]
    Limits {
        /// Limit on open zones.
        max_open: u32,
        /// Limit on active zones.
        max_active: u32,
        /// Possible open zones.
        nearest: u32,
        /// Possible active zones.
        nearest_active: u32,
    },
    /// The descriptor extension has a wrong size.
    #[error("a zone descriptor extension of {size} bytes cannot be: a multiple of 64 up to {MAX_EXTENSION}, together at most 64MiB; the nearest is {nearest}")]
    Extension {
        /// The value given.
        size: u64,
        /// The nearest allowed value.
        nearest: u64,
    },
    /// A random write area that is not possible.
    #[error("a zone random write area of {} by {}, {count} of them, cannot be: the granularity must be whole blocks and divide the zone's capacity, the area be a multiple of it that fits the zone and is below 65536 blocks, and there be at least one; the nearest are {} by {}",
        format_size(*size), format_size(*granularity), format_size(*nearest),
        format_size(*nearest_granularity))]
    Zrwa {
        /// Size of the area.
        size: u64,
        /// Step of the write pointer.
        granularity: u64,
        /// Number of areas.
        count: u32,
        /// A possible size.
        nearest: u64,
        /// A possible step.
        nearest_granularity: u64,
    },
}

impl Zones {
    /// Returns whether a namespace of `bytes` in blocks of `block` bytes can have these zones.
    pub(crate) fn check(&self, bytes: u64, block: u64) -> Result<(), ZonesError> {
        let size = self.size;
        if !size.is_power_of_two() || size < block || size > 1 << 62 {
            let up = size.checked_next_power_of_two().unwrap_or(1 << 62);
            let nearest = if up - size.min(up) <= size - up / 2 { up } else { up / 2 };
            return Err(ZonesError::Size { size, nearest: nearest.clamp(block, 1 << 62) });
        }
        if !bytes.is_multiple_of(size) {
            let below = (bytes / size).max(1) * size;
            let above = bytes.div_ceil(size) * size;
            let fitting = 1 << bytes.trailing_zeros().min(size.trailing_zeros());
            return Err(ZonesError::Drive { size, drive: bytes, below, above, fitting });
        }
        if bytes / size > MAX_ZONES {
            let nearest = (bytes / MAX_ZONES).next_power_of_two();
            return Err(ZonesError::Count { size, zones: bytes / size, nearest });
        }
        let capacity = self.capacity();
        if !(block..=size).contains(&capacity) || !capacity.is_multiple_of(block) {
            let nearest = (capacity / block * block).clamp(block, size);
            return Err(ZonesError::Capacity { capacity, size, nearest });
        }
        self.check_limits()?;
        let extension = self.extension_size;
        let most = (MAX_EXTENSIONS / (bytes / size)).min(MAX_EXTENSION);
        let most = most / EXTENSION_UNIT * EXTENSION_UNIT;
        if !extension.is_multiple_of(EXTENSION_UNIT) || extension > most {
            let nearest = extension.div_ceil(EXTENSION_UNIT).saturating_mul(EXTENSION_UNIT);
            return Err(ZonesError::Extension { size: extension, nearest: nearest.min(most) });
        }
        self.zrwa.map_or(Ok(()), |zrwa| zrwa.check(capacity, block))
    }

    fn check_limits(&self) -> Result<(), ZonesError> {
        let max_open = self.max_open().unwrap_or(u32::MAX);
        let max_active = self.max_active.unwrap_or(u32::MAX);
        if max_open == 0 || max_active < max_open {
            let nearest = max_open.clamp(1, max_active.max(1));
            let nearest_active = max_active.max(nearest);
            return Err(ZonesError::Limits { max_open, max_active, nearest, nearest_active });
        }
        Ok(())
    }
}

impl Zrwa {
    fn check(self, capacity: u64, block: u64) -> Result<(), ZonesError> {
        let Self { size, granularity, count } = self;
        let step_fits =
            |step: u64| step > 0 && step.is_multiple_of(block) && capacity.is_multiple_of(step);
        let most = (MAX_ZRWA_BLOCKS * block).min(capacity);
        let size_fits =
            |size: u64, step: u64| size > 0 && size.is_multiple_of(step) && size <= most;
        if step_fits(granularity) && size_fits(size, granularity) && count > 0 {
            return Ok(());
        }
        // Blocks that divide the capacity, from the value asked for downwards.
        let mut step = (granularity / block * block).clamp(block, most);
        while !step_fits(step) {
            step -= block;
        }
        let nearest = (size / step * step).clamp(step, most / step * step);
        Err(ZonesError::Zrwa { size, granularity, count, nearest, nearest_granularity: step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn refusal(zones: Zones, bytes: u64) -> String {
        zones.check(bytes, 4096).unwrap_err().to_string()
    }

    #[test]
    fn refusals_name_a_value_that_works() {
        let good = Zones::new(64 * MIB);
        assert_eq!(good.check(1024 * MIB, 4096), Ok(()));
        let text = refusal(Zones::new(48 * MIB), 1024 * MIB);
        assert!(text.contains("48MiB") && text.ends_with("the nearest is 64MiB"), "{text}");
        assert!(refusal(Zones::new(33 * MIB), 1024 * MIB).ends_with("is 32MiB"));
        assert!(refusal(Zones::new(0), 1024 * MIB).ends_with("is 4KiB"));
        let text = refusal(good.clone(), 1000 * MIB);
        assert!(text.ends_with("make the drive 960MiB or 1GiB, or the zones 8MiB"), "{text}");
        assert!(refusal(good.clone(), 63 * MIB).contains("drive 64MiB or 64MiB, or the zones 1MiB"));
        assert!(refusal(Zones::new(4096), 8 << 40).ends_with("make them 8MiB"));
        let text = refusal(Zones { capacity: Some(65 * MIB), ..good.clone() }, 1024 * MIB);
        assert!(text.ends_with("is 64MiB"), "{text}");
        assert!(
            refusal(Zones { capacity: Some(5000), ..good.clone() }, 1024 * MIB).ends_with("4KiB")
        );
        let limits = Zones { max_open: Some(8), max_active: Some(4), ..good.clone() };
        assert!(refusal(limits, 1024 * MIB).ends_with("nearest are 4 and 4"));
        let none = Zones { max_open: Some(0), ..good.clone() };
        assert!(refusal(none, 1024 * MIB).contains("nearest are 1 and"));
        assert!(refusal(Zones { extension_size: 65, ..good.clone() }, 1024 * MIB).ends_with("128"));
        let huge = Zones { extension_size: u64::MAX, ..good.clone() };
        assert!(refusal(huge, 1024 * MIB).ends_with("is 16320"));
    }

    #[test]
    fn random_write_areas_fit_their_zones() {
        let with = |size, granularity, count| Zones {
            zrwa: Some(Zrwa { size, granularity, count }),
            ..Zones::new(64 * MIB)
        };
        assert_eq!(with(MIB, 65536, 4).check(1024 * MIB, 4096), Ok(()));
        for wrong in [with(MIB, 0, 1), with(MIB, 3 * 4096, 1), with(MIB + 4096, 65536, 1)] {
            let error = wrong.check(1024 * MIB, 4096).unwrap_err();
            let ZonesError::Zrwa { nearest, nearest_granularity, .. } = error else { panic!() };
            assert_eq!(with(nearest, nearest_granularity, 1).check(1024 * MIB, 4096), Ok(()));
        }
        assert!(with(MIB, 65536, 0).check(1024 * MIB, 4096).is_err());
        assert!(with(512 * MIB, 65536, 1).check(1024 * MIB, 4096).is_err());
    }
}
