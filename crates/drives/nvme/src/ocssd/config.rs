//! Configuration of an Open-Channel namespace (OCSSD 2.0 section 2.1), as users write it: a drive is
//! groups (channels) of parallel units (LUNs) of chunks (blocks) of sectors (logical blocks).
//!
//! Chunk `c` of unit `u` of group `g` lies at byte
//! `((g * units + u) * chunks + c) * sectors * block_size` of the namespace. The specification's
//! names are WS_MIN for `write_min`, WS_OPT for `write_optimal` and MW_CUNITS for `cached`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units::format_size;

use crate::narrow;

/// Maximum number of chunks of a namespace: their state stays below 32 MiB.
const MAX_CHUNKS: u64 = 1 << 20;

/// The geometry of an Open-Channel 2.0 drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ocssd {
    /// Groups.
    pub groups: u16,
    /// Parallel units in each group.
    pub units: u16,
    /// Chunks in each unit.
    pub chunks: u32,
    /// Sectors, of the drive's block size, in each chunk.
    pub sectors: u32,
    /// Minimum number of sectors of a write.
    #[serde(default = "one")]
    pub write_min: u32,
    /// Optimal number of sectors of a write; by default the minimum.
    #[serde(default)]
    pub write_optimal: Option<u32>,
    /// Sectors before the write pointer of an open chunk that cannot be read.
    #[serde(default)]
    pub cached: u32,
    /// Maximum number of open chunks; by default no limit.
    #[serde(default)]
    pub max_open: Option<u32>,
    /// Maximum number of open chunks of a unit; by default no limit.
    #[serde(default)]
    pub max_open_per_unit: Option<u32>,
    /// Resets that a chunk endures, for its wear-level index; by default no limit.
    #[serde(default)]
    pub endurance: Option<u32>,
}

fn one() -> u32 {
    1
}

impl Ocssd {
    /// A geometry in which every sector can be written and read alone.
    pub fn new(groups: u16, units: u16, chunks: u32, sectors: u32) -> Self {
        Self {
            groups,
            units,
            chunks,
            sectors,
            write_min: 1,
            write_optimal: None,
            cached: 0,
            max_open: None,
            max_open_per_unit: None,
            endurance: None,
        }
    }

    /// Optimal number of sectors of a write (WS_OPT).
    pub fn write_optimal(&self) -> u32 {
        self.write_optimal.unwrap_or(self.write_min)
    }

    /// Returns whether this is the same geometry, whatever was left to a default.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let explicit =
            |one: &Self| Self { write_optimal: Some(one.write_optimal()), ..one.clone() };
        explicit(self) == explicit(other)
    }
}

/// An invalid geometry, with the nearest valid one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OcssdError {
    /// A count of zero.
    #[error("{field} is 0, but must be at least 1")]
    Zero {
        /// Which.
        field: &'static str,
    },
    /// The geometry is not as large as the drive.
    #[error("{groups} groups of {units} units of {chunks} chunks of {} are {}, but the drive has {}; {advice}",
        format_size(*chunk), format_size(*bytes), format_size(*drive))]
    Drive {
        /// Groups.
        groups: u16,
        /// Units in each.
        units: u16,
        /// Chunks in each.
        chunks: u32,
        /// Bytes of a chunk.
        chunk: u64,
        /// Bytes of the geometry.
        bytes: u64,
        /// Bytes of the drive.
        drive: u64,
        /// A geometry that would work.
        advice: String,
    },
    /// Too many chunks.
    #[error(
        "{chunks} chunks are too many: at most {MAX_CHUNKS}; give each at least {nearest} sectors"
    )]
    Count {
        /// Number of chunks that there would be.
        chunks: u64,
        /// The least sectors of a chunk that work.
        nearest: u64,
    },
    /// Write sizes that do not fit.
    #[error("{field} is {value}, but must be {expected}; the nearest is {nearest}")]
    Unit {
        /// Which.
        field: &'static str,
        /// The value given.
        value: u32,
        /// The allowed values.
        expected: &'static str,
        /// The nearest allowed value.
        nearest: u32,
    },
}

