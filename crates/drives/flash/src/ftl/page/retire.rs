//! Blocks that are given up, and the effects on the drive.

use super::blocks::State;
use super::{Context, PageFtl};
use crate::buffer::NONE;
use stasis_block::Health;

impl PageFtl {
    /// A program failed in an open block: no more go there.
    pub(super) fn give_up(&mut self, block: u32) {
        self.blocks.blocks[block as usize].state = State::Bad;
        let plane = self.shape.plane_of(block);
        let open = (plane * self.streams) as usize;
        for stream in &mut self.open[open..open + self.streams as usize] {
            if *stream == block {
                *stream = NONE;
            }
        }
        let collector = &mut self.collectors[plane as usize];
        if collector.open == block {
            collector.open = NONE;
        }
    }

    /// A block that holds nothing is given up for good.
    pub(in crate::ftl) fn retire(&mut self, block: u32) {
        self.blocks.retire(block);
        self.retired += 1;
        self.read_only |= self.retired > self.spare;
    }

    pub(super) fn state_of_health(&self, context: &Context) -> Health {
        let left = self.spare.saturating_sub(self.retired) * 100;
        let available = left.checked_div(self.spare).unwrap_or(0);
        let used = self.erases * 100 / (u64::from(self.endurance) * u64::from(self.shape.blocks()));
        Health {
            available_spare: if self.spare == 0 { 100 } else { available as u8 },
            percentage_used: used.min(255) as u8,
            media_bytes_written: context.media_bytes(),
            media_bytes_erased: context.erased_bytes(),
            read_only: self.read_only,
        }
    }
}
