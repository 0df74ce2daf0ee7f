//! Tables in memory: those that come from the drive below, and those that stay.

use super::roles::Role;
use super::{Table, Tables};

/// L2 tables that stay in memory unchanged, so that a page can be written where
/// a page changed (bytes).
const KEPT: usize = 32 << 20;

impl Tables {
    /// Takes over the content of a table from the drive below.
    pub(crate) fn load(&mut self, offset: u64, bytes: Vec<u8>) {
        if self.clusters.len() << self.cluster_bits > 2 * KEPT {
            self.forget();
        }
        let below = Some(bytes.clone());
        self.clusters
            .entry(offset >> self.cluster_bits)
            .or_insert_with(|| Table { below, ..Table::new(bytes) });
    }

    /// Takes over a refcount block.
    pub(crate) fn load_block(&mut self, offset: u64, bytes: Vec<u8>) {
        self.load(offset, bytes);
        if let Some(table) = self.clusters.get_mut(&(offset >> self.cluster_bits)) {
            table.counted = table.below.clone();
        }
    }

    /// Drops unchanged L2 tables beyond the limit on kept ones, and clusters that are no tables any
    /// more.
    pub(super) fn forget(&mut self) {
        let pointers = [self.pointers(true), self.pointers(false)];
        let blocks = self.blocks(&pointers[0]);
        let mut kept = 0;
        let l2: Vec<u64> = self
            .clusters
            .iter()
            .filter(|(cluster, t)| !t.dirty && self.role(**cluster, &pointers, &blocks) == Role::L2)
            .map(|(cluster, _)| *cluster)
            .collect();
        for cluster in l2 {
            kept += self.size();
            if kept > KEPT || self.is_free(cluster) {
                self.clusters.remove(&cluster);
            }
        }
    }
}