impl Ocssd {
    /// Returns whether a namespace of `blocks` blocks of `block` bytes can be this.
    pub(crate) fn check(&self, blocks: u64, block: u64) -> Result<(), OcssdError> {
        for (field, value) in [
            ("groups", self.groups.into()),
            ("units", self.units.into()),
            ("chunks", self.chunks),
            ("sectors", self.sectors),
            ("write_min", self.write_min),
            ("write_optimal", self.write_optimal()),
            ("max_open", self.max_open.unwrap_or(1)),
            ("max_open_per_unit", self.max_open_per_unit.unwrap_or(1)),
            ("endurance", self.endurance.unwrap_or(1)),
        ] {
            if value == 0 {
                return Err(OcssdError::Zero { field });
            }
        }
        let units = u64::from(self.groups) * u64::from(self.units);
        let chunks = u128::from(units) * u128::from(self.chunks);
        let sectors = chunks * u128::from(self.sectors);
        if sectors != u128::from(blocks) {
            return Err(self.wrong_size(units * u64::from(self.sectors), blocks, block));
        }
        // No more than the blocks.
        let chunks = u64::try_from(chunks).unwrap_or(u64::MAX);
        if chunks > MAX_CHUNKS {
            return Err(OcssdError::Count { chunks, nearest: blocks.div_ceil(MAX_CHUNKS) });
        }
        let Self { sectors, write_min, cached, .. } = *self;
        let write_optimal = self.write_optimal();
        let wrong = |field, value, expected, nearest| {
            Err(OcssdError::Unit { field, value, expected, nearest })
        };
        if !sectors.is_multiple_of(write_min) || write_min > 64 {
            let nearest = (1..=write_min.min(64)).rev().find(|&min| sectors.is_multiple_of(min));
            let expected = "a divisor of a chunk's sectors up to 64, the longest vector";
            return wrong("write_min", write_min, expected, nearest.unwrap_or(1));
        }
        if !write_optimal.is_multiple_of(write_min) || write_optimal > sectors {
            let nearest = (write_optimal / write_min * write_min).clamp(write_min, sectors);
            let expected = "a multiple of write_min within a chunk";
            return wrong("write_optimal", write_optimal, expected, nearest);
        }
        if !cached.is_multiple_of(write_min) || cached > sectors {
            let nearest = (cached / write_min * write_min).min(sectors);
            return wrong("cached", cached, "a multiple of write_min within a chunk", nearest);
        }
        Ok(())
    }

    /// `stripe`: sectors of one chunk of every unit.
    fn wrong_size(&self, stripe: u64, blocks: u64, block: u64) -> OcssdError {
        let fitting = blocks / stripe;
        let advice = if blocks.is_multiple_of(stripe) && u32::try_from(fitting).is_ok() {
            format!("make the chunks {fitting}")
        } else {
            let low = format_size(fitting.max(1).saturating_mul(stripe).saturating_mul(block));
            let high = (fitting + 1).saturating_mul(stripe).saturating_mul(block);
            let (fewer, more) = (fitting.max(1), fitting + 1);
            format!(
                "make the chunks {fewer} and the drive {low}, or {more} and {}",
                format_size(high)
            )
        };
        let chunk = u64::from(self.sectors) * block;
        OcssdError::Drive {
            groups: self.groups,
            units: self.units,
            chunks: self.chunks,
            chunk,
            bytes: stripe.saturating_mul(self.chunks.into()).saturating_mul(block),
            drive: blocks.saturating_mul(block),
            advice,
        }
    }

    /// Bits of an address that number chunks' sectors, units' chunks, groups'
    /// units, and groups (OCSSD 2.0 section 2.1, "LBA format").
    pub(crate) fn bits(&self) -> Bits {
        let bits = |count: u32| narrow::bits(u32::BITS - (count - 1).leading_zeros());
        Bits {
            sector: bits(self.sectors),
            chunk: bits(self.chunks),
            unit: bits(self.units.into()),
            group: bits(self.groups.into()),
        }
    }
}

/// Number of bits of an address of each of its parts, from the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits {
    pub sector: u8,
    pub chunk: u8,
    pub unit: u8,
    pub group: u8,
}

impl Bits {
    /// One past the largest address.
    pub fn span(self) -> u64 {
        // No overflow: a namespace has less than 2^54 blocks, and each part
        // less than twice the addresses that it needs.
        1 << (self.sector + self.chunk + self.unit + self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_a_value_that_works() {
        let good = Ocssd::new(4, 2, 16, 1024);
        let blocks = 4 * 2 * 16 * 1024;
        assert_eq!(good.check(blocks, 4096), Ok(()));
        let text = |ocssd: Ocssd, blocks| ocssd.check(blocks, 4096).unwrap_err().to_string();
        assert!(text(good.clone(), 2 * blocks).ends_with("make the chunks 32"));
        let message = text(good.clone(), blocks + 4096);
        let expected = "make the chunks 16 and the drive 512MiB, or 17 and 544MiB";
        assert!(message.ends_with(expected), "{message}");
        assert_eq!(
            text(Ocssd { groups: 0, ..good.clone() }, blocks),
            "groups is 0, but must be at least 1"
        );
        assert!(text(Ocssd::new(1, 1, 1 << 21, 1), 1 << 21).ends_with("at least 2 sectors"));
        assert!(text(Ocssd { write_min: 24, ..good.clone() }, blocks).ends_with("is 16"));
        let optimal = Ocssd { write_min: 4, write_optimal: Some(6), ..good.clone() };
        assert!(text(optimal, blocks).ends_with("is 4"));
        let cached = Ocssd { write_min: 4, cached: 7, ..good };
        assert!(text(cached, blocks).ends_with("is 4"));
    }

    #[test]
    fn addresses_have_just_enough_bits() {
        let bits = Ocssd::new(3, 1, 5, 4096).bits();
        assert_eq!(bits, Bits { sector: 12, chunk: 3, unit: 0, group: 2 });
        assert_eq!(bits.span(), 1 << 17);
    }
}
