//! A namespace that a controller is made with.

use serde::{Deserialize, Serialize};

use crate::computing::{self, Part};
use crate::key_value::{self, KeyValue};
use crate::metadata::{BlockFormat, Metadata};
use crate::ocssd::Ocssd;
use crate::older;
use crate::zoned::{self, Zones};

/// Command Set Identifier of the NVM command set.
pub(crate) const NVM_COMMAND_SET: u8 = 0;

/// Returns whether a namespace is in no group, or in no set.
fn is_none(identifier: &u16) -> bool {
    *identifier == 0
}

/// A namespace, which the guest sees as one block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Its first byte on the drive.
    pub start: u64,
    /// Capacity in logical blocks.
    pub blocks: u64,
    /// Size of a logical block's data in bytes: 512, 4096 or 16384.
    pub block_size: u32,
    /// Metadata of its blocks: each takes a sector of the drive more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// True if it is write protected.
    pub read_only: bool,
    /// Its zones, if it is of the Zoned Namespace command set.
    #[serde(default, deserialize_with = "older::layout")]
    pub zoned: Option<Zones>,
    /// Its geometry, if it is an Open-Channel drive. Its blocks are then the
    /// sectors that exist; addresses have holes where a count is no power of
    /// two.
    #[serde(default, deserialize_with = "older::layout")]
    pub ocssd: Option<Ocssd>,
    /// Its pairs, if it is of the Key Value command set. Its blocks are then the units in which
    /// values lie on the drive.
    #[serde(default, deserialize_with = "older::layout")]
    pub key_value: Option<KeyValue>,
    /// Its endurance group; 0 on a drive that is made without any.
    #[serde(default, skip_serializing_if = "is_none")]
    pub endurance_group: u16,
    /// Its NVM set; 0 on a drive without any.
    #[serde(default, skip_serializing_if = "is_none")]
    pub nvm_set: u16,
    /// Which part of computational programs it is, if it lies in the controller's memory: of none that
    /// a configuration names.
    #[serde(skip)]
    pub computing: Option<Part>,
}

impl Namespace {
    /// A namespace of `blocks` blocks at the drive's beginning, which may be
    /// written.
    pub fn new(blocks: u64, block_size: u32) -> Self {
        let (metadata, zoned, ocssd, key_value, computing) = (None, None, None, None, None);
        let (start, read_only, endurance_group, nvm_set) = (0, false, 0, 0);
        Self {
            start,
            blocks,
            block_size,
            metadata,
            read_only,
            zoned,
            ocssd,
            key_value,
            endurance_group,
            nvm_set,
            computing,
        }
    }

    /// Returns the format of its blocks.
    pub fn format(&self) -> BlockFormat {
        BlockFormat { size: self.block_size, metadata: self.metadata }
    }

    /// Returns the namespace's size on the drive in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.stride().into())
    }

    /// From one block to the next on the drive, in bytes.
    pub(crate) fn stride(&self) -> u32 {
        self.format().stride()
    }

    /// Returns whether its layout allows such blocks: zones must be whole, a geometry is in blocks,
    /// values lie in them, and none of these has metadata.
    pub(crate) fn can_have_blocks_of(&self, format: BlockFormat, bytes: u64) -> bool {
        let BlockFormat { size, metadata } = format;
        let plain = metadata.is_none();
        let zones = |zones: &Zones| plain && zones.check(bytes, size.into()).is_ok();
        let is_fixed = self.ocssd.is_some() || self.key_value.is_some();
        let fits = !is_fixed || plain && size == self.block_size;
        self.zoned.as_ref().is_none_or(zones) && fits && bytes >= format.stride().into()
    }

    /// Returns whether it has blocks alone: no zones, chunks or pairs, and no part in programs.
    pub(crate) fn is_plain(&self) -> bool {
        self.command_set() == NVM_COMMAND_SET && self.ocssd.is_none()
    }

    /// Returns the namespace's Command Set Identifier.
    pub(crate) fn command_set(&self) -> u8 {
        match (&self.zoned, &self.key_value, self.computing) {
            (Some(_), ..) => zoned::CSI,
            (_, Some(_), _) => key_value::CSI,
            (.., Some(Part::Memory)) => computing::MEMORY_CSI,
            (.., Some(Part::Compute)) => computing::COMPUTE_CSI,
            (None, None, None) => NVM_COMMAND_SET,
        }
    }

    /// Returns whether it has logical blocks, of whatever command set.
    pub(crate) fn has_blocks(&self) -> bool {
        self.key_value.is_none() && self.computing.is_none()
    }
}
