//! The state that a drive begins in.

use stasis_nand::hash::bits;

use super::map::Sequence;
use super::PageFtl;
use crate::precondition::{choose, fixed_point, plane_shares, valid_counts, Order};

impl PageFtl {
    /// Everything was written once, in order: block by block, whatever the
    /// drive's size.
    pub(super) fn begin_sequential(&mut self) {
        let sequence = Sequence::new(self.shape, &self.order);
        let (pages, planes) = (sequence.pages(), self.shape.planes);
        self.map.begin(sequence);
        // The last page may be a part only.
        let last_units = self.shape.units - pages.saturating_sub(1) * self.shape.slots;
        for (place, plane) in (0..).zip(self.order.clone()) {
            let mut left = pages.saturating_sub(place).div_ceil(planes);
            let last = pages > 0 && place == (pages - 1) % planes;
            while left > 0 {
                let Some(block) = self.blocks.open(plane) else { break };
                let filled = left.min(self.shape.geometry.pages);
                left -= filled;
                let short = if last && left == 0 { self.shape.slots - last_units } else { 0 };
                self.blocks.add_valid(block, filled * self.shape.slots - short);
                let entry = &mut self.blocks.blocks[block as usize];
                (entry.next, entry.ended) = (filled, filled);
                if filled == self.shape.geometry.pages {
                    self.blocks.fill(block);
                } else {
                    self.open[(plane * self.streams) as usize] = block;
                }
            }
        }
        self.turn = (pages % planes) as usize;
    }

    /// The units of a layer's map were written, too.
    pub(super) fn begin_map(&mut self) {
        let (first, slots) = (self.shape.units, self.shape.slots);
        let end = first + self.map_units;
        for start in (first..end).step_by(slots as usize) {
            let plane = self.order[self.turn];
            self.turn = (self.turn + 1) % self.order.len();
            self.put_page(plane, self.host_streams, start..(start + slots).min(end));
        }
    }

    /// Blocks of each plane that these take.
    fn map_blocks(&self) -> u32 {
        self.map_units.div_ceil(self.shape.planes * self.shape.block_slots)
    }

    /// Puts units into the next page of a plane's stream.
    fn put_page(&mut self, plane: u32, stream: u32, units: impl Iterator<Item = u32>) {
        let open = (plane * self.streams + stream) as usize;
        if self.open[open] == crate::buffer::NONE {
            let Some(block) = self.blocks.open(plane) else { return };
            self.open[open] = block;
        }
        let block = self.open[open];
        let page = self.next_page(block);
        for (slot, unit) in (self.shape.slot(block, page)..).zip(units) {
            self.map.set(unit, slot);
            self.blocks.add_valid(block, 1);
        }
        self.blocks.blocks[block as usize].ended += 1;
        if page + 1 == self.shape.geometry.pages {
            self.blocks.fill(block);
            self.open[open] = crate::buffer::NONE;
        }
    }

    /// Begins as after uniformly random writes until nothing changes on average.
    pub(super) fn begin_steady(&mut self) {
        let geometry = self.shape.geometry;
        let slots = self.shape.block_slots;
        // Free blocks when no collection is under way; one open for the host and
        // one for moved units.
        let full = geometry.blocks - self.gc.foreground - 2 - self.map_blocks();
        let order = Order::new(self.shape.units, self.seed);
        let most = u64::from(full) * u64::from(slots);
        let units = u64::from(self.shape.units);
        let shares = plane_shares(units, self.shape.planes, most, self.seed);
        let choices = (self.gc.policy == "d-choices").then_some(self.gc.choices);
        let used = units as f64 / (most as f64 * f64::from(self.shape.planes));
        let distribution = fixed_point(slots, choices, used.min(1.0));
        let mut place = 0;
        for (plane, share) in (0..).zip(shares) {
            let mut left = share;
            let draw = |what| bits(self.seed ^ what, u64::from(plane));
            // Blocks that are being filled are filled to any height.
            let heights = [draw(1), draw(2)].map(|draw| {
                (draw % u64::from(geometry.pages)).min(left / 4 / u64::from(self.shape.slots))
            });
            let heights = heights.map(|pages| pages * u64::from(self.shape.slots));
            left -= heights.iter().sum::<u64>();
            for valid in valid_counts(&distribution, full, left) {
                let Some(block) = self.blocks.open(plane) else { return };
                let first = self.shape.slot(block, 0);
                for slot in choose(slots, valid, self.seed ^ (u64::from(block) << 20)) {
                    self.map.set(order.at(place), first + slot);
                    place += 1;
                }
                self.blocks.add_valid(block, valid);
                let entry = &mut self.blocks.blocks[block as usize];
                (entry.next, entry.ended) = (geometry.pages, geometry.pages);
                self.blocks.fill(block);
            }
            for (filled, host) in heights.into_iter().zip([true, false]) {
                let Some(block) = self.blocks.open(plane) else { return };
                let first = self.shape.slot(block, 0);
                for slot in 0..filled as u32 {
                    self.map.set(order.at(place), first + slot);
                    self.blocks.add_valid(block, 1);
                    place += 1;
                }
                let pages = filled as u32 / self.shape.slots;
                let entry = &mut self.blocks.blocks[block as usize];
                (entry.next, entry.ended) = (pages, pages);
                if host {
                    self.open[(plane * self.streams) as usize] = block;
                } else {
                    self.collectors[plane as usize].open = block;
                }
            }
        }
    }
}
