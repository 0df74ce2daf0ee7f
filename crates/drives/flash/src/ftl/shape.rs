//! Sizes that translation layers compute with, and how slots are numbered.

use stasis_nand::{Geometry, PageAddress, PlaneId};

use crate::narrow::count;
use crate::spec::{CacheShape, Spec};

/// A number that others are divided by often: by a multiplication, which is
/// several times as fast (exact for 32 bits: Lemire, Kaser and Kurz, Software:
/// Practice and Experience 2019).
#[derive(Debug, Clone, Copy)]
struct Divisor {
    value: u32,
    // 2^64 / value, rounded up; 0 for 1.
    magic: u64,
}

impl Divisor {
    fn new(value: u32) -> Self {
        let value = value.max(1);
        Self { value, magic: (u64::MAX / u64::from(value)).wrapping_add(1) }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a quotient is at most the number")]
    fn quotient(self, number: u32) -> u32 {
        if self.value == 1 {
            return number;
        }
        ((u128::from(self.magic) * u128::from(number)) >> 64) as u32
    }
}

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
    /// Pages of a word line that is programmed in two passes; 1 where each page is by itself.
    pub line: u32,
    /// The SLC cache.
    pub(crate) cache: Option<CacheShape>,
    shift: u32,
    by_slots: Divisor,
    by_pages: Divisor,
    by_block_slots: Divisor,
    by_blocks: Divisor,
}

impl Shape {
    /// Makes the layer of a checked description.
    pub fn new(spec: &Spec, capacity: u64) -> Self {
        let geometry = spec.geometry(capacity);
        let slots = spec.slots();
        Self {
            geometry,
            planes: geometry.total_planes(),
            unit: count(spec.mapping_unit),
            units: u32::try_from(capacity.div_ceil(spec.mapping_unit.max(1))).unwrap_or(u32::MAX),
            slots,
            block_slots: slots * geometry.pages,
            line: spec.line_pages(geometry.pages),
            cache: spec.cache_shape(capacity, geometry.pages),
            shift: spec.mapping_unit.trailing_zeros(),
            by_slots: Divisor::new(slots),
            by_pages: Divisor::new(geometry.pages),
            by_block_slots: Divisor::new(slots * geometry.pages),
            by_blocks: Divisor::new(geometry.blocks),
        }
    }

    /// Slots of the array's blocks but for so many that were given up. Blocks that are always in
    /// SLC mode have fewer.
    pub(crate) fn room_without(&self, retired: u64) -> u64 {
        let room = u64::from(self.blocks()).saturating_sub(retired) * u64::from(self.block_slots);
        let lacks = self.cache.map_or(0, |cache| {
            let pages = u64::from(self.geometry.pages.saturating_sub(cache.pages));
            u64::from(self.planes) * u64::from(cache.fixed) * pages * u64::from(self.slots)
        });
        room.saturating_sub(lacks)
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
        (count((offset >> self.shift).min(last)), count(last))
    }

    /// The units that lie in bytes: the first, and the one after the last.
    pub fn units_within(&self, offset: u64, length: u64) -> (u32, u32) {
        let end = offset.saturating_add(length);
        let last = (end >> self.shift).min(u64::from(self.units));
        // The drive's last unit may be a part only.
        let last =
            if end >= u64::from(self.units) << self.shift { u64::from(self.units) } else { last };
        let first = (offset + u64::from(self.unit) - 1) >> self.shift;
        (count(first.min(last)), count(last))
    }

    /// First byte of a unit.
    pub fn offset(&self, unit: u32) -> u64 {
        u64::from(unit) << self.shift
    }

    /// Returns the offset at which a unit begins in a request from `offset` on (bytes).
    pub fn begin(&self, unit: u32, offset: u64) -> u64 {
        self.offset(unit).saturating_sub(offset)
    }

    /// Bytes that a unit and a range have in common.
    pub fn overlap(&self, unit: u32, offset: u64, length: u64) -> u32 {
        let start = self.offset(unit);
        let end = (start + u64::from(self.unit)).min(offset.saturating_add(length));
        count(end.saturating_sub(start.max(offset)))
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
        self.by_block_slots.quotient(slot)
    }

    /// The plane of a block, which is counted through the array.
    pub fn plane_of(&self, block: u32) -> u32 {
        self.by_blocks.quotient(block)
    }

    /// The number, counted through the array, of the page that a slot is in.
    pub fn page_of(&self, slot: u32) -> u32 {
        self.by_slots.quotient(slot)
    }

    /// The block, counted through the array, of a page that is counted so.
    pub fn block_of_page(&self, page: u32) -> u32 {
        self.by_pages.quotient(page)
    }

    /// The page of a slot.
    pub fn page(&self, slot: u32) -> PageAddress {
        let page = self.page_of(slot);
        let block = self.block_of_page(page);
        self.address(block, page - block * self.geometry.pages)
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

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quotients_are_exact(number: u32, value in 1u32.., shift in 0u32..32) {
            for value in [value, (value >> shift).max(1), 1, 2, 3, u32::MAX] {
                for number in [number, number / value * value, u32::MAX] {
                    prop_assert_eq!(Divisor::new(value).quotient(number), number / value);
                }
            }
        }
    }

    #[test]
    fn slots_and_addresses_name_each_other() {
        let spec = Spec { channels: 3, page_size: 12 << 10, pages: Some(7), ..Spec::default() };
        let shape = Shape::new(&spec, 50 << 20);
        assert_eq!(shape.slots, 3);
        for slot in (0..shape.total_slots() as u32).step_by(3) {
            let at = shape.page(slot);
            assert!(shape.geometry.contains(at));
            assert_eq!(shape.slot_at(at), slot);
            assert_eq!(shape.page(slot + 2), at);
        }
        // Parts of units, and ranges beyond the end.
        assert_eq!(shape.units_of(4095, 2), (0, 2));
        assert_eq!(shape.units_within(4095, 4098), (1, 2));
        assert_eq!(shape.units_within(4097, 4096), (2, 2));
        assert_eq!(shape.units_of((50 << 20) - 1, 99), (12_799, 12_800));
        assert_eq!((shape.overlap(1, 4097, 10), shape.overlap(1, 0, 5000)), (10, 904));
    }
}
