//! A drive's housekeeping over time, in few numbers.

use stasis_block::clock::Nanos;
use stasis_block::inside::FlashCourse;

use super::temperature::{Ages, Temperature};
use crate::ftl::Occupancy;
use crate::narrow::place;

/// Steps of time: twice as many are merged.
const STEPS: usize = 64;
/// The length of a step at first: 2^16 ns, about 66 us.
const SHIFT: u32 = 16;

/// Counts of a drive at an instant, since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub host_bytes: u64,
    pub media_bytes: u64,
    pub collections: u64,
    /// None where the translation layer has none.
    pub free_blocks: Option<u64>,
    /// Likewise.
    pub occupancy: Option<Occupancy>,
    /// Bytes that lie in the SLC cache; none where there is none.
    pub cached_bytes: Option<u64>,
    /// See [`super::Temperature`].
    pub ages: Ages,
    /// Blocks that were erased, each as often as it was.
    pub erases: u64,
    pub most_erased: u32,
}

/// The levels at the ends of a bounded number of steps of equal length.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    shift: u32,
    ends: Vec<Level>,
}

impl Course {
    /// Starts with a drive that was not used yet.
    pub fn new() -> Self {
        Self { shift: SHIFT, ends: Vec::with_capacity(2 * STEPS) }
    }

    /// Returns whether a step has ended by `now`, so that [`Self::pass`] is due.
    #[inline]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >> self.shift > self.ends.len() as u64
    }

    /// Ends the steps before that of `now`: nothing has changed since `level`.
    pub fn pass(&mut self, now: Nanos, level: Level) {
        while now >> self.shift >= 2 * STEPS as u64 {
            // An end without its neighbour's is not one of the longer steps'.
            let longer = self.ends.len() / 2;
            for step in 0..longer {
                self.ends[step] = self.ends[2 * step + 1];
            }
            self.ends.truncate(longer);
            self.shift += 1;
        }
        let ended = place(now >> self.shift);
        self.ends.resize(ended.max(self.ends.len()), level);
    }

    /// Returns the steps up to `now`, when the counts are `level`.
    pub fn steps(
        &self,
        now: Nanos,
        level: Level,
        temperature: &Temperature,
        blocks: u64,
    ) -> FlashCourse {
        let mut whole = self.clone();
        whole.pass(now, level);
        whole.ends.push(level);
        let befores = [Level::default()].into_iter().chain(whole.ends.iter().copied());
        let differences = |count: fn(&Level) -> u64| {
            let pairs = befores.clone().zip(&whole.ends);
            pairs.map(|(before, end)| count(end).saturating_sub(count(&before))).collect()
        };
        let occupied = || whole.ends.iter().filter_map(|level| level.occupancy);
        FlashCourse {
            step: 1 << whole.shift,
            host_bytes: differences(|level| level.host_bytes),
            media_bytes: differences(|level| level.media_bytes),
            collections: differences(|level| level.collections),
            free_blocks: whole.ends.iter().filter_map(|level| level.free_blocks).collect(),
            valid_bytes: occupied().map(|occupancy| occupancy.valid_bytes).collect(),
            usable_bytes: occupied().map(|occupancy| occupancy.usable_bytes).collect(),
            cached_bytes: whole.ends.iter().filter_map(|level| level.cached_bytes).collect(),
            data_ages: temperature.course(whole.ends.iter().map(|level| level.ages)),
            mean_erases: whole
                .ends
                .iter()
                .map(|level| thousandths(level.erases as f64 / blocks.max(1) as f64))
                .collect(),
            most_erases: whole.ends.iter().map(|level| level.most_erased).collect(),
        }
    }
}

/// Rounds to thousandths: a value written as text reads back equal.
fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the events themselves.
        #[test]
        fn steps_have_what_happens_in_them(
            raw in prop::collection::vec((0u64..1 << 24, 0u64..1000), 1..200),
        ) {
            let (mut course, mut level, mut now) = (Course::new(), Level::default(), 0);
            let mut events = Vec::new();
            for (later, bytes) in raw {
                now += later;
                if course.is_due(now) {
                    course.pass(now, level);
                }
                level.host_bytes += bytes;
                level.free_blocks = Some(bytes);
                events.push((now, bytes));
            }
            let steps = course.steps(now, level, &Temperature::new(0, 1), 1);
            prop_assert!(steps.host_bytes.len() <= 2 * STEPS);
            prop_assert_eq!(steps.host_bytes.len() as u64, now / steps.step + 1);
            for (number, bytes) in steps.host_bytes.iter().enumerate() {
                let here = |event: &&(u64, u64)| event.0 / steps.step == number as u64;
                let expected: u64 = events.iter().filter(here).map(|event| event.1).sum();
                prop_assert_eq!(*bytes, expected);
            }
            prop_assert_eq!(steps.free_blocks.last().copied(), level.free_blocks);
        }
    }
}
