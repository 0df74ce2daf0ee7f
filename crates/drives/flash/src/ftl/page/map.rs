//! Place of each unit, and the unit of each slot.
//!
//! Invariants: a slot holds one unit at most, and a unit lies in one slot at most; the two name one
//! another.

use stasis_nand::prefetch;

use crate::ftl::Shape;
use crate::kept::{KeptError, Reader, Writer};
use crate::narrow::{count, place};

/// A unit or slot that is mapped no longer.
const GONE: u32 = u32::MAX;

/// Both directions. Untouched parts of a large drive take no memory: nothing is
/// written as zero, and the map of a drive that was filled in order is not written either.
#[derive(Debug)]
pub(crate) struct Map {
    // One more than the slot; 0 as in the beginning.
    slots: Vec<u32>,
    // One more than the unit; 0 as in the beginning.
    units: Vec<u32>,
    begun: Option<Sequence>,
}

/// Every unit of the drive, written once, in order: page after page round the
/// planes, and block after block of each.
#[derive(Debug)]
pub(crate) struct Sequence {
    shape: Shape,
    // Planes in the order of writing, and the place of each in it.
    order: Vec<u32>,
    places: Vec<u32>,
}

impl Sequence {
    /// In this order of the planes.
    pub fn new(shape: Shape, order: &[u32]) -> Self {
        let mut places = vec![0; order.len()];
        for (place, &plane) in (0..).zip(order) {
            places[plane as usize] = place;
        }
        Self { shape, order: order.to_vec(), places }
    }

    /// Pages that it takes.
    pub fn pages(&self) -> u32 {
        self.shape.units.div_ceil(self.shape.slots)
    }

    /// Returns the place of a unit.
    fn slot(&self, unit: u32) -> Option<u32> {
        if unit >= self.shape.units {
            return None;
        }
        let page = self.shape.page_of(unit);
        let planes = count(self.order.len());
        let (turn, place) = (page / planes, page % planes);
        let block = self.shape.block_of_page(turn);
        let first = self.shape.slot(
            self.shape.block(self.order[place as usize], block),
            turn - block * self.shape.geometry.pages,
        );
        Some(first + (unit - page * self.shape.slots))
    }

    /// The unit that a slot holds.
    fn unit(&self, slot: u32) -> Option<u32> {
        let at = self.shape.page(slot);
        let turn = at.block * self.shape.geometry.pages + at.page;
        let place = self.places[at.plane.0 as usize];
        let page = turn * count(self.order.len()) + place;
        let unit = page * self.shape.slots + (slot - self.shape.page_of(slot) * self.shape.slots);
        (unit < self.shape.units).then_some(unit)
    }
}

impl Map {
    pub fn new(units: u32, slots: u64) -> Self {
        Self { slots: vec![0; units as usize], units: vec![0; place(slots)], begun: None }
    }

    /// The drive holds one sequence written in order, and nothing else.
    pub fn begin(&mut self, sequence: Sequence) {
        self.begun = Some(sequence);
    }

    /// Prefetches the entry of `unit`, which is soon read.
    pub fn prefetch_unit(&self, unit: u32) {
        prefetch(&self.slots, unit as usize);
    }

    /// Prefetches the entry of a slot that will soon be looked up.
    pub fn prefetch_slot(&self, slot: u32) {
        prefetch(&self.units, slot as usize);
    }

    /// Returns the place of a unit.
    pub fn slot(&self, unit: u32) -> Option<u32> {
        match self.slots[unit as usize] {
            0 => self.begun.as_ref()?.slot(unit),
            GONE => None,
            slot => Some(slot - 1),
        }
    }

    /// The unit that a slot holds.
    pub fn unit(&self, slot: u32) -> Option<u32> {
        match self.units[slot as usize] {
            0 => self.begun.as_ref()?.unit(slot),
            GONE => None,
            unit => Some(unit - 1),
        }
    }

    /// The value of an unmapped entry: zero where the map began empty.
    fn nothing(&self) -> u32 {
        if self.begun.is_some() {
            GONE
        } else {
            0
        }
    }

