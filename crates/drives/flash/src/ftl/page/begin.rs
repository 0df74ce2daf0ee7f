//! The state that a drive begins in.

use stasis_nand::hash::bits;

use super::cleaner::Cleaner;
use super::frontier::Frontier;
use super::map::Sequence;
use super::placement::Placement;
use crate::ftl::Shape;
use crate::narrow::count;
use crate::precondition::{choose, fixed_point, plane_shares, valid_counts, Order};
use crate::spec::Spec;

/// Conditions of the beginning beside the drive's parts.
#[derive(Debug)]
pub(super) struct Beginning {
    shape: Shape,
    seed: u64,
    // Free blocks of a plane when no collection is under way.
    foreground: u32,
    // Blocks that the policy draws at random, if it does.
    choices: Option<u32>,
    // Units behind the host's, which hold a layer's map.
    map_units: u32,
}

impl Beginning {
    /// Makes the layer of a checked description.
    pub fn new(spec: &Spec, shape: Shape, map_units: u32, seed: u64) -> Self {
        let choices = (spec.gc.policy == "d-choices").then_some(spec.gc.choices);
        Self { shape, seed, foreground: spec.gc.foreground, choices, map_units }
    }

    /// Begins as if everything was written once, in order: block by block, whatever the
    /// drive's size.
    pub fn sequential(&self, frontier: &mut Frontier, placement: &mut Placement) {
        let sequence = Sequence::new(self.shape, frontier.order());
        let (pages, planes) = (sequence.pages(), self.shape.planes);
        placement.begin(sequence);
        // The last page may be a part only.
        let last_units = self.shape.units - pages.saturating_sub(1) * self.shape.slots;
        let blocks = placement.blocks_mut();
        for (place, plane) in (0..).zip(frontier.order().to_vec()) {
            let mut remaining = pages.saturating_sub(place).div_ceil(planes);
            let last = pages > 0 && place == (pages - 1) % planes;
            while remaining > 0 {
                let Some(block) = blocks.open(plane) else { break };
                let filled = remaining.min(self.shape.geometry.pages);
                remaining -= filled;
                let short = if last && remaining == 0 { self.shape.slots - last_units } else { 0 };
                blocks.add_valid(block, filled * self.shape.slots - short);
                if !blocks.begin(block, filled) {
                    frontier.resume(plane, 0, block);
                }
            }
        }
        frontier.resume_at(pages % planes);
    }

    /// The units of a layer's map were written, too.
    pub fn map(&self, frontier: &mut Frontier, placement: &mut Placement) {
        let (first, slots) = (self.shape.units, self.shape.slots);
        let end = first + self.map_units;
        // The last stream is the map's.
        let stream = frontier.streams() - 1;
        for start in (first..end).step_by(slots as usize) {
            frontier.put_page(stream, start..(start + slots).min(end), placement);
        }
    }

    /// Blocks of each plane that these take.
    fn map_blocks(&self) -> u32 {
        self.map_units.div_ceil(self.shape.planes * self.shape.block_slots)
    }

    /// Begins as after uniformly random writes until nothing changes on average.
    pub fn steady(
        &self,
        frontier: &mut Frontier,
        cleaner: &mut Cleaner,
        placement: &mut Placement,
    ) {
        let geometry = self.shape.geometry;
        let slots = self.shape.block_slots;
        // Free blocks when no collection is under way; one open for the host and
        // one for moved units.
        let fixed = self.shape.cache.map_or(0, |cache| cache.fixed);
        let full = geometry.blocks - fixed - self.foreground - 2 - self.map_blocks();
        let order = Order::new(self.shape.units, self.seed);
        let bad: Vec<u32> =
            (0..self.shape.planes).map(|plane| placement.blocks().bad_in(plane)).collect();
        let least = full - bad.iter().max().copied().unwrap_or(0);
        let most = u64::from(least) * u64::from(slots);
        let units = u64::from(self.shape.units);
        let shares = plane_shares(units, self.shape.planes, most, self.seed);
        let good: u64 = bad.iter().map(|&bad| u64::from(full - bad)).sum();
        let used = units as f64 / (good as f64 * f64::from(slots));
        let distribution = fixed_point(slots, self.choices, used.min(1.0));
        let mut place = 0;
        for (plane, share) in (0..).zip(shares) {
            let mut remaining = share;
            let draw = |stream| bits(self.seed ^ stream, u64::from(plane));
            // Blocks that are being filled are filled to any height.
            let heights = [draw(1), draw(2)].map(|draw| {
                (draw % u64::from(geometry.pages)).min(remaining / 4 / u64::from(self.shape.slots))
            });
            let heights = heights.map(|pages| pages * u64::from(self.shape.slots));
            remaining -= heights.iter().sum::<u64>();
            for valid in valid_counts(&distribution, full - bad[plane as usize], remaining) {
                let Some(block) = placement.blocks_mut().open(plane) else { return };
                let first = self.shape.slot(block, 0);
                for slot in choose(slots, valid, self.seed ^ (u64::from(block) << 20)) {
                    placement.preset(order.at(place), first + slot);
                    place += 1;
                }
                placement.blocks_mut().add_valid(block, valid);
                placement.blocks_mut().begin(block, geometry.pages);
            }
            for (filled, host) in heights.into_iter().zip([true, false]) {
                let Some(block) = placement.blocks_mut().open(plane) else { return };
                let first = self.shape.slot(block, 0);
                for slot in 0..count(filled) {
                    placement.preset(order.at(place), first + slot);
                    placement.blocks_mut().add_valid(block, 1);
                    place += 1;
                }
                placement.blocks_mut().begin(block, count(filled) / self.shape.slots);
                if host {
                    frontier.resume(plane, 0, block);
                } else {
                    cleaner.reopen(plane, block);
                }
            }
        }
    }
}
