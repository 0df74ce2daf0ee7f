//! Clusters of the disk: where the tables have them.

use std::io;

use stasis_qcow2_format::entries::{Cluster, Entry, ALL_DATA, ALL_ZEROES, COPIED, OFFSET, ZERO};

use super::Tables;
use crate::layout;

/// Result of a look at the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look<T> {
    /// The result.
    Found(T),
    /// The table at this offset of a file has to be loaded first.
    Unknown { file: usize, table: u64 },
}

impl Tables {
    /// The place in the L1 table of the L2 table for the byte `offset` of the disk.
    pub(crate) fn l1_index(&self, offset: u64) -> u64 {
        offset / self.shape.covered()
    }

    /// Bytes of the disk from `offset` to the end of what its L2 table has.
    pub(crate) fn rest_of_table(&self, offset: u64) -> u64 {
        let bytes = self.shape.covered();
        bytes - offset % bytes
    }

    /// Place of an L1 entry; `None` behind the table's end.
    fn l1_place(&self, index: u64) -> Option<u64> {
        let header = layout::header(self.header(true))?;
        let place = header.l1_offset.get() + 8 * index;
        (index < header.l1_entries.get().into()).then_some(place)
    }

    /// Place of the L2 entry for `offset` in the table at `table`.
    fn l2_place(&self, table: u64, offset: u64) -> u64 {
        table + self.shape.place(offset)
    }

