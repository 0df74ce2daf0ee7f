//! Blocks that can be given up, and the wear of all: the figures of the SMART log.

use stasis_block::Health;

use crate::ftl::Context;
use crate::narrow::percentage;

/// Counts of blocks given up and of erases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spares {
    spare: u64,
    retired: u64,
    erases: u64,
    endurance: u32,
}

impl Spares {
    /// `spare` blocks can be given up; each can be erased `endurance` times.
    pub fn new(spare: u64, endurance: u32) -> Self {
        Self { spare, retired: 0, erases: 0, endurance }
    }

    /// A block is given up.
    pub fn retired(&mut self) {
        self.retired += 1;
    }

    /// A block was erased.
    pub fn erased(&mut self) {
        self.erases += 1;
    }

    /// Blocks that can be given up in all.
    pub fn spare(&self) -> u64 {
        self.spare
    }

    /// Blocks that were given up.
    pub fn given_up(&self) -> u64 {
        self.retired
    }

    /// Blocks that can still be given up.
    pub fn left(&self) -> u64 {
        self.spare.saturating_sub(self.retired)
    }

    /// Returns whether more blocks were given up than can be: the drive is read-only.
    pub fn overdrawn(&self) -> bool {
        self.retired > self.spare
    }

    /// Erases of all blocks.
    pub fn erases(&self) -> u64 {
        self.erases
    }

    /// Restores the number of blocks that were given up, and of erases.
    pub fn restore(&mut self, retired: u64, erases: u64) {
        (self.retired, self.erases) = (retired, erases);
    }

    /// The health of a drive of `blocks` blocks.
    pub fn health(&self, blocks: u32, read_only: bool, context: &Context) -> Health {
        let available = (self.left() * 100).checked_div(self.spare).unwrap_or(0);
        let used = self.erases * 100 / (u64::from(self.endurance) * u64::from(blocks));
        Health {
            available_spare: if self.spare == 0 { 100 } else { percentage(available) },
            percentage_used: percentage(used),
            media_bytes_written: context.media_bytes(),
            media_bytes_erased: context.erased_bytes(),
            read_only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_is_overdrawn_after_its_last_spare() {
        let mut spares = Spares::new(2, 100);
        for expected in [1, 0] {
            spares.retired();
            assert_eq!((spares.left(), spares.overdrawn()), (expected, false));
        }
        spares.retired();
        assert_eq!((spares.left(), spares.given_up(), spares.overdrawn()), (0, 3, true));
    }
}
