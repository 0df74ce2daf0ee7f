//! Metadata of logical blocks: how much there is, what protects the data in it, and which LBA
//! formats a drive offers (NVM Command Set 1.0 sections 5.2 and 5.3).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units::{self, format_size};
use stasis_block::SECTOR;

use crate::narrow::constant16;

/// Size of a sector in bytes.
pub(crate) const SECTOR_BYTES: u32 = constant16(SECTOR) as u32;

/// Metadata of each logical block of a namespace, as users write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metadata {
    /// Bytes of metadata of a block: 8, 16 or 64.
    #[schemars(extend("x-word" = "metadata-size", "examples" = [8]))]
    #[serde(with = "units::size")]
    pub size: u64,
    /// True if a block's metadata follows its data in the host's buffer; otherwise it has a buffer
    /// of its own.
    #[serde(default)]
    pub extended: bool,
    /// Type of the protection information in the metadata, 1 to 3; 0 for none.
    #[schemars(extend("x-word" = "protection"))]
    #[serde(default)]
    pub protection: Protection,
    /// Bits of its guard: 16, 32 or 64.
    #[schemars(extend("x-word" = "guard"))]
    #[serde(default)]
    pub guard: Guard,
    /// True if it is in the first bytes of the metadata; otherwise it is in the last ones.
    #[serde(default)]
    pub first: bool,
}

/// Type of protection information (NVM Command Set 1.0 section 5.2).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8", extend("maximum" = 3))]
#[repr(u8)]
pub enum Protection {
    /// Metadata is the host's own.
    #[default]
    None = 0,
    /// The reference tag is the block's address.
    Type1 = 1,
    /// The reference tag counts from one that each command gives.
    Type2 = 2,
    /// The reference tag is the host's own.
    Type3 = 3,
}

/// Guard of protection information: a CRC (NVM Command Set 1.0 section 5.2.1).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8", extend("enum" = [16, 32, 64]))]
#[repr(u8)]
pub enum Guard {
    /// CRC-16 T10-DIF.
    #[default]
    Crc16 = 16,
    /// CRC-32C.
    Crc32 = 32,
    /// The 64-bit CRC of NVMe.
    Crc64 = 64,
}

/// A number that names no type of protection information, or no guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetadataNumber {
    /// The type is wrong.
    #[error(
        "protection is {0}, but must be a type of protection information, 1 to 3, or 0 for none"
    )]
    Protection(u8),
    /// The guard is wrong.
    #[error("guard is {0}, but must be 16, 32 or 64 bits")]
    Guard(u8),
}

impl TryFrom<u8> for Protection {
    type Error = MetadataNumber;

    fn try_from(number: u8) -> Result<Self, MetadataNumber> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Type1),
            2 => Ok(Self::Type2),
            3 => Ok(Self::Type3),
            _ => Err(MetadataNumber::Protection(number)),
        }
    }
}

impl From<Protection> for u8 {
    fn from(protection: Protection) -> Self {
        protection as u8
    }
}

impl TryFrom<u8> for Guard {
    type Error = MetadataNumber;

    fn try_from(bits: u8) -> Result<Self, MetadataNumber> {
        match bits {
            16 => Ok(Self::Crc16),
            32 => Ok(Self::Crc32),
            64 => Ok(Self::Crc64),
            _ => Err(MetadataNumber::Guard(bits)),
        }
    }
}

impl From<Guard> for u8 {
    fn from(guard: Guard) -> Self {
        guard as u8
    }
}

impl Guard {
    /// Bytes of protection information with this guard.
    pub(crate) const fn tuple(self) -> usize {
        match self {
            Self::Crc16 => 8,
            Self::Crc32 | Self::Crc64 => 16,
        }
    }

    /// Protection Information Format (PIF), and Storage Tag Size (STS): no more bits than there must
    /// be (figure 92, "Storage Tag Size").
    pub(crate) const fn extended_format(self) -> u32 {
        const PIF: u32 = 7;
        match self {
            Self::Crc16 => 0,
            Self::Crc32 => 1 << PIF | 16,
            Self::Crc64 => 2 << PIF,
        }
    }

    /// The bits of a reference tag.
    pub(crate) const fn reference_mask(self) -> u64 {
        match self {
            Self::Crc16 => u32::MAX as u64,
            Self::Crc32 => u64::MAX,
            Self::Crc64 => (1 << 48) - 1,
        }
    }
}

/// Format of logical blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockFormat {
    /// Bytes of data.
    pub size: u32,
    /// Metadata, where there is some.
    pub metadata: Option<Metadata>,
}

impl BlockFormat {
    /// Bytes that a block takes on the drive: a sector of its own for the metadata, so that both are
    /// written whole or not at all, and any medium holds them.
    pub fn stride(&self) -> u32 {
        self.size + if self.metadata.is_some() { SECTOR_BYTES } else { 0 }
    }

    /// Bytes of metadata.
    pub(crate) fn metadata_size(&self) -> u64 {
        self.metadata.map_or(0, |metadata| metadata.size)
    }

