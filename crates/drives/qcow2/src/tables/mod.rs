//! An image's tables as they are to be, held back until they can be written in
//! an order in which the image is sound at every instant.
//!
//! Changes stay here. [`Tables::plan`] turns them into groups of writes. Between two groups there is
//! order: a flush or a barrier.

mod allocation;
mod clusters;
mod loading;
mod log;
mod roles;
#[cfg(test)]
mod tests;
mod write_order;

pub(crate) use clusters::Look;
pub(crate) use write_order::UpdatePlan;

use std::collections::BTreeMap;
use std::ops::Range;

use stasis_qcow2_format::entries::Shape;
use stasis_qcow2_format::Compression;

use crate::header::be64;
use crate::{layout, refcounts, Header};

/// Size of the pages in which changes of a table are written: the unit that drives write at once
/// (bytes).
const PAGE: usize = 4096;

/// A cluster with a table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Content to be written.
    now: Vec<u8>,
    /// Content at the drive below, once it has done the operations submitted to it; `None` where
    /// that is unknown, or nothing that matters.
    below: Option<Vec<u8>>,
    /// For a refcount block: the content by which clusters count as used, whether or not the drive
    /// below has it.
    counted: Option<Vec<u8>>,
    dirty: bool,
    /// True if the drive below may have anything of it: all is written again.
    unsure: bool,
    /// True if it waits for the image to be closed.
    late: bool,
    /// Content that survives when the program is killed, if it was changed.
    logged: Option<Vec<u8>>,
    /// True if it was changed since then.
    unlogged: bool,
}

/// The tables of an image.
#[derive(Debug)]
pub(crate) struct Tables {
    cluster_bits: u32,
    shape: Shape,
    compression: Compression,
    order: u32,
    lazy: bool,
    clusters: BTreeMap<u64, Table>,
    dirty_bytes: u64,
    /// The file: its number from the top of the chain.
    file: usize,
    /// Clusters that the file can have.
    limit: u64,
    /// No cluster before this one is free.
    first_free: u64,
    /// The tables that were changed since they were logged, where they are.
    unlogged: Option<Vec<u64>>,
}

/// A write of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
}

/// Places of the tables that the header names.
struct Pointers {
    reftable: Range<u64>,
    l1: Range<u64>,
}

impl Table {
    fn new(now: Vec<u8>) -> Self {
        Self {
            now,
            below: None,
            counted: None,
            dirty: false,
            unsure: false,
            late: false,
            logged: None,
            unlogged: false,
        }
    }
}

impl Tables {
    /// Makes those of the file with this number, of at most `room` bytes.
    pub(crate) fn new(header: &Header, file: usize, room: u64) -> Self {
        Self {
            file,
            cluster_bits: header.cluster_bits,
            shape: header.shape(),
            compression: header.compression,
            order: header.refcount_order,
            lazy: header.lazy_refcounts(),
            clusters: BTreeMap::new(),
            dirty_bytes: 0,
            limit: room >> header.cluster_bits,
            first_free: 0,
            unlogged: None,
        }
    }

    /// Compression of the file's compressed clusters.
    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    pub(crate) fn size(&self) -> usize {
        1 << self.cluster_bits
    }

    /// Returns whether the table at `offset` is known.
    pub(crate) fn is_known(&self, offset: u64) -> bool {
        self.clusters.contains_key(&(offset >> self.cluster_bits))
    }

    /// Bytes that wait to be written.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Changes the table in `cluster`; one that is not known begins with zeroes.
    fn change(&mut self, cluster: u64, change: impl FnOnce(&mut [u8])) {
        let size = self.size();
        let mut fresh = false;
        let table = self.clusters.entry(cluster).or_insert_with(|| {
            fresh = true;
            Table::new(vec![0; size])
        });
        if let Some(list) = &mut self.unlogged {
            if !std::mem::replace(&mut table.unlogged, true) {
                list.push(cluster);
            }
            // The content before the first change is in the file.
            if table.logged.is_none() && !fresh {
                table.logged = Some(table.now.clone());
            }
        }
        change(&mut table.now);
        if !table.dirty {
            table.dirty = true;
            self.dirty_bytes += size as u64;
        }
    }

