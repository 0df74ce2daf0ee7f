//! An image's tables as they are to be, held back until they can be written in
//! an order in which the image is sound at every instant.
//!
//! The library that does the format's work writes tables when it likes; what it
//! writes stays here. [`Tables::plan`] turns what has changed into groups of
//! writes. Between two groups there is order: a flush or a barrier.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::header::{be32, be64, DIRTY};
use crate::{refcounts, unflushed};

/// What changed in a table is written in pages of this many bytes: what drives
/// write at once.
const PAGE: usize = 4096;
/// L2 tables that stay in memory unchanged, so that a page can be written where
/// a page changed (bytes).
const KEPT: usize = 32 << 20;

/// A cluster with a table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// What it is to be.
    now: Vec<u8>,
    /// What the drive below has, once it has done what it was asked; `None`
    /// where that is unknown, or nothing that matters.
    below: Option<Vec<u8>>,
    /// For a refcount block: what counts as used, whether or not the drive
    /// below knows.
    counted: Option<Vec<u8>>,
    dirty: bool,
    /// Whether the drive below may have anything of it: all is written again.
    unsure: bool,
    /// Whether it waits for the image to be closed.
    late: bool,
    /// What is known of it where the program is killed, if it was changed.
    logged: Option<Vec<u8>>,
    /// Whether it was changed since then.
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
    /// The tables that were changed since they were logged, where they are.
    unlogged: Option<Vec<u64>>,
}

/// A write of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
}

/// What is to be written, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Writes of one group may happen in any order.
    pub(crate) groups: Vec<Group>,
    /// What the plan covers, for [`Tables::failed`].
    covered: Vec<(u64, Option<Vec<u8>>)>,
}

/// Writes between which there is no order.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) writes: Vec<Write>,
    /// Whether the drive below may have to find room for them.
    pub(crate) fresh: bool,
    /// Whether they may happen together with what was written before.
    pub(crate) early: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Header,
    Reftable,
    RefBlock,
    L1,
    L2,
}

