//! The wear of each block, in four bytes.

use stasis_block::clock::{Nanos, SECOND};

/// Bits of the number of erases; above them the hour of the last, plus one.
const ERASES_BITS: u32 = 20;
const MAX_ERASES: u32 = (1 << ERASES_BITS) - 1;
const HOUR: Nanos = 3_600 * SECOND;

/// Number of times that each block was erased, and when last. Untouched blocks cost address space
/// only.
#[derive(Debug)]
pub(super) struct Wear(Vec<u32>);

impl Wear {
    pub fn new(blocks: u64) -> Self {
        Self(vec![0; blocks as usize])
    }

    /// Returns the number of times that a block was erased, and when last: to the hour, after which
    /// its data was written; `None` if not since the run began.
    pub fn get(&self, block: u64) -> (u32, Option<Nanos>) {
        let packed = self.0[block as usize];
        let hour = packed >> ERASES_BITS;
        let since = hour.checked_sub(1).map(|hour| u64::from(hour) * HOUR);
        (packed & MAX_ERASES, since)
    }

    pub fn erased(&mut self, block: u64, now: Nanos) {
        let packed = &mut self.0[block as usize];
        let erases = ((*packed & MAX_ERASES) + 1).min(MAX_ERASES);
        let hour = (now / HOUR + 1).min(u64::from(u32::MAX >> ERASES_BITS)) as u32;
        *packed = (hour << ERASES_BITS) | erases;
    }

    /// The erases of all blocks, and when the last of each was, in one number for each.
    pub fn packed(&self) -> &[u32] {
        &self.0
    }

    /// Restores the numbers that [`Self::packed`] has returned.
    pub fn restore(&mut self, packed: Vec<u32>) {
        if packed.len() == self.0.len() {
            self.0 = packed;
        }
    }

    /// Leaves the time of the last erase as it is.
    pub fn set(&mut self, block: u64, erases: u32) {
        let packed = &mut self.0[block as usize];
        *packed = (*packed & !MAX_ERASES) | erases.min(MAX_ERASES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erases_and_hours_do_not_mix_and_saturate() {
        let mut wear = Wear::new(3);
        assert_eq!(wear.get(1), (0, None));
        wear.erased(1, 2 * HOUR + 5);
        assert_eq!(wear.get(1), (1, Some(2 * HOUR)));
        wear.set(1, u32::MAX);
        wear.erased(1, Nanos::MAX);
        assert_eq!(wear.get(1), (MAX_ERASES, Some(4094 * HOUR)));
        wear.set(1, 7);
        assert_eq!(wear.get(1), (7, Some(4094 * HOUR)));
        assert_eq!((wear.get(0), wear.get(2)), ((0, None), (0, None)));
    }
}