    /// Changes a part of the header; `None` if there is none.
    fn change_header<Part>(
        &mut self,
        part: fn(&mut [u8]) -> Option<&mut Part>,
        change: impl FnOnce(&mut Part),
    ) -> Option<()> {
        let mut changed = None;
        if self.clusters.contains_key(&0) {
            self.change(0, |file| changed = part(file).map(change));
        }
        changed
    }

    /// Sets the disk's size in the header to `size` bytes; `false` if there is no header.
    pub(crate) fn set_size(&mut self, size: u64) -> bool {
        self.change_header(layout::header_mut, |header| header.size = size.into()).is_some()
    }

    /// Clears the features that only hold while every program that writes knows them.
    pub(crate) fn clear_features(&mut self) {
        let version3 = layout::version3(self.header(true));
        if version3.is_some_and(|version3| version3.autoclear.get() != 0) {
            self.change_header(layout::version3_mut, |version3| version3.autoclear = 0.into());
        }
    }

    /// The first bytes of the file, as they are to be or at the drive below.
    fn header(&self, now: bool) -> &[u8] {
        let table = self.clusters.get(&0);
        table.and_then(|t| if now { Some(&t.now) } else { t.below.as_ref() }).map_or(&[], |t| t)
    }

    /// The entry of a table at `place`; 0 where the table is not known.
    fn entry(&self, place: u64, now: bool) -> u64 {
        let table = self.clusters.get(&(place >> self.cluster_bits));
        let bytes = table.and_then(|t| if now { Some(&t.now) } else { t.below.as_ref() });
        bytes.map_or(0, |bytes| be64(bytes, place as usize & (self.size() - 1)))
    }

    fn set_entry(&mut self, place: u64, value: u64) {
        let within = place as usize & (self.size() - 1);
        self.change(place >> self.cluster_bits, |bytes| {
            bytes[within..within + 8].copy_from_slice(&value.to_be_bytes());
        });
    }

    fn pointers(&self, now: bool) -> Pointers {
        let header = layout::header(self.header(now)).copied().unwrap_or_default();
        let clusters = |offset: u64, bytes: u64| {
            let first = offset >> self.cluster_bits;
            first..first + bytes.div_ceil(self.size() as u64)
        };
        let reftable = u64::from(header.reftable_clusters.get()) << self.cluster_bits;
        Pointers {
            reftable: clusters(header.reftable_offset.get(), reftable),
            l1: clusters(header.l1_offset.get(), 8 * u64::from(header.l1_entries.get())),
        }
    }

    /// Clusters that a refcount block describes.
    fn in_block(&self) -> u64 {
        (self.size() as u64 * 8) >> self.order
    }

    /// The cluster of the refcount block that describes `cluster`, and which
    /// entry.
    fn block_of(&self, cluster: u64, now: bool) -> Option<(u64, u64)> {
        let in_block = self.in_block();
        let pointers = self.pointers(now);
        let index = cluster / in_block;
        let place = (pointers.reftable.start << self.cluster_bits) + 8 * index;
        if place >> self.cluster_bits >= pointers.reftable.end {
            return None;
        }
        let block = self.entry(place, now) & !0x1ff;
        (block != 0).then_some((block >> self.cluster_bits, cluster % in_block))
    }

    /// Returns whether a cluster was used when the tables were last written.
    pub(crate) fn is_used(&self, cluster: u64) -> bool {
        self.block_of(cluster, false).is_some_and(|(block, entry)| {
            let counted = self.clusters.get(&block).and_then(|table| table.counted.as_ref());
            counted.is_some_and(|bytes| refcounts::get(bytes, self.order, entry) > 0)
        })
    }
}

/// The pages in which `now` differs from `below`; all without `below`.
fn changes(start: u64, below: Option<&[u8]>, now: &[u8], writes: &mut Vec<Write>) {
    let page = PAGE.min(now.len());
    let differs = |at: usize| below.is_none_or(|below| below[at..at + page] != now[at..at + page]);
    let mut at = 0;
    while at < now.len() {
        if !differs(at) {
            at += page;
            continue;
        }
        let from = at;
        while at < now.len() && differs(at) {
            at += page;
        }
        writes.push(Write { offset: start + from as u64, data: now[from..at].to_vec() });
    }
}
