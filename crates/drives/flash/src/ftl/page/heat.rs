//! Which units are written often: counters that units share by hashes, and that
//! are halved now and then (Hsieh, Kuo and Chang, ACM Transactions on Storage
//! 2006), in memory that does not grow with the drive.

use crate::narrow::remainder;
use stasis_nand::hash::bits;

/// Counters, a power of two.
const COUNTERS: u32 = 1 << 16;
/// Counters that each unit has.
const HASHES: u64 = 2;
/// A unit whose counters are all at least that is hot.
const HOT: u8 = 4;

#[derive(Debug)]
pub(super) struct Heat {
    counters: Vec<u8>,
    // Writes until the counters are halved.
    until_halved: u32,
}

impl Heat {
    pub fn new() -> Self {
        Self { counters: vec![0; COUNTERS as usize], until_halved: COUNTERS }
    }

    /// Counts a write of a unit; returns whether it is hot.
    pub fn write(&mut self, unit: u32) -> bool {
        self.until_halved -= 1;
        if self.until_halved == 0 {
            self.until_halved = COUNTERS;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
        let mut hot = true;
        for hash in 0..HASHES {
            let at = remainder(bits(hash, u64::from(unit)), COUNTERS);
            let counter = &mut self.counters[at as usize];
            *counter = counter.saturating_add(1);
            hot &= *counter >= HOT;
        }
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_often_is_hot_until_it_no_longer_is() {
        let mut heat = Heat::new();
        let (mut hot, mut cold) = (0, 0);
        // Each of ten units in every hundred writes, the rest all over.
        for write in 0..200_000u32 {
            if write % 10 == 0 {
                hot += u32::from(heat.write(write / 10 % 10));
            } else {
                cold += u32::from(heat.write(1_000 + write));
            }
        }
        assert!(hot > 19_000, "{hot} of 20000");
        assert!(cold < 18_000, "{cold} of 180000");
        // Ten halvings of nothing but others.
        (0..COUNTERS * 10).for_each(|write| {
            heat.write(1_000_000 + write % 1_000);
        });
        assert!(!heat.write(3));
    }
}
