//! Places of the newest bytes of each range of the disk.

use std::collections::BTreeMap;

/// Place of the bytes of a range, if not in the disk's own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In the log, from this address on.
    Log(u64),
    /// Nowhere: they are zeroes, by the record at this address.
    Zeroes(u64),
}

impl Source {
    /// An address within the record that is the source.
    pub fn address(self) -> u64 {
        let (Self::Log(address) | Self::Zeroes(address)) = self;
        address
    }

    fn skip(self, bytes: u64) -> Self {
        match self {
            Self::Log(address) => Self::Log(address + bytes),
            zeroes @ Self::Zeroes(_) => zeroes,
        }
    }
}

/// A range of the disk with one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte on the disk.
    pub offset: u64,
    /// Its length (bytes).
    pub length: u64,
    /// Place of its bytes.
    pub source: Source,
}

/// Ranges that are not, or not yet, in the disk's own file.
#[derive(Debug, Default)]
pub struct Index {
    // By their first bytes: length and source. They do not overlap.
    extents: BTreeMap<u64, (u64, Source)>,
}

impl Index {
    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Every piece, in the disk's order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.iter().map(|(&offset, &(length, source))| Extent { offset, length, source })
    }

    /// Maps the bytes of a range to `source`.
    pub fn insert(&mut self, offset: u64, length: u64, source: Source) {
        if length == 0 {
            return;
        }
        // The common case, a range written again, needs no search for others.
        if let Some(found) = self.extents.get_mut(&offset) {
            if found.0 == length {
                found.1 = source;
                return;
            }
        }
        self.cut(offset, length, |_| true);
        self.extents.insert(offset, (length, source));
    }

    /// Forgets the places of a range in the records before `below`.
    pub fn forget(&mut self, offset: u64, length: u64, below: u64) {
        self.cut(offset, length, |source| source.address() < below);
    }

    /// The pieces of a range, in order. The parts between them are in the disk's own file.
    pub fn find(&self, offset: u64, length: u64) -> impl Iterator<Item = Extent> + '_ {
        let end = offset + length;
        let before = self.extents.range(..offset).next_back();
        let pieces = before.into_iter().chain(self.extents.range(offset..end));
        pieces.filter_map(move |(&start, &(long, source))| {
            let from = start.max(offset);
            let to = (start + long).min(end);
            let source = source.skip(from - start);
            (from < to).then(|| Extent { offset: from, length: to - from, source })
        })
    }

    /// Removes from a range the parts for which `which` is true, and keeps the parts beyond.
    fn cut(&mut self, offset: u64, length: u64, which: impl Fn(Source) -> bool) {
        let end = offset + length;
        if let Some((&start, &(long, source))) = self.extents.range(..offset).next_back() {
            if start + long > offset && which(source) {
                self.extents.insert(start, (offset - start, source));
                if start + long > end {
                    self.extents.insert(end, (start + long - end, source.skip(end - start)));
                }
            }
        }
        let mut from = offset;
        while let Some((&start, &(long, source))) = self.extents.range(from..end).next() {
            if which(source) {
                self.extents.remove(&start);
                if start + long > end {
                    self.extents.insert(end, (start + long - end, source.skip(end - start)));
                }
            }
            from = start + long;
            if from >= end {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 64;

    #[derive(Debug, Clone)]
    enum Step {
        Data(u64, u64),
        Zeroes(u64, u64),
        Forget(u64, u64, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let range = || (0..SIZE, 1..20u64).prop_map(|(at, long)| (at, long.min(SIZE - at)));
        let step = prop_oneof![
            4 => range().prop_map(|(at, long)| Step::Data(at, long)),
            1 => range().prop_map(|(at, long)| Step::Zeroes(at, long)),
            2 => (range(), 0..40u64).prop_map(|((at, long), below)| Step::Forget(at, long, below)),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        /// Against a disk of single bytes, each with its own source.
        #[test]
        fn the_newest_bytes_are_found(steps in steps(), at in 0..SIZE, long in 1..30u64) {
            let (mut index, mut bytes) = (Index::default(), vec![None; SIZE as usize]);
            for (number, step) in steps.into_iter().enumerate() {
                let address = number as u64 * 100;
                match step {
                    Step::Data(at, long) => {
                        index.insert(at, long, Source::Log(address));
                        (0..long).for_each(|i| {
                            bytes[(at + i) as usize] = Some(Source::Log(address + i));
                        });
                    }
                    Step::Zeroes(at, long) => {
                        index.insert(at, long, Source::Zeroes(address));
                        bytes[at as usize..(at + long) as usize]
                            .fill(Some(Source::Zeroes(address)));
                    }
                    Step::Forget(at, long, below) => {
                        index.forget(at, long, below * 100);
                        for byte in &mut bytes[at as usize..(at + long) as usize] {
                            if byte.is_some_and(|source: Source| source.address() < below * 100) {
                                *byte = None;
                            }
                        }
                    }
                }
            }
            let long = long.min(SIZE - at);
            let mut found = vec![None; long as usize];
            let mut last = at;
            for Extent { offset, length, source } in index.find(at, long) {
                prop_assert!(offset >= last && length > 0, "in order, none empty");
                last = offset + length;
                (0..length).for_each(|i| {
                    found[(offset - at + i) as usize] = Some(source.skip(i));
                });
            }
            prop_assert_eq!(&found[..], &bytes[at as usize..(at + long) as usize]);
            let all: u64 = index.iter().map(|extent| extent.length).sum();
            prop_assert_eq!(all, bytes.iter().flatten().count() as u64);
        }
    }
}
