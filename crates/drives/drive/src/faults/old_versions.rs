//! The contents of a drive's sectors before their last write.

use std::collections::BTreeMap;
use std::ops::Range;

use stasis_block::{Command, SECTOR};

/// Limit on the bytes of old versions. Of sectors that are first written beyond it there is none.
pub const MAX_OLD_BYTES: u64 = 64 << 20;

/// Old versions of sectors, by their numbers.
#[derive(Debug, Default)]
pub(super) struct OldVersions {
    sectors: BTreeMap<u64, Box<[u8]>>,
}

impl OldVersions {
    /// Keeps `data`, which a write overwrites from sector `first` on.
    pub fn keep(&mut self, first: u64, data: &[u8]) {
        for (sector, old) in (first..).zip(data.chunks_exact(SECTOR as usize)) {
            let full = self.sectors.len() as u64 * SECTOR >= MAX_OLD_BYTES;
            match self.sectors.get_mut(&sector) {
                Some(kept) => kept.copy_from_slice(old),
                None if full => {}
                None => drop(self.sectors.insert(sector, old.into())),
            }
        }
    }

    /// Forgets the old versions of these sectors.
    pub fn forget(&mut self, sectors: Range<u64>) {
        self.sectors.retain(|sector, _| !sectors.contains(sector));
    }

    /// Returns whether there is an old version of any sector that a command touches.
    pub fn has(&self, command: &Command) -> bool {
        self.sectors.range(sectors(command)).next().is_some()
    }

    /// Returns the old versions of the sectors that a read touches.
    pub fn of(&self, read: &Command) -> StaleSectors {
        let first = read.offset / SECTOR;
        let all = self.sectors.range(sectors(read));
        StaleSectors(all.map(|(sector, old)| (sector - first, old.clone())).collect())
    }
}

/// The sectors that a command touches.
fn sectors(command: &Command) -> Range<u64> {
    let first = command.offset / SECTOR;
    first..first + command.length / SECTOR
}

/// Old versions that a read returns, each with its place in the read, in sectors.
#[derive(Debug, Default)]
pub(super) struct StaleSectors(Vec<(u64, Box<[u8]>)>);

impl StaleSectors {
    /// Puts them in the place of what was read.
    pub fn put(&self, data: &mut [u8]) {
        for (at, old) in &self.0 {
            let start = (at * SECTOR) as usize;
            if let Some(bytes) = data.get_mut(start..start + old.len()) {
                bytes.copy_from_slice(old);
            }
        }
    }
}
