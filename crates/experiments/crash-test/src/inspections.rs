//! States that a check has inspected, by what it has read of them.
//!
//! A check is a program: what it does follows from the lines that it is given, from the zones' pointers, and
//! from the bytes that it reads. So a state that differs from an inspected one only in bytes which that check has
//! not read has the same verdict, and need not be checked (Kalbfleisch, Werling, Bellosa, "Vinter: Automatic
//! Non-Volatile Memory Crash Consistency Testing for Full Systems", ATC 2022, 3.3, reads of a recovery
//! likewise).

use std::collections::HashMap;
use std::ops::Range;

use stasis_crash::{Content, DriveCrashState, SECTOR};

/// Limit on the inspections that are kept; later ones take the place of the oldest.
const MAX_INSPECTIONS: usize = 1024;
/// Limit on the sectors of one.
const MAX_READ: usize = 64 << 10;

/// A state as it is compared: the contents of each drive's sectors that the guest has ever written.
pub struct Held<'a> {
    /// By drive, in the order of its sectors.
    pub contents: Vec<Vec<Content>>,
    /// By drive.
    pub sectors: Vec<&'a [u64]>,
    /// The pointers of each drive's zones.
    pub pointers: Vec<Vec<(u64, u64)>>,
}

impl<'a> Held<'a> {
    /// A state of `crashed` drives.
    pub fn new(
        contents: Vec<Vec<Content>>,
        sectors: Vec<&'a [u64]>,
        crashed: &[DriveCrashState],
    ) -> Self {
        let pointers = crashed.iter().map(DriveCrashState::pointers_in_bytes).collect();
        Self { contents, sectors, pointers }
    }
}

/// One inspection.
struct Inspection {
    /// The state's number.
    state: u64,
    pointers: Vec<Vec<(u64, u64)>>,
    /// The drive, the place among its sectors, and what was there.
    read: Vec<(u32, u32, Content)>,
}

/// Inspections, by the number of lines that the check was given.
#[derive(Default)]
pub struct Inspections {
    all: HashMap<usize, Vec<Inspection>>,
    /// The lines of each, in the order in which they came.
    order: std::collections::VecDeque<usize>,
}

impl Inspections {
    /// Returns an inspected state that has the same verdict as this one, of so many `lines`.
    pub fn alike(&self, lines: usize, held: &Held<'_>) -> Option<u64> {
        let has = |&(drive, place, content): &(u32, u32, Content)| {
            let drive = held.contents.get(drive as usize);
            drive.and_then(|drive| drive.get(place as usize)) == Some(&content)
        };
        let is_alike =
            |one: &&Inspection| one.pointers == held.pointers && one.read.iter().all(has);
        self.all.get(&lines)?.iter().find(is_alike).map(|one| one.state)
    }

    /// Keeps the inspection of a state of so many `lines`, whose check has read these bytes: a drive and a
    /// range each.
    pub fn keep(
        &mut self,
        state: u64,
        lines: usize,
        held: &Held<'_>,
        reads: Vec<(usize, Range<u64>)>,
    ) {
        let mut read = Vec::new();
        for (drive, sectors) in held.sectors.iter().enumerate() {
            let of_drive =
                reads.iter().filter(|(its, _)| *its == drive).map(|(_, range)| range.clone());
            let ranges = merged(of_drive.collect());
            for (place, &sector) in sectors.iter().enumerate() {
                let at = sector * SECTOR as u64;
                let after = ranges.partition_point(|range| range.start < at + SECTOR as u64);
                let is_read = after.checked_sub(1).is_some_and(|last| ranges[last].end > at);
                let content = held.contents.get(drive).and_then(|drive| drive.get(place));
                if let (true, Some(&content)) = (is_read, content) {
                    read.push((drive as u32, place as u32, content));
                }
            }
        }
        if read.len() > MAX_READ {
            return;
        }
        if self.order.len() == MAX_INSPECTIONS {
            let oldest = self.order.pop_front().and_then(|lines| self.all.get_mut(&lines));
            oldest.into_iter().for_each(|all| drop(all.remove(0)));
        }
        self.order.push_back(lines);
        let pointers = held.pointers.clone();
        self.all.entry(lines).or_default().push(Inspection { state, pointers, read });
    }
}