    /// The unit lies there now; where it lay before.
    pub fn set(&mut self, unit: u32, slot: u32) -> Option<u32> {
        let old = self.slot(unit);
        debug_assert_eq!(self.unit(slot), None, "a slot holds one unit at most");
        debug_assert!(old.is_none_or(|old| self.unit(old) == Some(unit)));
        self.units[slot as usize] = unit + 1;
        self.slots[unit as usize] = slot + 1;
        self.units[old? as usize] = self.nothing();
        old
    }

    /// The unit lies nowhere now; where it lay before.
    pub fn clear(&mut self, unit: u32) -> Option<u32> {
        let old = self.slot(unit)?;
        debug_assert_eq!(self.unit(old), Some(unit));
        self.slots[unit as usize] = self.nothing();
        self.units[old as usize] = self.nothing();
        Some(old)
    }

    /// Writes where each unit lies.
    pub fn keep(&self, out: &mut Writer) {
        let units = 0..count(self.slots.len());
        out.put_all(units.map(|unit| self.slot(unit).map_or(0, |slot| u64::from(slot) + 1)));
    }

    /// Reads where each unit lies, of an empty map.
    pub fn restore(&mut self, from: &mut Reader) -> Result<(), KeptError> {
        const WRONG: KeptError = KeptError::Damaged("units lie in no slots, or several in one");
        let slots = self.units.len() as u64;
        if from.take()? != self.slots.len() as u64 {
            return Err(WRONG);
        }
        for unit in 0..count(self.slots.len()) {
            let slot = from.take()?;
            if slot == 0 {
                continue;
            }
            if slot > slots || self.units[place(slot) - 1] != 0 {
                return Err(WRONG);
            }
            self.set(unit, count(slot) - 1);
        }
        Ok(())
    }

    /// Units and slots name one another.
    pub fn check(&self) {
        let units = 0..count(self.slots.len());
        let held = units
            .filter(|&unit| {
                let slot = self.slot(unit);
                slot.inspect(|&slot| assert_eq!(self.unit(slot), Some(unit))).is_some()
            })
            .count();
        let slots = 0..count(self.units.len());
        let mapped = slots.filter(|&slot| self.unit(slot).is_some()).count();
        assert_eq!(held, mapped, "each unit lies in one slot at most");
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::Spec;

    proptest! {
        #[test]
        fn what_was_written_in_order_is_as_if_written_one_by_one(
            (channels, luns, planes, pages) in (1u32..4, 1u32..4, 1u32..3, 1u32..9),
            units in 1u32..3_000,
            slots in 1u64..5,
            reverse: bool,
        ) {
            let spec = Spec {
                channels, luns, planes, pages: Some(pages),
                page_size: slots * 4096,
                mapping_unit: 4096,
                ..Spec::default()
            };
            let shape = Shape::new(&spec, u64::from(units) * 4096);
            let mut order: Vec<u32> = (0..shape.planes).collect();
            if reverse {
                order.reverse();
            }
            let mut begun = Map::new(units, shape.total_slots());
            begun.begin(Sequence::new(shape, &order));
            begun.check();
            let mut written = Map::new(units, shape.total_slots());
            let mut next = vec![0; order.len()];
            for unit in 0..units {
                let page = unit / shape.slots;
                let plane = order[page as usize % order.len()];
                if unit % shape.slots == 0 {
                    next[plane as usize] += 1;
                }
                let at = next[plane as usize] - 1;
                let block = shape.block(plane, at / pages);
                let slot = shape.slot(block, at % pages) + unit % shape.slots;
                written.set(unit, slot);
                prop_assert_eq!(begun.slot(unit), Some(slot));
            }
            // And later changes have the same effect on both.
            for unit in (0..units).step_by(3) {
                prop_assert_eq!(begun.clear(unit), written.clear(unit));
                prop_assert_eq!(begun.slot(unit), None);
            }
            for slot in 0..shape.total_slots() as u32 {
                prop_assert_eq!(begun.unit(slot), written.unit(slot));
            }
            begun.check();
        }
    }
}
