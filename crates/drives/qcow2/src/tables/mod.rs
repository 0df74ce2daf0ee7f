//! An image's tables as they are to be, held back until they can be written in
//! an order in which the image is sound at every instant.
//!
//! The library that does the format's work writes tables at any time; its writes stay here.
//! [`Tables::plan`] turns the changes into groups of writes. Between two groups there is order: a
//! flush or a barrier.

mod log;
mod write_order;

pub(crate) use write_order::UpdatePlan;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::header::be64;
use crate::{layout, redo_log, refcounts};

/// Size of the pages in which changes of a table are written: the unit that drives write at once
/// (bytes).
const PAGE: usize = 4096;
/// L2 tables that stay in memory unchanged, so that a page can be written where
/// a page changed (bytes).
const KEPT: usize = 32 << 20;

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
#[derive(Debug, Default)]
pub(crate) struct Tables {
    cluster_bits: u32,
    order: u32,
    lazy: bool,
    clusters: BTreeMap<u64, Table>,
    dirty_bytes: u64,
    /// The disk's size that the header keeps, whatever size is written to it.
    held_size: Option<u64>,
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
    pub(crate) fn new(cluster_bits: u32, order: u32, lazy: bool) -> Self {
        Self { cluster_bits, order, lazy, ..Self::default() }
    }

    pub(crate) fn size(&self) -> usize {
        1 << self.cluster_bits
    }

    /// Takes over the content of a table from the drive below.
    pub(crate) fn load(&mut self, offset: u64, bytes: Vec<u8>) {
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

    /// Bytes that wait to be written.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Copies the known content of the cluster with `offset`, from there on, and returns the length
    /// copied; 0 where the content is not known.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let within = (offset & (self.size() as u64 - 1)) as usize;
        let length = into.len().min(self.size() - within);
        match self.clusters.get(&(offset >> self.cluster_bits)) {
            Some(table) => {
                into[..length].copy_from_slice(&table.now[within..within + length]);
                length
            }
            None => 0,
        }
    }

    /// Offset of the first table that a write changes in part, and that has to be loaded first.
    pub(crate) fn missing(&self, offset: u64, length: usize) -> Option<u64> {
        let pieces = self.pieces(offset, length);
        pieces.map(|(cluster, within)| (cluster, within.len())).find_map(|(cluster, length)| {
            let known = self.clusters.contains_key(&cluster);
            (!known && length < self.size() && self.is_used(cluster))
                .then_some(cluster << self.cluster_bits)
        })
    }

    fn pieces(&self, offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
        let (bits, size) = (self.cluster_bits, self.size() as u64);
        let end = offset + length as u64;
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let within = at & (size - 1);
            let stop = size.min(within + (end - at));
            let piece = (at >> bits, within as usize..stop as usize);
            at += stop - within;
            Some(piece)
        })
    }

    /// Takes a change of tables.
    pub(crate) fn write(&mut self, offset: u64, mut data: &[u8]) {
        for (cluster, within) in self.pieces(offset, data.len()).collect::<Vec<_>>() {
            let (piece, rest) = data.split_at(within.len());
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
            table.now[within].copy_from_slice(piece);
            if self.unlogged.is_some() && cluster == 0 {
                let _ = redo_log::mark(&mut table.now, true);
            }
            if let (0, Some(size)) = (cluster, self.held_size) {
                let _ = layout::SIZE.set(&mut table.now, size);
            }
            if !table.dirty {
                table.dirty = true;
                self.dirty_bytes += size as u64;
            }
            data = rest;
        }
    }

    /// Keeps the disk's size in the header at `size`, until [`Tables::set_size`].
    pub(crate) fn hold_size(&mut self, size: u64) {
        self.held_size = Some(size);
    }

    /// Sets the disk's size in the header to `size` bytes; `false` if there is no header.
    pub(crate) fn set_size(&mut self, size: u64) -> bool {
        self.held_size = None;
        let mut header = [0; layout::LENGTH[0] as usize];
        let known = self.read(0, &mut header) > 0 && layout::SIZE.set(&mut header, size);
        if known {
            self.write(0, &header);
        }
        known
    }

    fn bytes_at(&self, offset: u64, length: usize, now: bool) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut at = 0;
        for (cluster, within) in self.pieces(offset, length) {
            let span = at..at + within.len();
            at += within.len();
            let table = self.clusters.get(&cluster);
            let from = table.and_then(|t| if now { Some(&t.now) } else { t.below.as_ref() });
            if let Some(from) = from {
                bytes[span].copy_from_slice(&from[within]);
            }
        }
        bytes
    }

    fn pointers(&self, now: bool) -> Pointers {
        let header = self.bytes_at(0, 64, now);
        let clusters = |offset: u64, bytes: u64| {
            let first = offset >> self.cluster_bits;
            first..first + bytes.div_ceil(self.size() as u64)
        };
        let reftable = layout::REFTABLE_CLUSTERS.get(&header) << self.cluster_bits;
        Pointers {
            reftable: clusters(layout::REFTABLE_OFFSET.get(&header), reftable),
            l1: clusters(layout::L1_OFFSET.get(&header), 8 * layout::L1_ENTRIES.get(&header)),
        }
    }

    /// The cluster of the refcount block that describes `cluster`, and which
    /// entry.
    fn block_of(&self, cluster: u64, now: bool) -> Option<(u64, u64)> {
        let in_block = (self.size() as u64 * 8) >> self.order;
        let pointers = self.pointers(now);
        let index = cluster / in_block;
        let place = (pointers.reftable.start << self.cluster_bits) + 8 * index;
        if place >> self.cluster_bits >= pointers.reftable.end {
            return None;
        }
        let block = be64(&self.bytes_at(place, 8, now), 0) & !0x1ff;
        (block != 0).then_some((block >> self.cluster_bits, cluster % in_block))
    }

    /// Returns whether a cluster was used when the tables were last written.
    pub(crate) fn is_used(&self, cluster: u64) -> bool {
        self.block_of(cluster, false).is_some_and(|(block, entry)| {
            let counted = self.clusters.get(&block).and_then(|table| table.counted.as_ref());
            counted.is_some_and(|bytes| refcounts::get(bytes, self.order, entry) > 0)
        })
    }

    /// Returns whether a cluster is free as the tables are to be.
    pub(crate) fn is_free(&self, cluster: u64) -> bool {
        self.block_of(cluster, true).is_none_or(|(block, entry)| {
            let table = self.clusters.get(&block);
            table.is_some_and(|table| refcounts::get(&table.now, self.order, entry) == 0)
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