/// The same bytes in ascending order, each once.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(contents: &[u8], sectors: &'static [u64]) -> Held<'static> {
        let mut known = stasis_crash::Contents::default();
        // The same numbers for the same bytes, whatever came before.
        let all: Vec<Content> = (0..8).map(|byte| known.find(&[byte; SECTOR])).collect();
        let contents = contents.iter().map(|byte| all[usize::from(*byte)]).collect();
        Held { contents: vec![contents], sectors: vec![sectors], pointers: vec![vec![]] }
    }

    const SECTORS: &[u64] = &[3, 4, 9, 12];

    fn bytes(sectors: Range<u64>) -> Range<u64> {
        sectors.start * SECTOR as u64..sectors.end * SECTOR as u64
    }

    #[test]
    fn a_state_that_differs_where_nobody_has_read_is_alike() {
        let mut inspections = Inspections::default();
        let reads = vec![(0, bytes(0..4)), (0, bytes(8..10)), (1, bytes(4..5))];
        inspections.keep(7, 2, &held(&[1, 2, 3, 4], SECTORS), reads);
        let alike = |contents: &[u8], lines| inspections.alike(lines, &held(contents, SECTORS));
        assert_eq!(alike(&[1, 5, 3, 6], 2), Some(7));
        assert_eq!(alike(&[1, 2, 3, 4], 1), None, "another number of lines");
        assert_eq!(alike(&[2, 2, 3, 4], 2), None);
        assert_eq!(alike(&[1, 2, 4, 4], 2), None);
        let mut zoned = held(&[1, 2, 3, 4], SECTORS);
        zoned.pointers[0].push((0, 4096));
        assert_eq!(inspections.alike(2, &zoned), None, "a zone has another pointer");
    }

    #[test]
    fn no_more_are_kept_than_the_limit() {
        let mut inspections = Inspections::default();
        let state = held(&[1, 2, 3, 4], SECTORS);
        for number in 0..2 * MAX_INSPECTIONS as u64 {
            inspections.keep(number, number as usize % 3, &state, vec![(0, bytes(0..20))]);
        }
        assert_eq!(inspections.all.values().map(Vec::len).sum::<usize>(), MAX_INSPECTIONS);
    }

    proptest! {
        /// Beside a check that sums what it reads, byte ranges in any order and overlapping.
        #[test]
        fn alike_states_have_the_same_verdict(
            states in prop::collection::vec(prop::collection::vec(0u8..3, 4), 1..12),
            reads in prop::collection::vec((0u64..7000, 1u64..1500), 0..5),
        ) {
            let ranges: Vec<_> = reads.iter().map(|&(at, length)| at..at + length).collect();
            let verdict = |state: &[u8]| -> Vec<u8> {
                let read = |sector: &u64| ranges.iter().any(|range| {
                    range.start < (sector + 1) * SECTOR as u64 && range.end > sector * SECTOR as u64
                });
                let all = SECTORS.iter().zip(state);
                all.map(|(sector, byte)| if read(sector) { *byte } else { 9 }).collect()
            };
            let mut inspections = Inspections::default();
            for (number, state) in states.iter().enumerate() {
                let present = held(state, SECTORS);
                let expected = states[..number].iter().position(|other| verdict(other) == verdict(state));
                let found = inspections.alike(0, &present);
                prop_assert_eq!(found, expected.map(|number| number as u64));
                if found.is_none() {
                    let reads = ranges.iter().map(|range| (0, range.clone())).collect();
                    inspections.keep(number as u64, 0, &present, reads);
                }
            }
        }
    }
}
