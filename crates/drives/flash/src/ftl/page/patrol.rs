//! The order in which a drive that is scrubbed visits its blocks: round the planes, and in each from
//! one block to the next, at equal intervals.
//!
//! Invariant: each block is visited once in as many visits as there are blocks.

use stasis_block::clock::Nanos;
use stasis_nand::hash::mix;

use crate::ftl::Shape;
use crate::narrow::{count, remainder};
use crate::spec::ScrubSpec;

/// The visits; see the [module](self).
#[derive(Debug)]
pub(super) struct Patrol {
    planes: u32,
    blocks: u32,
    interval: Nanos,
    at: Nanos,
    // Visits so far.
    visits: u64,
    age: Option<Nanos>,
    step: Option<u8>,
}

impl Patrol {
    /// Makes the layer of a checked description.
    pub fn new(spec: &ScrubSpec, shape: &Shape) -> Self {
        let interval = (spec.period / u64::from(shape.blocks().max(1))).max(1);
        let (planes, blocks) = (shape.planes, shape.geometry.blocks);
        let ScrubSpec { age, step, .. } = *spec;
        Self { planes, blocks, interval, at: interval, visits: 0, age, step }
    }

    /// Returns the time of the next visit.
    pub fn at(&self) -> Nanos {
        self.at
    }

    /// Numbers of merges.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// The power comes at `now`, after so many visits.
    pub fn resume(&mut self, now: Nanos, visits: u64) {
        (self.at, self.visits) = (now.saturating_add(self.interval), visits);
    }

    /// The next visit: the plane and the block of it.
    pub fn visit(&mut self) -> (u32, u32) {
        let all = u64::from(self.planes) * u64::from(self.blocks);
        let place = count(self.visits % all);
        self.visits = self.visits.wrapping_add(1);
        self.at = self.at.saturating_add(self.interval);
        (place % self.planes, place / self.planes)
    }

    /// The page of so many that a visit reads: another one each time.
    pub fn page(&self, pages: u32) -> u32 {
        remainder(mix(self.visits), pages.max(1))
    }

    /// Returns whether data of an age (ns) is moved.
    pub fn is_old(&self, age: Nanos) -> bool {
        self.age.is_some_and(|limit| age >= limit)
    }

    /// Returns whether visits read.
    pub fn reads(&self) -> bool {
        self.step.is_some()
    }

    /// Returns whether a read that ended in a step, the first being 0, has the block moved.
    pub fn is_late(&self, step: u8) -> bool {
        self.step.is_some_and(|limit| step + 1 >= limit)
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::testing::drive;
    use super::*;
    use crate::spec::Spec;

    #[test]
    fn each_block_is_visited_once_in_a_period() {
        let (_, shape) = drive(Spec::default(), 3, 4, 256);
        let spec = ScrubSpec { period: 1_000_000_000, age: Some(5), step: Some(2) };
        let mut patrol = Patrol::new(&spec, &shape);
        for period in 1..3u64 {
            let visited: BTreeSet<_> = (0..shape.blocks()).map(|_| patrol.visit()).collect();
            assert_eq!(visited.len() as u32, shape.blocks());
            assert!(patrol.at().abs_diff(period * spec.period) < 2 * spec.period / 100);
        }
        assert!(patrol.is_old(5) && !patrol.is_old(4));
        assert!(patrol.is_late(1) && !patrol.is_late(0) && patrol.reads());
        patrol.resume(7, 1);
        assert_eq!((patrol.visit(), patrol.visits()), ((1, 0), 2));
    }
}
