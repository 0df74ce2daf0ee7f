//! The age of a drive's data.
//!
//! The age of a unit is what the host has written since it wrote the unit last, in place of a time:
//! what it is worth to a collection depends on writes, and an idle drive does not age. (Rosenblum
//! and Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992, section
//! 3.6, tell hot from cold data by its age; Wang et al., "Separating Data via Block Invalidation
//! Time Inference", FAST 2022, section 2, measure it in the host's writes.)

use std::ops::Range;

use crate::narrow::{count, place};
use stasis_block::inside::DataAge;

/// Units that share a stamp, as a power of two: a stamp of 32 bits reaches 2^38 units.
const GRAIN: u32 = 6;
/// Epochs of writes: twice as many are merged, so that an age is known to a 128th of what was
/// written.
const EPOCHS: u64 = 128;
/// The least age of each class (bytes): 4 MiB, four times as much, and so on.
const CLASSES: usize = 10;
const FIRST_CLASS: u64 = 4 << 20;
/// The stamp of a unit that was not written since the drive's start.
const UNWRITTEN: u32 = 0;

/// Units by class of age.
pub(crate) type Ages = [u64; CLASSES];

/// Time at which each unit was written last, and the number of units of each epoch of writes.
#[derive(Debug, Clone)]
pub(crate) struct Temperature {
    unit: u64,
    // One more than the grain in which a unit was written last. Untouched parts of a large drive
    // take no memory: nothing is written as zero.
    stamps: Vec<u32>,
    written: u64,
    // Units that were written last in each epoch of `1 << shift` grains.
    epochs: Vec<u64>,
    shift: u32,
}

impl Temperature {
    /// Starts with a drive of `capacity` bytes in mapping units of `unit` bytes.
    pub fn new(capacity: u64, unit: u32) -> Self {
        let unit = u64::from(unit.max(1));
        let units = usize::try_from(capacity.div_ceil(unit)).unwrap_or(0);
        let epochs = vec![0; place(2 * EPOCHS)];
        Self { unit, stamps: vec![UNWRITTEN; units], written: 0, epochs, shift: 0 }
    }

    /// The host writes these bytes: each unit with one of them is new.
    #[inline]
    pub fn write(&mut self, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let units = offset / self.unit..(offset + length).div_ceil(self.unit);
        for unit in place(units.start)..place(units.end) {
            let grain = (self.written >> GRAIN).min(u64::from(u32::MAX - 1));
            if grain >> self.shift >= 2 * EPOCHS {
                self.merge();
            }
            let Some(stamp) = self.stamps.get_mut(unit) else { return };
            if *stamp != UNWRITTEN {
                self.epochs[((*stamp - 1) >> self.shift) as usize] -= 1;
            }
            *stamp = count(grain) + 1;
            self.epochs[(grain >> self.shift) as usize] += 1;
            self.written += 1;
        }
    }

    /// The host discards these bytes: each unit that lies within them has no data.
    pub fn discard(&mut self, bytes: Range<u64>) {
        let units = bytes.start.div_ceil(self.unit)..bytes.end / self.unit;
        for unit in units {
            let Some(stamp) = self.stamps.get_mut(place(unit)) else { return };
            if *stamp != UNWRITTEN {
                self.epochs[((*stamp - 1) >> self.shift) as usize] -= 1;
                *stamp = UNWRITTEN;
            }
        }
    }

    /// Makes epochs twice as long.
    #[cold]
    fn merge(&mut self) {
        for epoch in 0..place(EPOCHS) {
            self.epochs[epoch] = self.epochs[2 * epoch] + self.epochs[2 * epoch + 1];
        }
        self.epochs[place(EPOCHS)..].fill(0);
        self.shift += 1;
    }

    /// The units by the class of their age now.
    pub fn ages(&self) -> Ages {
        let mut ages = Ages::default();
        let length = 1u64 << (GRAIN + self.shift);
        for (epoch, units) in (0u64..).zip(&self.epochs) {
            // The middle of the epoch, or of the part of it that has passed.
            let begin = epoch * length;
            let middle = begin + (self.written.min(begin + length).saturating_sub(begin)) / 2;
            let age = self.written.saturating_sub(middle) * self.unit;
            let class = (0..CLASSES).rev().find(|class| age >= least(*class)).unwrap_or(0);
            ages[class] += units;
        }
        ages
    }

    /// The classes that something is in, with the bytes of each at the end of each of the steps.
    pub fn course(&self, steps: impl Iterator<Item = Ages> + Clone) -> Vec<DataAge> {
        let classes = (0..CLASSES).map(|class| DataAge {
            from: least(class),
            to: (class + 1 < CLASSES).then(|| least(class + 1)),
            bytes: steps.clone().map(|ages| ages[class] * self.unit).collect(),
        });
        classes.filter(|age| age.bytes.iter().any(|bytes| *bytes > 0)).collect()
    }
}

/// The least age of a class (bytes).
fn least(class: usize) -> u64 {
    match class {
        0 => 0,
        class => FIRST_CLASS << (2 * (class - 1)),
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list of all writes.
        #[test]
        fn ages_are_what_was_written_since(
            raw in prop::collection::vec((0u64..64, 0u64..64, prop::bool::weighted(0.2)), 1..120),
        ) {
            // Units large enough that few writes reach several classes.
            let unit = 1u64 << 20;
            let mut data = Temperature::new(64 * unit, unit as u32);
            let (mut last, mut written) = ([None; 64], 0u64);
            for (first, units, is_discard) in raw {
                let units = units.min(64 - first);
                if is_discard {
                    data.discard(first * unit..(first + units) * unit);
                } else {
                    data.write(first * unit, units * unit);
                }
                for place in first..first + units {
                    last[place as usize] = (!is_discard).then_some(written);
                    written += u64::from(!is_discard);
                }
            }
            let held = last.iter().flatten().count() as u64;
            prop_assert_eq!(data.ages().iter().sum::<u64>(), held);
            // Stamps and epochs blur an age by their length.
            let blur = (1u64 << (GRAIN + data.shift)) * unit;
            for class in 0..CLASSES {
                let at_least: u64 = data.ages()[class..].iter().sum();
                let count = |beyond: u64| {
                    let old = |at: &&u64| (written - **at) * unit >= beyond;
                    last.iter().flatten().filter(old).count() as u64
                };
                prop_assert!(at_least >= count(least(class).saturating_add(blur)));
                prop_assert!(at_least <= count(least(class).saturating_sub(blur)));
            }
        }
    }

    #[test]
    fn merged_epochs_keep_every_unit() {
        let mut data = Temperature::new(1 << 20, 4096);
        for round in 0..1_000_000u64 {
            data.write(round * 4096 % (1 << 20), 4096);
        }
        assert!(data.shift > 0);
        assert_eq!(data.ages()[0], 256);
        data.write((1 << 20) - 4096, 1 << 30);
        data.discard(0..u64::MAX);
        assert_eq!(data.ages(), Ages::default());
    }
}