    fn damaged(&self, name: &str, at: u64) -> io::Result<()> {
        match at % self.size() as u64 {
            0 => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{name} at {at:#x} is not aligned"),
            )),
        }
    }

    /// Content of the disk from `offset` on, and for how many bytes of `most` it goes on alike; data
    /// begins at the byte of `offset`.
    pub(crate) fn look_up(&self, offset: u64, most: u64) -> io::Result<Look<(Cluster, u64)>> {
        let most = most.min(self.rest_of_table(offset));
        let l1 = self.l1_place(self.l1_index(offset)).map_or(0, |place| self.entry(place, true));
        let table = l1 & OFFSET;
        if table == 0 {
            return Ok(Look::Found((Cluster::Hole, most)));
        }
        self.damaged("an L2 table", table)?;
        let Some(known) = self.clusters.get(&(table >> self.cluster_bits)) else {
            return Ok(Look::Unknown { file: self.file, table });
        };
        let unit_at = |at| {
            let unit = self.shape.unit_at(self.shape.entry(&known.now, at), at);
            unit.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        };
        let first = unit_at(offset)?;
        // A compressed cluster is whole, and only the tables know what follows it.
        let size = match first {
            Cluster::Packed { .. } => self.shape.cluster(),
            _ => self.shape.unit(),
        };
        let within = offset % size;
        let (mut count, mut last) = (size - within, first);
        while count < most {
            let next = unit_at(offset + count)?;
            if !follows(last, next, size) {
                break;
            }
            (count, last) = (count + size, next);
        }
        let found = match first {
            Cluster::Data { at, own } => Cluster::Data { at: at + within, own },
            other => other,
        };
        Ok(Look::Found((found, count.min(most))))
    }

    /// Ensures that the image has an L2 table of its own for `offset`, and returns its place.
    ///
    /// # Errors
    /// Without room for it, or behind the end of the L1 table.
    pub(crate) fn own_table(&mut self, offset: u64) -> io::Result<Look<u64>> {
        let place = self.l1_place(self.l1_index(offset));
        let place = place.ok_or(io::ErrorKind::UnexpectedEof)?;
        let entry = self.entry(place, true);
        let table = entry & OFFSET;
        self.damaged("an L2 table", table)?;
        let known = self.clusters.get(&(table >> self.cluster_bits));
        let bytes = match (table, known) {
            (0, _) => vec![0; self.size()],
            (_, None) => return Ok(Look::Unknown { file: self.file, table }),
            (_, Some(_)) if entry & COPIED != 0 => return Ok(Look::Found(table)),
            (_, Some(known)) => known.now.clone(),
        };
        let cluster = self.take(1).ok_or(io::ErrorKind::StorageFull)?;
        let new = cluster << self.cluster_bits;
        self.change(cluster, |now| now.copy_from_slice(&bytes));
        self.set_entry(place, new | COPIED);
        if table != 0 {
            self.free(table >> self.cluster_bits, 1);
        }
        Ok(Look::Found(new))
    }

    /// Room of the whole cluster of the disk with `offset`, whatever parts of it have data: data where
    /// all have, zeroes where none has, and a hole where the cluster cannot be changed as one.
    pub(crate) fn whole(&self, offset: u64) -> io::Result<Look<Cluster>> {
        let start = offset & !(self.size() as u64 - 1);
        if !self.shape.extended {
            return Ok(match self.look_up(start, self.size() as u64)? {
                Look::Found((cluster, _)) => Look::Found(cluster),
                Look::Unknown { file, table } => Look::Unknown { file, table },
            });
        }
        let entry = match self.known_entry(start)? {
            Look::Found(entry) => entry,
            Look::Unknown { file, table } => return Ok(Look::Unknown { file, table }),
        };
        Ok(Look::Found(match (Cluster::new(entry.word, self.cluster_bits), entry.bits as u32) {
            (Cluster::Data { at, own }, 0) => Cluster::Zero { at, own },
            (Cluster::Data { .. }, bits) if bits != u32::MAX => Cluster::Hole,
            (cluster, _) => cluster,
        }))
    }

    /// Returns whether any cluster of a range has data in some of its parts alone, so that a new place
    /// for all of it takes mappings away.
    pub(crate) fn is_mixed(&self, offset: u64, length: u64) -> bool {
        let size = self.size() as u64;
        let mixed = |at| match self.known_entry(at) {
            Ok(Look::Found(Entry { bits, .. })) => !matches!(bits as u32, 0 | u32::MAX),
            _ => false,
        };
        self.shape.extended
            && (offset / size..(offset + length).div_ceil(size)).any(|n| mixed(n * size))
    }

    /// The entry for `offset`.
    fn known_entry(&self, offset: u64) -> io::Result<Look<Entry>> {
        let l1 = self.l1_place(self.l1_index(offset)).map_or(0, |place| self.entry(place, true));
        let table = l1 & OFFSET;
        if table == 0 {
            return Ok(Look::Found(Entry::default()));
        }
        self.damaged("an L2 table", table)?;
        Ok(match self.clusters.get(&(table >> self.cluster_bits)) {
            Some(known) => Look::Found(self.shape.entry(&known.now, offset)),
            None => Look::Unknown { file: self.file, table },
        })
    }

    /// Sets which parts of a cluster have data and which are zeroes, where its entry at `place` tells.
    fn set_parts(&mut self, place: u64, bits: u64) {
        if self.shape.extended {
            self.set_entry(place + 8, bits);
        }
    }

    /// Has the cluster of the disk with `offset` be the one at `at` in the file. The image's own
    /// table for it is at `table`.
    pub(crate) fn put(&mut self, table: u64, offset: u64, at: u64) {
        let place = self.l2_place(table, offset);
        let old = self.entry(place, true);
        self.set_entry(place, at | COPIED);
        self.set_parts(place, ALL_DATA);
        match Cluster::new(old, self.cluster_bits) {
            Cluster::Zero { at: same, .. } | Cluster::Data { at: same, .. } if same == at => {}
            _ => self.release(old),
        }
    }

    /// Has the cluster of the disk with `offset` be zeroes; `keep`: with the room that it has.
    pub(crate) fn clear(&mut self, table: u64, offset: u64, keep: bool) {
        let place = self.l2_place(table, offset);
        let old = self.entry(place, true);
        let zero = if self.shape.extended { 0 } else { ZERO };
        self.set_parts(place, ALL_ZEROES);
        match Cluster::new(old, self.cluster_bits) {
            Cluster::Data { .. } | Cluster::Zero { .. } if keep => {
                self.set_entry(place, old | zero)
            }
            _ => {
                self.set_entry(place, zero);
                self.release(old);
            }
        }
    }

    /// Moves the L1 table to where it has room for a disk of `size` bytes, if it has none yet.
    ///
    /// # Errors
    /// Without room for it.
    pub(crate) fn grow_l1(&mut self, size: u64) -> io::Result<()> {
        let had =
            layout::header(self.header(true)).map_or(0, |header| header.l1_entries.get().into());
        let in_cluster = self.size() as u64 / 8;
        let wanted = (self.l1_index(size.saturating_sub(1)) + 1).next_multiple_of(in_cluster);
        if wanted <= had {
            return Ok(());
        }
        let old = self.pointers(true).l1;
        let start = self.take(wanted / in_cluster).ok_or(io::ErrorKind::StorageFull)?;
        for index in 0..wanted / in_cluster {
            let from = old.clone().nth(index as usize).and_then(|old| self.clusters.get(&old));
            let mut bytes = from.map_or_else(|| vec![0; self.size()], |table| table.now.clone());
            let kept = 8 * had.saturating_sub(index * in_cluster).min(in_cluster);
            bytes[kept as usize..].fill(0);
            self.change(start + index, |now| now.copy_from_slice(&bytes));
        }
        self.free(old.start, old.end - old.start);
        let offset = start << self.cluster_bits;
        let moved = self.change_header(layout::header_mut, |header| {
            header.l1_offset = offset.into();
            header.l1_entries = (wanted as u32).into();
        });
        moved.ok_or_else(|| io::Error::other("its header is not known"))
    }
}

/// Returns whether two clusters are one run.
fn follows(before: Cluster, after: Cluster, size: u64) -> bool {
    match (before, after) {
        (Cluster::Data { at, own }, Cluster::Data { at: next, own: also }) => {
            at + size == next && own == also
        }
        (Cluster::Zero { .. }, Cluster::Zero { .. }) => true,
        (before, after) => before == after && before == Cluster::Hole,
    }
}
