//! Place of each unit, and the data block of each logical block.
//!
//! Invariant: a unit lies in its logical block's data block at its own page, or in the log block
//! of that logical block; a unit that was lost lies nowhere.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::buffer::NONE;
use crate::ftl::Shape;
use crate::narrow::count;

/// The map of units and blocks; see the [module](self).
#[derive(Debug)]
pub(super) struct Mapping {
    shape: Shape,
    // Planes in the order in which logical blocks go round them.
    order: Vec<u32>,
    // By unit, its slot; by logical block, its data block. `NONE` for none.
    slots: Vec<u32>,
    data: Vec<u32>,
    // Units that lie somewhere.
    held: u64,
    // Units whose data was lost (or corrupted, with the seed) inside.
    damaged: BTreeMap<u32, Option<u64>>,
}

fn known(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

impl Mapping {
    /// Creates an empty mapping. `order`: the planes in the order of writing.
    pub fn new(shape: Shape, order: Vec<u32>) -> Self {
        let blocks = shape.units.div_ceil(shape.geometry.pages);
        let (slots, data) = (vec![NONE; shape.units as usize], vec![NONE; blocks as usize]);
        Self { shape, order, slots, data, held: 0, damaged: BTreeMap::new() }
    }

    /// Logical blocks of the drive.
    pub fn logical_blocks(&self) -> u32 {
        count(self.data.len())
    }

    /// The logical block of a unit, and the unit's page there.
    pub fn place(&self, unit: u32) -> (u32, u32) {
        let logical = self.shape.block_of_page(unit);
        (logical, unit - logical * self.shape.geometry.pages)
    }

    /// The plane of a logical block.
    pub fn home(&self, logical: u32) -> u32 {
        self.order[(logical % self.shape.planes) as usize]
    }

    /// The units of a logical block; the last may have fewer than others.
    pub fn units_of(&self, logical: u32) -> Range<u32> {
        let first = logical * self.shape.geometry.pages;
        first..(first + self.shape.geometry.pages).min(self.shape.units)
    }

    /// Pages of a logical block up to its last unit that lies somewhere.
    pub fn end_of(&self, logical: u32) -> u32 {
        let units = self.units_of(logical);
        let last = units.clone().rev().find(|&unit| self.slot(unit).is_some());
        last.map_or(0, |last| last - units.start + 1)
    }

    /// The slot of a unit.
    #[inline]
    pub fn slot(&self, unit: u32) -> Option<u32> {
        known(self.slots[unit as usize])
    }

    /// The data block of a logical block.
    pub fn data(&self, logical: u32) -> Option<u32> {
        known(self.data[logical as usize])
    }

    /// The data blocks.
    pub fn data_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.data.iter().copied().filter_map(known)
    }

    /// Units that lie somewhere.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The unit lies in the slot from now on; `NONE` for nowhere.
    fn put(&mut self, unit: u32, slot: u32) {
        let old = std::mem::replace(&mut self.slots[unit as usize], slot);
        self.held = self.held + u64::from(slot != NONE) - u64::from(old != NONE);
    }

    /// Panics if a count is wrong; for tests.
    pub fn check(&self) {
        let held = self.slots.iter().filter(|&&slot| slot != NONE).count();
        assert_eq!(self.held, held as u64, "units that lie somewhere");
    }

    /// The damage of a unit: lost, or wrong data made from a seed.
    #[inline]
    pub fn damage(&self, unit: u32) -> Option<Option<u64>> {
        self.damaged.get(&unit).copied()
    }

    /// A unit was written into a slot, from wrong data made from the seed `wrong`, if any.
    pub fn write(&mut self, unit: u32, slot: u32, wrong: Option<u64>) {
        self.put(unit, slot);
        self.damaged.remove(&unit);
        if wrong.is_some() {
            self.damaged.insert(unit, wrong);
        }
    }

    /// The host no longer needs a unit.
    pub fn forget(&mut self, unit: u32) {
        self.put(unit, NONE);
        self.damaged.remove(&unit);
    }

    /// A unit cannot be read any more.
    pub fn lose(&mut self, unit: u32) {
        self.put(unit, NONE);
        self.damaged.insert(unit, None);
    }

    /// Moves all units of a logical block to `target`, if there is one, which is the data block
    /// from now on; `wrong`: units whose copies are wrong data. Returns the data block before.
    pub fn merge(
        &mut self,
        logical: u32,
        target: Option<u32>,
        wrong: Vec<(u32, u64)>,
    ) -> Option<u32> {
        if let Some(target) = target {
            for (page, unit) in (0..).zip(self.units_of(logical)) {
                if self.slot(unit).is_some() {
                    self.slots[unit as usize] = self.shape.slot(target, page);
                }
            }
        }
        for (unit, seed) in wrong {
            if self.slot(unit).is_some() {
                self.damaged.insert(unit, Some(seed));
            }
        }
        known(std::mem::replace(&mut self.data[logical as usize], target.unwrap_or(NONE)))
    }

    /// A logical block was written once, in order, into `block`, before the run.
    pub fn begin(&mut self, logical: u32, block: u32) {
        self.data[logical as usize] = block;
        for (page, unit) in (0..).zip(self.units_of(logical)) {
            self.put(unit, self.shape.slot(block, page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    /// Two planes, in reverse order, of blocks of four pages of one unit; ten units.
    fn mapping() -> (Mapping, Shape) {
        let spec = Spec { channels: 2, luns: 1, planes: 1, page_size: 4096, ..Spec::default() };
        let spec = Spec { pages: Some(4), mapping_unit: 4096, cells: "slc".into(), ..spec };
        let shape = Shape::new(&spec, 10 * 4096);
        (Mapping::new(shape, vec![1, 0]), shape)
    }

    #[test]
    fn logical_blocks_go_round_the_planes_and_the_last_is_short() {
        let (mapping, _) = mapping();
        assert_eq!(mapping.logical_blocks(), 3);
        assert_eq!([0, 1, 2].map(|logical| mapping.home(logical)), [1, 0, 1]);
        assert_eq!((mapping.place(6), mapping.units_of(2)), ((1, 2), 8..10));
    }

    #[test]
    fn a_merge_moves_what_lies_somewhere_and_returns_the_old_block() {
        let (mut mapping, shape) = mapping();
        mapping.begin(0, 5);
        mapping.write(1, shape.slot(7, 0), Some(3));
        mapping.forget(3);
        assert_eq!((mapping.end_of(0), mapping.end_of(1)), (3, 0));
        assert_eq!(mapping.merge(0, Some(9), vec![(2, 4), (3, 4)]), Some(5));
        let slots = [0, 1, 2, 3].map(|unit| mapping.slot(unit));
        assert_eq!(slots, [0, 1, 2, 9].map(|page| (page < 9).then(|| shape.slot(9, page))));
        assert_eq!(
            [1, 2, 3].map(|unit| mapping.damage(unit)),
            [Some(Some(3)), Some(Some(4)), None]
        );
        assert_eq!((mapping.data(0), mapping.data_blocks().count()), (Some(9), 1));
    }

    #[test]
    fn damage_ends_with_a_write() {
        let (mut mapping, shape) = mapping();
        mapping.begin(0, 5);
        mapping.lose(2);
        assert_eq!((mapping.slot(2), mapping.damage(2)), (None, Some(None)));
        mapping.write(2, shape.slot(7, 0), None);
        assert_eq!((mapping.slot(2), mapping.damage(2)), (Some(shape.slot(7, 0)), None));
    }
}
