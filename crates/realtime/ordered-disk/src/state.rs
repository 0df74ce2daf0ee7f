//! Content of the log and its durable part. Pure: the caller reports writes and syncs after they
//! are done.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;

use crate::index::{Extent, Index, Source};
use crate::injected::{has, Bug};
use crate::record::{Kind, Record, HEADER, PAGE};
use crate::superblock::Superblock;

/// Room that is kept free (bytes): a seal, the zeroes behind a record up to its
/// page's end, and a page between the log's end and its beginning.
pub const RESERVE: u64 = 4 * PAGE;

/// Content of a record that is in the log, and its end.
#[derive(Debug, Clone, Copy)]
struct Entry {
    end: u64,
    epoch: u64,
    offset: u64,
    length: u64,
    source: Source,
}

/// Durable part of the log after a sync.
#[derive(Debug, Clone, Copy)]
pub struct SyncPoint {
    end: u64,
    boundary: u64,
}

/// Data to be written to the disk's own file for the log's first records to be no longer needed.
#[derive(Debug)]
pub struct CheckpointPlan {
    /// The newest data of those records, in the disk's order.
    pub extents: Vec<Extent>,
    /// The superblock that leaves them out.
    pub superblock: Superblock,
}

/// Content of the log.
#[derive(Debug)]
pub struct State {
    superblock: Superblock,
    end: u64,
    durable: u64,
    epoch: u64,
    // True if the epoch has records.
    begun: bool,
    // End of the last epoch that was closed, and of the last that is durable.
    boundary: u64,
    whole: u64,
    sealed: u64,
    sealed_epoch: u64,
    entries: VecDeque<Entry>,
    // Orders that are not durable: the boundary and when they ended.
    orders: VecDeque<(u64, Nanos)>,
    index: Index,
    /// Orders of ours, where too much was written without one.
    pub forced_orders: u64,
}

impl State {
    /// An empty log that continues from `superblock`.
    pub fn new(superblock: Superblock) -> Self {
        let tail = superblock.tail;
        Self {
            superblock,
            end: tail,
            durable: tail,
            epoch: superblock.epoch,
            begun: false,
            boundary: tail,
            whole: tail,
            sealed: tail,
            sealed_epoch: superblock.epoch,
            entries: VecDeque::new(),
            orders: VecDeque::new(),
            index: Index::default(),
            forced_orders: 0,
        }
    }

    /// The superblock that is on the host's disk.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Address before which everything is in the disk's own file.
    pub fn tail(&self) -> u64 {
        self.superblock.tail
    }

    /// The first address that is not yet written.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of the log that are in use.
    pub fn used(&self) -> u64 {
        self.end - self.superblock.tail
    }

    /// Bytes of the log that are not durable.
    pub fn behind(&self) -> u64 {
        self.end - self.durable
    }

    /// End of the last closed epoch.
    pub fn boundary(&self) -> u64 {
        self.boundary
    }

    /// Up to which epoch's end the log is durable.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Returns the time at which the oldest order ended that is not durable.
    pub fn oldest_order(&self) -> Option<(u64, Nanos)> {
        self.orders.front().copied()
    }

    /// Places of the bytes of ranges.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns whether a record of this many bytes has room.
    pub fn has_room(&self, size: u64) -> bool {
        self.used() + size + RESERVE <= self.superblock.ring
    }

    /// The next record, as it is to be written at the log's end.
    pub fn next(&self, kind: Kind, offset: u64, length: u64, checksum: u32) -> Record {
        Record {
            kind,
            incarnation: self.superblock.incarnation,
            address: self.end,
            epoch: self.epoch,
            offset,
            length,
            durable: self.durable,
            checksum,
        }
    }

    /// `record`, which [`Self::next`] made, was written. `now`: for the order
    /// that too many records without one are given.
    pub fn wrote(&mut self, record: &Record, now: Nanos) {
        self.end = record.end();
        let source = match record.kind {
            Kind::Data => Source::Log(record.address + HEADER),
            Kind::Zeroes => Source::Zeroes(record.address),
            Kind::Seal => {
                (self.sealed, self.sealed_epoch) = (self.end, self.epoch);
                return;
            }
        };
        let Record { epoch, offset, length, .. } = *record;
        self.entries.push_back(Entry { end: self.end, epoch, offset, length, source });
        self.index.insert(offset, length, source);
        self.begun = true;
        // Otherwise the log could fill with records that may never be checkpointed.
        if self.end - self.boundary > self.superblock.ring / 4 {
            self.forced_orders += 1;
            self.order(now);
        }
    }

    /// Makes earlier writes durable before later ones. Returns the address up to which the log has
    /// to be durable for that to have happened.
    pub fn order(&mut self, now: Nanos) -> u64 {
        if self.begun {
            self.boundary = self.end;
            self.epoch += 1;
            self.begun = false;
            self.orders.push_back((self.boundary, now));
        }
        self.boundary
    }

    /// The seal that has to be written before a sync, if one has to be.
    pub fn seal(&self) -> Option<Record> {
        if (self.end, self.epoch) == (self.sealed, self.sealed_epoch) {
            return None;
        }
        Some(Record::seal(self.superblock.incarnation, self.end, self.epoch, self.durable))
    }

    /// Durable part of the log after a sync that begins now.
    pub fn point(&self) -> SyncPoint {
        SyncPoint { end: self.end, boundary: self.boundary }
    }

    /// A sync that began at `point` has ended well.
    pub fn synced(&mut self, point: SyncPoint) {
        let point = if has(Bug::LateSyncPoint) { self.point() } else { point };
        self.durable = self.durable.max(point.end);
        self.whole = self.whole.max(point.boundary);
        while self.orders.front().is_some_and(|(boundary, _)| *boundary <= self.whole) {
            self.orders.pop_front();
        }
    }

    /// Data to write to the disk's own file for about the first `limit` bytes of the log to be
    /// free, as far as they are durable.
    pub fn plan(&self, limit: u64) -> Option<CheckpointPlan> {
        let whole = if has(Bug::CheckpointEarly) { self.boundary } else { self.whole };
        let most = whole.min(self.superblock.tail.saturating_add(limit));
        let mut newest = Index::default();
        let mut superblock = self.superblock;
        for entry in &self.entries {
            // At least one, or nothing would ever be free.
            if entry.end > whole || (entry.end > most && !newest.is_empty()) {
                break;
            }
            // Not from the whole index: newer data may not be durable.
            newest.insert(entry.offset, entry.length, entry.source);
            (superblock.tail, superblock.epoch) = (entry.end, entry.epoch);
        }
        superblock.generation += 1;
        if has(Bug::CheckpointNewest) {
            let extents =
                self.index.iter().filter(|extent| extent.source.address() < superblock.tail);
            return (!newest.is_empty())
                .then(|| CheckpointPlan { extents: extents.collect(), superblock });
        }
        (!newest.is_empty())
            .then(|| CheckpointPlan { extents: newest.iter().collect(), superblock })
    }

    /// Takes note that `plan` is carried out, and its superblock durable.
    pub fn freed(&mut self, plan: &CheckpointPlan) {
        self.superblock = plan.superblock;
        while self.entries.front().is_some_and(|entry| entry.end <= plan.superblock.tail) {
            self.entries.pop_front();
        }
    }

    /// Reads of these extents of `plan`, which are done, go to the disk's own file.
    pub fn forget(&mut self, plan: &CheckpointPlan, extents: &[Extent]) {
        for extent in extents {
            self.index.forget(extent.offset, extent.length, plan.superblock.tail);
        }
    }
}
