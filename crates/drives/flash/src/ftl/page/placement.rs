//! Place of each unit, and the effects of a change on blocks, damage and the layer above.
//!
//! Invariants: a unit lies in one slot at most, and the two directions of the map agree; a block's
//! count of valid units is the number of its slots that the map names; a unit that lies nowhere has
//! no damage but the loss of its data.

use std::collections::BTreeMap;

use super::above::{Change, Event};
use super::blocks::Blocks;
use super::map::{Map, Sequence};
use crate::ftl::Shape;
use crate::kept::{KeptError, Reader, Writer};

/// The map with all that depends on it; see the [module](self).
#[derive(Debug)]
pub(crate) struct Placement {
    shape: Shape,
    map: Map,
    blocks: Blocks,
    // Units whose data was lost (or corrupted, with the seed) inside.
    damaged: BTreeMap<u32, Option<u64>>,
    // Changes of the map for the layer above, if there is one.
    changes: Option<Vec<Change>>,
}

impl Placement {
    /// Creates an empty placement. `units` may be more than the host's; `records`: changes are kept
    /// for a layer above.
    pub fn new(shape: Shape, units: u32, blocks: Blocks, records: bool) -> Self {
        Self {
            shape,
            map: Map::new(units, shape.total_slots()),
            blocks,
            damaged: BTreeMap::new(),
            changes: records.then(Vec::new),
        }
    }

    /// Every unit of the host's was written in this sequence, and nothing else was.
    pub fn begin(&mut self, sequence: Sequence) {
        self.map.begin(sequence);
    }

    /// The blocks.
    #[inline]
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The blocks, to open, fill and erase them.
    #[inline]
    pub fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    /// Returns the place of a unit.
    #[inline]
    pub fn slot(&self, unit: u32) -> Option<u32> {
        self.map.slot(unit)
    }

    /// The unit that a slot holds.
    #[inline]
    pub fn unit(&self, slot: u32) -> Option<u32> {
        self.map.unit(slot)
    }

    /// Prefetches the place of `unit`, which is soon read.
    #[inline]
    pub fn prefetch_unit(&self, unit: u32) {
        self.map.prefetch_unit(unit);
    }

    /// Prefetches the unit of `slot`, which is soon read.
    #[inline]
    pub fn prefetch_slot(&self, slot: u32) {
        self.map.prefetch_slot(slot);
    }

    /// Prefetches the entries of a unit's present place, which change when the unit soon moves.
    #[inline]
    pub fn prefetch_old(&self, unit: u32) {
        if let Some(slot) = self.map.slot(unit) {
            self.map.prefetch_slot(slot);
            self.blocks.prefetch(self.shape.block_of(slot));
        }
    }

    /// A unit was programmed into a slot with new contents. The plane in which it lay before.
    #[inline]
    pub fn write(&mut self, unit: u32, slot: u32) -> Option<u32> {
        if !self.damaged.is_empty() {
            self.damaged.remove(&unit);
        }
        self.blocks.add_valid(self.shape.block_of(slot), 1);
        self.record(unit, Event::Written);
        let old = self.map.set(unit, slot)?;
        Some(self.invalidate(old))
    }

    /// A unit was moved from the slot `old` to `slot`.
    #[inline]
    pub fn relocate(&mut self, unit: u32, old: u32, slot: u32) {
        self.blocks.add_valid(self.shape.block_of(slot), 1);
        self.map.set(unit, slot);
        self.record(unit, Event::Moved);
        self.blocks.drop_valid(self.shape.block_of(old));
    }

    /// The host forgets a unit. The plane in which it lay.
    pub fn trim(&mut self, unit: u32) -> Option<u32> {
        if !self.damaged.is_empty() {
            self.damaged.remove(&unit);
        }
        let old = self.map.clear(unit)?;
        self.record(unit, Event::Moved);
        Some(self.invalidate(old))
    }

    /// A unit cannot be read any more. The plane in which it lay.
    pub fn lose(&mut self, unit: u32) -> Option<u32> {
        self.damaged.insert(unit, None);
        let old = self.map.clear(unit)?;
        self.record(unit, Event::Lost);
        Some(self.invalidate(old))
    }

    /// A unit's contents were moved as wrong data, made from `seed`.
    pub fn corrupt(&mut self, unit: u32, seed: u64) {
        self.damaged.insert(unit, Some(seed));
    }

    /// The damage of a unit: lost, or wrong data made from a seed.
    #[inline]
    pub fn damage(&self, unit: u32) -> Option<Option<u64>> {
        if self.damaged.is_empty() {
            return None;
        }
        self.damaged.get(&unit).copied()
    }

