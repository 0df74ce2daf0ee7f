//! The room that a drive's contents take: a sector takes some from when it is first written until
//! it is discarded.

use std::collections::BTreeMap;
use std::ops::Range;

use stasis_block::{Command, Operation, SECTOR};

/// Sectors of a page of the map.
const PAGE: u64 = 4096;
const WORDS: usize = PAGE as usize / 64;

/// Which sectors are taken. Its memory is at most a 4096th of what was written.
#[derive(Debug, Default)]
pub(super) struct Room {
    pages: BTreeMap<u64, Box<[u64; WORDS]>>,
    taken: u64,
}

impl Room {
    /// Sectors that are taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Sectors that a command would take in addition.
    pub fn needed(&self, command: &Command) -> u64 {
        let sectors = sectors(command);
        let taken = words(&sectors).filter_map(|(page, word, mask)| {
            self.pages.get(&page).map(|bits| u64::from((bits[word] & mask).count_ones()))
        });
        sectors.end - sectors.start - taken.sum::<u64>()
    }

    /// Notes a command that is carried out.
    pub fn note(&mut self, command: &Command) {
        match command.operation {
            Operation::Write | Operation::WriteZeroes | Operation::Copy => {
                self.taken += self.needed(command);
                for (page, word, mask) in words(&sectors(command)) {
                    self.pages.entry(page).or_insert_with(|| Box::new([0; WORDS]))[word] |= mask;
                }
            }
            Operation::Discard => self.free(sectors(command)),
            _ => {}
        }
    }

    fn free(&mut self, sectors: Range<u64>) {
        if sectors.is_empty() {
            return;
        }
        // A discard can be of the whole drive: only pages that are there are looked at.
        for (page, bits) in self.pages.range_mut(sectors.start / PAGE..=(sectors.end - 1) / PAGE) {
            let (first, last) = (page * PAGE, (page + 1) * PAGE);
            for (_, word, mask) in words(&(sectors.start.max(first)..sectors.end.min(last))) {
                self.taken -= u64::from((bits[word] & mask).count_ones());
                bits[word] &= !mask;
            }
        }
    }
}

/// The sectors that a command touches.
fn sectors(command: &Command) -> Range<u64> {
    command.offset / SECTOR..(command.offset + command.length).div_ceil(SECTOR)
}

/// The page, the word in it and the bits of that for each word that `sectors` touches.
fn words(sectors: &Range<u64>) -> impl Iterator<Item = (u64, usize, u64)> {
    let (start, end) = (sectors.start, sectors.end);
    let all = if start < end { start / 64..(end - 1) / 64 + 1 } else { 0..0 };
    all.map(move |word| {
        let (first, last) = (start.max(64 * word) % 64, (end - 1).min(64 * word + 63) % 64);
        let mask = u64::MAX << first & u64::MAX >> (63 - last);
        (word * 64 / PAGE, (word % WORDS as u64) as usize, mask)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn room_is_as_a_set_of_sectors(
            commands in prop::collection::vec((0..4u8, 0..9000u64, 0..300u64), 0..60),
        ) {
            let mut room = Room::default();
            let mut reference = BTreeSet::new();
            for (choice, at, count) in commands {
                let (operation, count) = match choice {
                    0 => (Operation::Discard, 20 * count),
                    1 => (Operation::WriteZeroes, count),
                    2 => (Operation::Write, count),
                    _ => (Operation::Read, count),
                };
                let command = Command::new(operation, at * SECTOR, count * SECTOR);
                let there = (at..at + count).filter(|sector| reference.contains(sector)).count();
                prop_assert_eq!(room.needed(&command), count - there as u64);
                room.note(&command);
                for sector in at..at + count {
                    match operation {
                        Operation::Discard => drop(reference.remove(&sector)),
                        Operation::Read => {}
                        _ => drop(reference.insert(sector)),
                    }
                }
                prop_assert_eq!(room.taken(), reference.len() as u64);
            }
        }
    }
}
