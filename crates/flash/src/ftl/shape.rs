//! Sizes that translation layers compute with, and how slots are numbered.

use crate::spec::Spec;
use crate::{Geometry, PageAddress, PlaneId};

/// A drive's sizes. A slot is the place of one unit: slots of a page follow one
/// another, then pages, blocks and planes.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The array.
    pub geometry: Geometry,
    /// Planes of the array.
    pub planes: u32,
    /// Bytes that are mapped as one.
    pub unit: u32,
    /// Units of the drive.
    pub units: u32,
    /// Slots of a page.
    pub slots: u32,
    /// Slots of a block.
    pub block_slots: u32,
    shift: u32,
}

impl Shape {
    /// Of a checked description.
    pub fn new(spec: &Spec, capacity: u64) -> Self {
        let geometry = spec.geometry(capacity);
        let slots = spec.slots();
        Self {
            geometry,
            planes: geometry.total_planes(),
            unit: spec.mapping_unit as u32,
            units: u32::try_from(capacity.div_ceil(spec.mapping_unit.max(1))).unwrap_or(u32::MAX),
            slots,
            block_slots: slots * geometry.pages,
            shift: spec.mapping_unit.trailing_zeros(),
        }
    }

    /// Blocks of the array.
    pub fn blocks(&self) -> u32 {
        self.planes * self.geometry.blocks
    }

    /// Slots of the array.
    pub fn total_slots(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.block_slots)
    }

    /// The units that bytes lie in: the first, and the one after the last.
    pub fn units_of(&self, offset: u64, length: u64) -> (u32, u32) {
        let end = offset.saturating_add(length).min(u64::from(self.units) << self.shift);
        let last = (end + u64::from(self.unit) - 1) >> self.shift;
        ((offset >> self.shift).min(last) as u32, last as u32)
    }

    /// The units that lie in bytes: the first, and the one after the last.
    pub fn units_within(&self, offset: u64, length: u64) -> (u32, u32) {
        let end = offset.saturating_add(length);
        let last = (end >> self.shift).min(u64::from(self.units));
        // The drive's last unit may be a part only.
        let last =
            if end >= u64::from(self.units) << self.shift { u64::from(self.units) } else { last };
        let first = (offset + u64::from(self.unit) - 1) >> self.shift;
        (first.min(last) as u32, last as u32)
    }

    /// First byte of a unit.
    pub fn offset(&self, unit: u32) -> u64 {
        u64::from(unit) << self.shift
    }

    /// Bytes that a unit and a range have in common.
    pub fn overlap(&self, unit: u32, offset: u64, length: u64) -> u32 {
        let start = self.offset(unit);
        let end = (start + u64::from(self.unit)).min(offset.saturating_add(length));
        end.saturating_sub(start.max(offset)) as u32
    }

    /// The number of a block, counted through the array.
    pub fn block(&self, plane: u32, block: u32) -> u32 {
        plane * self.geometry.blocks + block
    }

    /// The first slot of a page of a block, which is counted through the array.
    pub fn slot(&self, block: u32, page: u32) -> u32 {
        block * self.block_slots + page * self.slots
    }

    /// The block, counted through the array, that a slot is in.
    pub fn block_of(&self, slot: u32) -> u32 {
        slot / self.block_slots
    }

    /// The plane of a block, which is counted through the array.
    pub fn plane_of(&self, block: u32) -> u32 {
        block / self.geometry.blocks
    }

    /// The page of a slot.
    pub fn page(&self, slot: u32) -> PageAddress {
        let block = self.block_of(slot);
        let page = (slot - block * self.block_slots) / self.slots;
        self.address(block, page)
    }

    /// The address of a page of a block, which is counted through the array.
    pub fn address(&self, block: u32, page: u32) -> PageAddress {
        let plane = self.plane_of(block);
        PageAddress { plane: PlaneId(plane), block: block - plane * self.geometry.blocks, page }
    }

    /// The first slot of a page.
    pub fn slot_at(&self, at: PageAddress) -> u32 {
        self.slot(self.block(at.plane.0, at.block), at.page)
    }
}