    /// A unit lies in a slot from the beginning of the run on; its block's count is not changed.
    pub fn preset(&mut self, unit: u32, slot: u32) {
        self.map.set(unit, slot);
    }

    /// Takes the changes for the layer above; [`Placement::restore_changes`] gives the memory back.
    pub fn take_changes(&mut self) -> Option<Vec<Change>> {
        self.changes.take()
    }

    /// Gives back the memory of [`Placement::take_changes`], emptied.
    pub fn restore_changes(&mut self, changes: Vec<Change>) {
        self.changes = Some(changes);
    }

    #[inline]
    fn record(&mut self, unit: u32, event: Event) {
        if let Some(changes) = &mut self.changes {
            changes.push(Change { unit, event });
        }
    }

    /// A slot no longer holds a unit; its plane.
    #[inline]
    fn invalidate(&mut self, slot: u32) -> u32 {
        let block = self.shape.block_of(slot);
        self.blocks.drop_valid(block);
        self.shape.plane_of(block)
    }

    /// Writes the map, the blocks, and what is damaged.
    pub fn keep(&self, out: &mut Writer) {
        self.map.keep(out);
        self.blocks.keep(out);
        out.put(self.damaged.len() as u64);
        for (&unit, seed) in &self.damaged {
            out.put(unit);
            out.put(seed.is_some());
            out.put(seed.unwrap_or(0));
        }
    }

    /// Reads them, of a new drive.
    pub fn restore(&mut self, from: &mut Reader) -> Result<(), KeptError> {
        self.map.restore(from)?;
        self.blocks.restore(from, &self.map)?;
        let units = u64::from(self.shape.units);
        for _ in 0..from.within(0..units + 1, "more is damaged than there is")? {
            let unit = from.within(0..units, "a damaged unit is none")?;
            let (corrupted, seed) = (from.take()? != 0, from.take()?);
            self.damaged.insert(unit, corrupted.then_some(seed));
        }
        Ok(())
    }

    /// Panics where map and blocks disagree; for tests.
    pub fn check(&self) {
        self.map.check();
        self.blocks.check(&self.map);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::drive;
    use super::*;
    use crate::spec::{Spec, WearLevelling};

    /// Two planes of blocks of two pages of one slot, for four units, with one open block each.
    fn placement() -> (Placement, Shape, [u32; 2]) {
        let (_, shape) = drive(Spec::default(), 2, 2, 4);
        let mut blocks = Blocks::new(shape, WearLevelling::None, 0, 1);
        let open = [0, 1].map(|plane| blocks.open(plane).unwrap());
        (Placement::new(shape, 4, blocks, true), shape, open)
    }

    fn events(placement: &mut Placement) -> Vec<(u32, Event)> {
        let changes = placement.take_changes().unwrap();
        placement.restore_changes(Vec::new());
        changes.iter().map(|change| (change.unit, change.event)).collect()
    }

    #[test]
    fn a_change_of_place_names_the_plane_that_gains() {
        let (mut placement, shape, [first, second]) = placement();
        let (old, new) = (shape.slot(first, 0), shape.slot(second, 0));
        assert_eq!(placement.write(3, old), None);
        assert_eq!(placement.write(3, new), Some(0));
        assert_eq!((placement.slot(3), placement.unit(old)), (Some(new), None));
        placement.relocate(3, new, shape.slot(second, 1));
        assert_eq!(placement.trim(3), Some(1));
        assert_eq!((placement.slot(3), placement.trim(3)), (None, None));
        let written = (3, Event::Written);
        let moved = (3, Event::Moved);
        assert_eq!(events(&mut placement), [written, written, moved, moved]);
        placement.check();
    }

    #[test]
    fn damage_lasts_until_the_unit_is_written_or_trimmed() {
        let (mut placement, shape, [first, _]) = placement();
        placement.write(0, shape.slot(first, 0));
        placement.corrupt(0, 7);
        assert_eq!((placement.damage(0), placement.damage(1)), (Some(Some(7)), None));
        assert_eq!(placement.lose(0), Some(0));
        assert_eq!((placement.damage(0), placement.slot(0)), (Some(None), None));
        placement.write(0, shape.slot(first, 1));
        assert_eq!(placement.damage(0), None);
        placement.corrupt(0, 8);
        placement.trim(0);
        assert_eq!(placement.damage(0), None);
        assert_eq!(events(&mut placement)[1], (0, Event::Lost));
        placement.check();
    }
}
