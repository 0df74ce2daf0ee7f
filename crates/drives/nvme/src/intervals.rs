//! A set of ranges, bounded in how many it holds.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of ranges that are put in. Taking out can split as many again as there
/// are commands in flight, for a split beyond it is refused beforehand.
const MAX_INTERVALS: usize = 4096;

/// The end of a run of `count` things from `first` on; `None` for an empty run and for one that is
/// not within `range`.
pub fn end_of_run(first: u64, count: u64, range: Range<u64>) -> Option<u64> {
    let end = first.checked_add(count)?;
    (count > 0 && first >= range.start && end <= range.end).then_some(end)
}

/// Ranges of a namespace's bytes, none of which touch.
#[derive(Debug, Default)]
pub struct Intervals {
    /// The end of each by its start.
    ends: BTreeMap<u64, u64>,
    /// Number of changes.
    changes: u64,
}

impl Intervals {
    /// The start and the end of each, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ends.iter().map(|(&start, &end)| (start, end))
    }

    /// Number of changes.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns whether nothing more can be put in.
    pub fn is_full(&self) -> bool {
        self.ends.len() >= MAX_INTERVALS
    }

    /// Returns whether any of `range` is in it.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        let before = self.ends.range(..range.end).next_back();
        !range.is_empty() && before.is_some_and(|(_, &end)| end > range.start)
    }

    /// The first of `range` that is in it.
    pub fn first_in(&self, range: &Range<u64>) -> Option<u64> {
        if range.is_empty() {
            return None;
        }
        let at_start = self.ends.range(..=range.start).next_back();
        if at_start.is_some_and(|(_, &end)| end > range.start) {
            return Some(range.start);
        }
        self.ends.range(range.clone()).next().map(|(&start, _)| start)
    }

    /// The first part of `range` that is in it: its start and its end.
    pub fn first_part(&self, range: &Range<u64>) -> Option<(u64, u64)> {
        let start = self.first_in(range)?;
        let end = self.ends.range(..=start).next_back().map_or(start, |(_, &end)| end);
        Some((start, end.min(range.end)))
    }

    /// Inserts `range`. Returns whether there was room.
    pub fn insert(&mut self, range: Range<u64>) -> bool {
        if self.is_full() {
            return false;
        }
        let Range { mut start, mut end } = range;
        // Those that overlap or touch become one.
        while let Some((&from, &to)) = self.ends.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.ends.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.ends.insert(start, end);
        self.changes += 1;
        true
    }

    /// Takes `range` out.
    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((&from, &to)) = self.ends.range(..range.end).next_back() {
            if to <= range.start {
                break;
            }
            self.ends.remove(&from);
            self.changes += 1;
            if to > range.end {
                self.ends.insert(range.end, to);
            }
            if from < range.start {
                self.ends.insert(from, range.start);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPACE: u64 = 64;

    proptest! {
        #[test]
        fn intervals_are_as_a_set_of_numbers(
            steps in prop::collection::vec((any::<bool>(), 0..SPACE, 1..20u64), 0..60),
        ) {
            let mut intervals = Intervals::default();
            let mut reference = [false; SPACE as usize];
            for (insert, start, length) in steps {
                let range = start..(start + length).min(SPACE);
                reference[start as usize..range.end as usize].fill(insert);
                if insert {
                    prop_assert!(intervals.insert(range));
                } else {
                    intervals.remove(range);
                }
                let first = (3..SPACE).find(|&at| reference[at as usize]);
                prop_assert_eq!(intervals.first_in(&(3..SPACE)), first);
                let end = first.map(|first| {
                    (first..SPACE).find(|&at| !reference[at as usize]).unwrap_or(SPACE)
                });
                prop_assert_eq!(intervals.first_part(&(3..SPACE)), first.zip(end));
                for at in 0..SPACE {
                    let there = reference[at as usize];
                    prop_assert_eq!(intervals.overlaps(&(at..at + 1)), there);
                }
                // As few as there can be.
                let runs = (0..SPACE as usize)
                    .filter(|&at| reference[at] && (at == 0 || !reference[at - 1]))
                    .count();
                prop_assert_eq!(intervals.ends.len(), runs);
                prop_assert_eq!(intervals.is_empty(), runs == 0);
            }
        }
    }

    #[test]
    fn what_is_put_in_is_bounded() {
        let mut intervals = Intervals::default();
        for at in 0..MAX_INTERVALS as u64 {
            assert!(intervals.insert(2 * at..2 * at + 1));
        }
        assert!(!intervals.insert(u64::MAX - 1..u64::MAX) && intervals.is_full());
        assert!(!intervals.overlaps(&(1..2)) && !intervals.overlaps(&(0..0)));
        intervals.remove(0..1);
        assert!(intervals.insert(1..2) && intervals.first_in(&(0..9)) == Some(1));
    }
}
