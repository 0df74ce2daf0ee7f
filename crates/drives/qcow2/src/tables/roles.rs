//! Roles of the clusters that hold tables.

use std::ops::Range;

use super::{Pointers, Tables};
use crate::header::be64;

/// The role of a cluster with a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Header,
    Reftable,
    RefBlock,
    L1,
    L2,
}

impl Tables {
    /// The role of `cluster`; `blocks`: the refcount blocks, sorted.
    pub(super) fn role(&self, cluster: u64, pointers: &[Pointers; 2], blocks: &[u64]) -> Role {
        let within = |range: fn(&Pointers) -> &Range<u64>| {
            pointers.iter().any(|pointers| range(pointers).contains(&cluster))
        };
        match cluster {
            0 => Role::Header,
            _ if within(|pointers| &pointers.reftable) => Role::Reftable,
            _ if blocks.binary_search(&cluster).is_ok() => Role::RefBlock,
            _ if within(|pointers| &pointers.l1) => Role::L1,
            _ => Role::L2,
        }
    }

    /// The refcount blocks' clusters, sorted.
    pub(super) fn blocks(&self, pointers: &Pointers) -> Vec<u64> {
        let tables = pointers.reftable.clone().filter_map(|cluster| self.clusters.get(&cluster));
        let entries = tables.flat_map(|table| table.now.chunks_exact(8));
        let entries = entries.map(|entry| be64(entry, 0) >> self.cluster_bits);
        let mut blocks: Vec<_> = entries.filter(|&block| block != 0).collect();
        blocks.sort_unstable();
        blocks
    }
}
