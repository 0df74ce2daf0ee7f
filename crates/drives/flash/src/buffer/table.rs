//! From a unit to its entry: open addressing with linear probing, and removal
//! by moving back what follows, so that nothing is ever rebuilt but to grow.

const EMPTY: u32 = u32::MAX;

/// A map of units to entries; neither is `u32::MAX`.
#[derive(Debug)]
pub(crate) struct Table {
    // Pairs of unit and entry.
    cells: Vec<(u32, u32)>,
    used: usize,
    mask: usize,
}

impl Table {
    pub fn new() -> Self {
        let cells = vec![(EMPTY, 0); 4 * super::IN_FLIGHT];
        Self { used: 0, mask: cells.len() - 1, cells }
    }

    fn home(&self, unit: u32) -> usize {
        // Fibonacci hashing: the high bits of a product with 2^32 / phi.
        let hash = u64::from(unit).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & self.mask
    }

    fn find(&self, unit: u32) -> usize {
        let mut at = self.home(unit);
        while self.cells[at].0 != unit && self.cells[at].0 != EMPTY {
            at = (at + 1) & self.mask;
        }
        at
    }

    pub fn get(&self, unit: u32) -> Option<u32> {
        let (found, entry) = self.cells[self.find(unit)];
        (found == unit).then_some(entry)
    }

    pub fn insert(&mut self, unit: u32, entry: u32) {
        let at = self.find(unit);
        if self.cells[at].0 == EMPTY {
            self.used += 1;
        }
        self.cells[at] = (unit, entry);
        if self.used * 2 > self.cells.len() {
            self.grow();
        }
    }

    pub fn remove(&mut self, unit: u32) {
        let mut hole = self.find(unit);
        if self.cells[hole].0 == EMPTY {
            return;
        }
        self.used -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let (next, entry) = self.cells[at];
            if next == EMPTY {
                break;
            }
            // It may move back only to where a search from its home passes.
            let distance = at.wrapping_sub(self.home(next)) & self.mask;
            if distance >= (at.wrapping_sub(hole) & self.mask) {
                self.cells[hole] = (next, entry);
                hole = at;
            }
        }
        self.cells[hole] = (EMPTY, 0);
    }

    pub fn clear(&mut self) {
        self.cells.fill((EMPTY, 0));
        self.used = 0;
    }

    fn grow(&mut self) {
        let cells = vec![(EMPTY, 0); self.cells.len() * 2];
        self.mask = cells.len() - 1;
        for (unit, entry) in std::mem::replace(&mut self.cells, cells) {
            if unit != EMPTY {
                let at = self.find(unit);
                self.cells[at] = (unit, entry);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u32..300, 0u32..3), 1..2_000)) {
            let (mut table, mut map) = (Table::new(), BTreeMap::new());
            for (number, &(unit, step)) in steps.iter().enumerate() {
                // Units far apart, too.
                let unit = unit.wrapping_mul(0x0101_0101) % EMPTY;
                if step == 0 {
                    table.remove(unit);
                    map.remove(&unit);
                } else {
                    table.insert(unit, number as u32);
                    map.insert(unit, number as u32);
                }
                prop_assert_eq!(table.get(unit), map.get(&unit).copied());
            }
            for unit in (0u32..300).map(|unit| unit.wrapping_mul(0x0101_0101) % EMPTY) {
                prop_assert_eq!(table.get(unit), map.get(&unit).copied());
            }
            prop_assert_eq!(table.used, map.len());
        }
    }
}
