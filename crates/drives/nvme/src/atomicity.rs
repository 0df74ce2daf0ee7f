//! Atomic writes, as a namespace tells of them (NVM Command Set 1.0 section 2.1.4): from the unit that
//! a power cut does not tear.
//!
//! The drive's units lie side by side from its first byte on. A namespace therefore tells the unit as
//! its size and as its boundary; the controller's own fields (AWUN, AWUPF, ACWU), which know no
//! boundary, promise one logical block.

use stasis_block::{CacheKind, PowerLoss, SECTOR};

use crate::config::Namespace;

/// Units that a power cut does not tear, until a drive's model says otherwise (bytes).
pub const DEFAULT_UNIT: u64 = SECTOR;
/// Maximum that a namespace can tell of (bytes): a field of 16 bits, in blocks of 512 bytes.
const MAX_UNIT: u64 = 512 << 16;

/// Atomic writes of a namespace, in its logical blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Atomicity {
    /// Blocks of a unit: a write within one takes place as a whole or not at all.
    pub unit: u64,
    /// The first block that begins a unit.
    pub offset: u64,
}

impl Atomicity {
    /// Returns the atomicity of a namespace of a drive with units of `unit` bytes; `None` if the
    /// drive promises single blocks only.
    pub fn of(namespace: &Namespace, unit: u64) -> Option<Self> {
        // Addresses of chunks have holes.
        if namespace.ocssd.is_some() {
            return None;
        }
        let block = u64::from(namespace.block_size);
        if namespace.metadata.is_some() {
            // Its units begin with it (`stasis_block::AtomicUnits`).
            let unit = PowerLoss::new(CacheKind::default(), unit).for_blocks(block).atomic_unit;
            let is_promised = unit > block && unit <= MAX_UNIT;
            return is_promised.then_some(Self { unit: unit / block, offset: 0 });
        }
        let unit = PowerLoss::new(CacheKind::default(), unit).for_blocks(block).atomic_unit;
        let offset = (unit - namespace.start % unit) % unit;
        let is_promised = unit > block
            && unit <= MAX_UNIT
            && unit.is_multiple_of(block)
            && offset.is_multiple_of(block);
        is_promised.then_some(Self { unit: unit / block, offset: offset / block })
    }

    /// Returns whether blocks, at least one, lie within one unit.
    pub fn holds(self, lba: u64, blocks: u64) -> bool {
        // The part before the first whole unit counts as one.
        let unit_of = |lba: u64| lba.saturating_add(self.unit - self.offset) / self.unit;
        unit_of(lba) == unit_of(lba.saturating_add(blocks.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_in_blocks_from_where_they_begin() {
        let promised = |start, block, unit| {
            let namespace = Namespace { start, ..Namespace::new(1000, block) };
            Atomicity::of(&namespace, unit).map(|atomicity| (atomicity.unit, atomicity.offset))
        };
        assert_eq!(promised(0, 512, 512), None, "a block is what every drive promises");
        assert_eq!(promised(0, 4096, 4096), None);
        assert_eq!(promised(0, 4096, 512), None);
        assert_eq!(promised(0, 512, 4096), Some((8, 0)));
        assert_eq!(promised(4096, 512, 16384), Some((32, 24)));
        assert_eq!(promised(4096, 4096, 16384), Some((4, 3)));
        assert_eq!(promised(1024, 4096, 16384), None, "no block begins a unit");
        assert_eq!(promised(0, 512, 1 << 30), None, "more than the field holds");
        assert_eq!(promised(0, 4096, 6144), Some((3, 0)), "units of whole blocks");
        let metadata = Some(crate::Metadata::new(8));
        let namespace = Namespace { start: 512, metadata, ..Namespace::new(1000, 4096) };
        assert_eq!(Atomicity::of(&namespace, 16384), Some(Atomicity { unit: 4, offset: 0 }));
        assert_eq!(Atomicity::of(&namespace, 4096), None);
        let atomicity = Atomicity { unit: 4, offset: 3 };
        let held: Vec<_> = (0..8).filter(|&lba| atomicity.holds(lba, 2)).collect();
        assert_eq!(held, [0, 1, 3, 4, 5, 7]);
        assert!(atomicity.holds(3, 4) && !atomicity.holds(3, 5) && !atomicity.holds(2, 2));
    }
}