    /// Returns the number of the LBA format, if there is one.
    pub(crate) fn number(&self) -> Option<u8> {
        let guard = self.metadata.map_or(Guard::Crc16, |metadata| metadata.guard);
        let is_this = |format: &LbaFormat| {
            (format.size, format.guard) == (self.size, guard)
                && u64::from(format.metadata) == self.metadata_size()
                && (format.metadata > 0) == self.metadata.is_some()
        };
        (0..).zip(&LBA_FORMATS).find(|(_, format)| is_this(format)).map(|(number, _)| number)
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "logical blocks of {}", format_size(self.size.into()))?;
        let Some(Metadata { size, extended, protection, guard, first }) = self.metadata else {
            return Ok(());
        };
        let place = if extended { "behind their data" } else { "apart" };
        write!(f, " with {size} bytes of metadata {place}")?;
        if protection != Protection::None {
            let end = if first { "first" } else { "last" };
            let (kind, bits) = (protection as u8, guard as u8);
            write!(
                f,
                ", protection information of type {kind} in the {end}, {bits} bits of guard"
            )?;
        }
        Ok(())
    }
}

/// An LBA format: data and metadata in bytes, and the guard that protection information in it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbaFormat {
    pub size: u32,
    pub metadata: u16,
    pub guard: Guard,
}

const fn format(size: u32, metadata: u16, guard: Guard) -> LbaFormat {
    LbaFormat { size, metadata, guard }
}

/// LBA formats by their numbers. Guards of 32 and 64 bits are of blocks of 4 KiB at least (NVM
/// Command Set 1.0 section 5.2.1).
pub const LBA_FORMATS: [LbaFormat; 16] = [
    format(512, 0, Guard::Crc16),
    format(4096, 0, Guard::Crc16),
    format(16384, 0, Guard::Crc16),
    format(512, 8, Guard::Crc16),
    format(512, 64, Guard::Crc16),
    format(4096, 8, Guard::Crc16),
    format(4096, 16, Guard::Crc32),
    format(4096, 16, Guard::Crc64),
    format(4096, 64, Guard::Crc16),
    format(4096, 64, Guard::Crc32),
    format(4096, 64, Guard::Crc64),
    format(16384, 8, Guard::Crc16),
    format(16384, 16, Guard::Crc32),
    format(16384, 16, Guard::Crc64),
    format(16384, 64, Guard::Crc16),
    format(16384, 64, Guard::Crc64),
];

/// Number of formats without metadata: the first ones.
pub const PLAIN_FORMATS: usize = 3;

/// The sizes of blocks, for messages.
pub const BLOCK_SIZES: &str = "512, 4096 or 16384 bytes";

impl Metadata {
    /// Metadata of `size` bytes without protection information, with a buffer of its own.
    pub fn new(size: u64) -> Self {
        let (extended, protection, guard, first) = (false, Protection::None, Guard::Crc16, false);
        Self { size, extended, protection, guard, first }
    }

    /// Checks that blocks of `size` bytes can have it.
    ///
    /// # Errors
    /// The reason, with what is possible.
    pub fn check(&self, size: u32) -> Result<(), String> {
        let format = BlockFormat { size, metadata: Some(*self) };
        let Self { size: bytes, guard, protection, .. } = *self;
        if format.number().is_none() {
            let possible =
                LBA_FORMATS.iter().filter(|format| format.size == size && format.metadata > 0);
            let possible: Vec<_> = possible
                .map(|format| {
                    format!("{} with a guard of {} bits", format.metadata, format.guard as u8)
                })
                .collect();
            let (guard, possible) = (guard as u8, possible.join(", "));
            return Err(format!(
                "metadata of blocks of {size} bytes must be one of {possible}; it is {bytes} with a \
                 guard of {guard} bits"
            ));
        }
        if self.first && protection == Protection::None {
            return Err("metadata: `first` is of protection information; give `protection`".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_what_the_specification_allows() {
        let mut previous = Vec::new();
        for (number, format) in (0..).zip(LBA_FORMATS) {
            assert_eq!(usize::from(number) < PLAIN_FORMATS, format.metadata == 0, "{format:?}");
            assert!(format.size >= 4096 || format.guard == Guard::Crc16, "{format:?}");
            let room = format.metadata == 0 || usize::from(format.metadata) >= format.guard.tuple();
            // A sector of metadata is its bytes again and again.
            let whole = format.metadata == 0 || 512 % format.metadata == 0;
            assert!(room && whole && !previous.contains(&format), "{format:?}");
            previous.push(format);
            let mut metadata = Metadata::new(format.metadata.into());
            metadata.guard = format.guard;
            let metadata = (format.metadata > 0).then_some(metadata);
            let block_format = BlockFormat { size: format.size, metadata };
            assert_eq!(block_format.number(), Some(number), "{block_format}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let metadata = |size, guard| Metadata { guard, ..Metadata::new(size) };
        assert_eq!(metadata(8, Guard::Crc16).check(512), Ok(()));
        let message = metadata(16, Guard::Crc16).check(4096).unwrap_err();
        assert!(message.contains("16 with a guard of 32 bits"), "{message}");
        assert!(metadata(16, Guard::Crc64).check(512).is_err());
        // Numbers whose low bits are those of a size that can be, and no size.
        for bytes in [1 << 32 | 8, 1 << 16 | 8, 0] {
            let message = metadata(bytes, Guard::Crc16).check(512).unwrap_err();
            assert!(message.contains(&format!("it is {bytes} with a guard of 16")), "{message}");
        }
        assert!(Metadata { first: true, ..Metadata::new(8) }.check(512).is_err());
        assert!(serde_json::from_str::<Guard>("17").unwrap_err().to_string().contains("16, 32"));
        assert!(serde_json::from_str::<Protection>("4")
            .unwrap_err()
            .to_string()
            .contains("1 to 3"));
        let all = Metadata { protection: Protection::Type2, first: true, ..Metadata::new(64) };
        let text = BlockFormat { size: 4096, metadata: Some(all) }.to_string();
        assert!(text.contains("type 2 in the first, 16 bits"), "{text}");
    }
}