/// Where the tables lie that the header names.
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

    /// Takes over what the drive below has of a table.
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

    /// Copies what is known of the cluster with `offset`, from there on, and
    /// says how much; 0 where it is not known.
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

    /// Where the first table begins that a write changes in part, and that has
    /// to be loaded first.
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
                // What it is before its first change, the file has.
                if table.logged.is_none() && !fresh {
                    table.logged = Some(table.now.clone());
                }
            }
            table.now[within].copy_from_slice(piece);
            if self.unlogged.is_some() && cluster == 0 {
                let (at, bit) = unflushed::MARK;
                table.now[at] |= bit;
            }
            if !table.dirty {
                table.dirty = true;
                self.dirty_bytes += size as u64;
            }
            data = rest;
        }
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
        let reftable = u64::from(be32(&header, 56)) << self.cluster_bits;
        Pointers {
            reftable: clusters(be64(&header, 48), reftable),
            l1: clusters(be64(&header, 40), 8 * u64::from(be32(&header, 36))),
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

    /// Whether a cluster was used when the tables were last written.
    pub(crate) fn is_used(&self, cluster: u64) -> bool {
        self.block_of(cluster, false).is_some_and(|(block, entry)| {
            let counted = self.clusters.get(&block).and_then(|table| table.counted.as_ref());
            counted.is_some_and(|bytes| refcounts::get(bytes, self.order, entry) > 0)
        })
    }

    /// Whether a cluster is free as the tables are to be.
    pub(crate) fn is_free(&self, cluster: u64) -> bool {
        self.block_of(cluster, true).is_none_or(|(block, entry)| {
            let table = self.clusters.get(&block);
            table.is_some_and(|table| refcounts::get(&table.now, self.order, entry) == 0)
        })
    }

    fn role(&self, cluster: u64, pointers: &[Pointers; 2], blocks: &[u64]) -> Role {
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
    fn blocks(&self, pointers: &Pointers) -> Vec<u64> {
        let start = pointers.reftable.start << self.cluster_bits;
        let length = (pointers.reftable.end - pointers.reftable.start) << self.cluster_bits;
        let table = self.bytes_at(start, length as usize, true);
        let entries = table.chunks_exact(8).map(|entry| be64(entry, 0) >> self.cluster_bits);
        let mut blocks: Vec<_> = entries.filter(|&block| block != 0).collect();
        blocks.sort_unstable();
        blocks
    }

    /// What has to be written for the drive below to have the tables as they
    /// are now. From here on they count as written.
    ///
    /// The order, for an image that is sound whatever of a group is lost:
    /// 1. what nothing points to yet, and refcounts that grow;
    /// 2. what finds refcounts;
    /// 3. what finds data: L1 and L2 entries, and the header;
    /// 4. refcounts that shrink.
    ///
    /// `whole`: refcounts that are kept late are written too.
    pub(crate) fn plan(&mut self, whole: bool) -> Plan {
        self.forget();
        let late = self.lazy && !whole;
        let pointers = [self.pointers(true), self.pointers(false)];
        let blocks = self.blocks(&pointers[0]);
        let moved = pointers[0].reftable != pointers[1].reftable;
        let dirty: Vec<u64> =
            self.clusters.iter().filter(|(_, t)| t.dirty).map(|(c, _)| *c).collect();
        let fresh: Vec<bool> = dirty.iter().map(|&cluster| !self.is_used(cluster)).collect();
        let mut plan = Plan::default();
        let mut groups: [Group; 5] = Default::default();
        let mut any = false;
        for (cluster, fresh) in dirty.into_iter().zip(fresh) {
            let role = self.role(cluster, &pointers, &blocks);
            let counts = matches!(role, Role::Reftable | Role::RefBlock);
            let order = self.order;
            let start = cluster << self.cluster_bits;
            let Some(table) = self.clusters.get_mut(&cluster) else { continue };
            let counted = table.counted.take();
            if role == Role::RefBlock {
                table.counted = Some(table.now.clone());
            }
            plan.covered.push((cluster, counted.clone()));
            if late && counts {
                // Found again from the other tables, should it be lost. Stays dirty.
                any = true;
                if !std::mem::replace(&mut table.late, true) {
                    self.dirty_bytes -= 1 << self.cluster_bits;
                }
                continue;
            }
            table.dirty = false;
            if !std::mem::take(&mut table.late) {
                self.dirty_bytes -= 1 << self.cluster_bits;
            }
            let place = match role {
                _ if fresh => 1,
                Role::RefBlock => 1,
                Role::Reftable => 2,
                Role::Header if moved => 2,
                Role::Header | Role::L1 | Role::L2 => 3,
            };
            groups[place].fresh |= fresh;
            let unsure = std::mem::take(&mut table.unsure);
            let below = table.below.take().filter(|_| !unsure && !fresh);
            if role == Role::RefBlock && !fresh {
                let first = match &counted {
                    Some(counted) => refcounts::larger(&table.now, counted, order),
                    None => table.now.clone(),
                };
                changes(start, below.as_deref(), &first, &mut groups[1].writes);
                changes(start, Some(&first), &table.now, &mut groups[4].writes);
            } else {
                changes(start, below.as_deref(), &table.now, &mut groups[place].writes);
            }
            table.below = Some(table.now.clone());
        }
        if any {
            groups[0].writes.extend(self.mark_dirty());
        }
        // Data that nothing points to needs no order with refcounts.
        groups[0].early = true;
        groups[1].early = groups[0].writes.is_empty();
        plan.groups = groups.into_iter().filter(|group| !group.writes.is_empty()).collect();
        plan
    }

    /// Sets the bit that says that refcounts are late, where it is not set.
    fn mark_dirty(&mut self) -> Option<Write> {
        let header = self.clusters.get_mut(&0)?;
        let below = header.below.as_mut()?;
        if be64(below, 72) & DIRTY != 0 {
            return None;
        }
        for bytes in [&mut header.now, &mut *below] {
            bytes[79] |= DIRTY as u8;
        }
        Some(Write { offset: 0, data: below[..512].to_vec() })
    }

    /// Clears the bit again: the header's first sector, to be written last.
    pub(crate) fn mark_clean(&mut self) -> Option<Write> {
        let header = self.clusters.get_mut(&0)?;
        if be64(&header.now, 72) & DIRTY == 0 {
            return None;
        }
        header.now[79] &= !(DIRTY as u8);
        header.below = Some(header.now.clone());
        Some(Write { offset: 0, data: header.now[..512].to_vec() })
    }

    /// Begins to note what has to be logged: the header's first sector with the
    /// mark that says so, to be written first.
    pub(crate) fn log(&mut self) -> Option<Write> {
        self.unlogged = Some(Vec::new());
        self.mark(|byte, bit| byte | bit)
    }

    /// Ends that: the header's first sector without the mark, to be written last.
    pub(crate) fn end_log(&mut self) -> Option<Write> {
        self.unlogged = None;
        self.mark(|byte, bit| byte & !bit)
    }

    fn mark(&mut self, change: impl Fn(u8, u8) -> u8) -> Option<Write> {
        let (at, bit) = unflushed::MARK;
        let header = self.clusters.get_mut(&0)?;
        let below = header.below.as_mut()?;
        for bytes in [&mut header.now, &mut *below].into_iter().chain(&mut header.logged) {
            bytes[at] = change(bytes[at], bit);
        }
        Some(Write { offset: 0, data: below[..512].to_vec() })
    }

    /// What has become of tables since this was last asked.
    pub(crate) fn unlogged(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        for cluster in self.unlogged.as_mut().map(std::mem::take).unwrap_or_default() {
            let Some(table) = self.clusters.get_mut(&cluster) else { continue };
            table.unlogged = false;
            let start = cluster << self.cluster_bits;
            let first = writes.len();
            changes(start, table.logged.as_deref(), &table.now, &mut writes);
            let logged = table.logged.get_or_insert_with(|| table.now.clone());
            for Write { offset, data } in &writes[first..] {
                let at = (offset - start) as usize;
                logged[at..at + data.len()].copy_from_slice(data);
            }
        }
        writes
    }

    /// What the file below does not have of the tables as they are; no plan may
    /// be under way.
    pub(crate) fn unwritten(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        let dirty: Vec<u64> =
            self.clusters.iter().filter(|(_, t)| t.dirty).map(|(c, _)| *c).collect();
        for cluster in dirty {
            // What is no table any more may have become data.
            if self.is_free(cluster) {
                continue;
            }
            let Some(table) = self.clusters.get(&cluster) else { continue };
            let below = table.below.as_deref().filter(|_| !table.unsure);
            changes(cluster << self.cluster_bits, below, &table.now, &mut writes);
        }
        writes
    }

    /// Takes a plan back that was not carried out as a whole: what the drive
    /// below has of it is unknown.
    pub(crate) fn failed(&mut self, plan: Plan) {
        let order = self.order;
        for (cluster, counted) in plan.covered {
            let Some(table) = self.clusters.get_mut(&cluster) else { continue };
            table.unsure = true;
            table.counted = match (counted, table.counted.take()) {
                (Some(before), Some(now)) => Some(refcounts::larger(&before, &now, order)),
                (_, now) => now,
            };
            if !table.dirty {
                table.dirty = true;
                self.dirty_bytes += 1 << self.cluster_bits;
            }
        }
    }

    /// Lets go of unchanged L2 tables beyond what is kept, and of clusters that
    /// are no tables any more.
    fn forget(&mut self) {
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
