//! Clusters of an image's file: which are free, and who takes them.

use stasis_qcow2_format::entries::Cluster;

use super::Tables;
use crate::refcounts;

impl Tables {
    /// Uses of a cluster, as the tables are to be; `None` where no block counts them. A block that
    /// is not known, in an image that contradicts itself, has no free cluster.
    pub(super) fn refcount(&self, cluster: u64) -> Option<u64> {
        let (block, entry) = self.block_of(cluster, true)?;
        let table = self.clusters.get(&block);
        Some(table.map_or(1, |table| refcounts::get(&table.now, self.order, entry)))
    }

    fn set_refcount(&mut self, cluster: u64, uses: u64) {
        let order = self.order;
        if let Some((block, entry)) = self.block_of(cluster, true) {
            self.change(block, |bytes| refcounts::set(bytes, order, entry, uses));
        }
    }

    /// Returns whether a cluster is free as the tables are to be.
    pub(crate) fn is_free(&self, cluster: u64) -> bool {
        self.refcount(cluster).is_none_or(|uses| uses == 0)
    }

    /// Returns whether a cluster can be taken: it is free, and nothing at the drive below can point
    /// to it any more.
    fn is_open(&self, cluster: u64) -> bool {
        self.is_free(cluster) && !self.is_used(cluster)
    }

    /// Takes the first `count` free clusters one behind the other; `None` if there is no room.
    pub(crate) fn take(&mut self, count: u64) -> Option<u64> {
        let mut start = self.first_free;
        let mut freed = None;
        loop {
            let wanted = start..start.checked_add(count).filter(|end| *end <= self.limit)?;
            for cluster in wanted.clone() {
                self.add_block(cluster)?;
            }
            let used = wanted.clone().rev().find(|&cluster| !self.is_open(cluster));
            let Some(used) = used else {
                wanted.clone().for_each(|cluster| self.set_refcount(cluster, 1));
                if count == 1 {
                    self.first_free = freed.unwrap_or(wanted.end);
                }
                return Some(start);
            };
            freed = freed.or(self.is_free(used).then_some(used));
            start = used + 1;
        }
    }

    /// Takes this cluster; `false` if it is used, or there is no room.
    pub(crate) fn take_at(&mut self, cluster: u64) -> bool {
        let taken =
            cluster < self.limit && self.add_block(cluster).is_some() && self.is_open(cluster);
        if taken {
            self.set_refcount(cluster, 1);
        }
        taken
    }

    /// Ensures that a block counts the uses of `cluster`; `None` if there is no room for one.
    fn add_block(&mut self, cluster: u64) -> Option<()> {
        if self.refcount(cluster).is_some() {
            return Some(());
        }
        let index = cluster / self.in_block();
        let first = index * self.in_block();
        let place = (self.first_free..first)
            .find(|&cluster| self.refcount(cluster) == Some(0) && !self.is_used(cluster));
        // One that finds no place among the others counts itself.
        let place = place.unwrap_or(first);
        let table = self.pointers(true).reftable;
        let entry = (table.start << self.cluster_bits) + 8 * index;
        if entry >> self.cluster_bits >= table.end {
            return None;
        }
        self.change(place, |block| block.fill(0));
        self.set_entry(entry, place << self.cluster_bits);
        self.set_refcount(place, 1);
        Some(())
    }

    /// Gives back one use of each of `count` clusters.
    pub(crate) fn free(&mut self, cluster: u64, count: u64) {
        self.first_free = self.first_free.min(cluster);
        for cluster in cluster..cluster + count {
            if let Some(uses @ 1..) = self.refcount(cluster) {
                self.set_refcount(cluster, uses - 1);
            }
        }
    }

    /// Gives back what an L2 entry pointed to.
    pub(super) fn release(&mut self, entry: u64) {
        let (at, length) = match Cluster::new(entry, self.cluster_bits) {
            Cluster::Data { at, .. } | Cluster::Zero { at, .. } if at != 0 => (at, 1),
            Cluster::Packed { at, length } => (at, length),
            _ => return,
        };
        let (first, last) = (at >> self.cluster_bits, (at + length - 1) >> self.cluster_bits);
        self.free(first, last + 1 - first);
    }
}
