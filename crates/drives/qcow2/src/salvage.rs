//! One image of a chain that is read although it contradicts itself.

use std::path::Path;

use stasis_qcow2_format::check::{BUDGET, MAX_CLUSTERS};
use stasis_qcow2_format::entries::{unpack, Cluster, Shape, COPIED, OFFSET, ZERO};
use stasis_qcow2_format::header::{be64, snapshots, ReadAt, Source};

use crate::{Header, ImageError};

/// Roles of a cluster of the file.
const TABLE: u8 = 1;
/// It is an L2 table.
const L2: u8 = 2;
/// It is a table, and an L2 table of the disk too.
const TABLES: u8 = 4;
const DATA: u8 = 8;
const PACKED: u8 = 16;
/// It is data of two parts of the disk.
const TWICE: u8 = 32;

/// Content of a part of the disk, as this image has it.
pub(crate) enum Content {
    Hole,
    Zero,
    /// From this byte of the file on.
    Data(u64),
    /// In at most `length` bytes from `at` on; `word` is the entry.
    Packed {
        word: u64,
        at: u64,
        length: u64,
    },
}

/// Result of a look at the tables.
pub(crate) struct Found {
    /// The content, or why it is lost.
    pub(crate) content: Result<Content, String>,
    /// Bytes that are alike.
    pub(crate) count: u64,
    /// Reason why the content may be something else.
    pub(crate) doubt: Option<String>,
}

/// An image, its L1 table and the roles of its clusters.
pub(crate) struct Salvage {
    pub(crate) file: Box<dyn ReadAt>,
    /// Bytes of the file.
    pub(crate) length: u64,
    /// Bytes of the disk.
    pub(crate) size: u64,
    /// Contradictions that lose nothing by themselves.
    pub(crate) faults: Vec<String>,
    header: Header,
    l1: Vec<u64>,
    roles: Vec<u8>,
    /// Entries of tables that may still be read: tables that are shared without end are no disk.
    budget: u64,
    /// The L2 table that was read last, and the compressed cluster.
    table: (u64, Vec<u8>),
    cluster: (u64, Vec<u8>),
}

impl Salvage {
    /// Takes the image in `file`; or the disk as it was at a snapshot.
    ///
    /// # Errors
    /// Without that snapshot; or where the L1 table cannot be read.
    pub(crate) fn open(
        file: Box<dyn ReadAt>,
        length: u64,
        header: Header,
        snapshot: Option<&str>,
        path: &Path,
    ) -> Result<Self, ImageError> {
        let source = Source { file: &*file, length };
        let mut faults = Vec::new();
        let table = match snapshots(&source, &header, path) {
            Ok(table) => table,
            Err(error) if snapshot.is_some() => return Err(error.into()),
            Err(error) => {
                faults.push(format!("its snapshots: {error}"));
                Default::default()
            }
        };
        faults.extend(table.faults);
        let active = (header.l1_offset, header.l1_entries, header.size);
        let then = |one: &crate::Snapshot| (one.l1_offset, one.l1_entries, one.size);
        let chosen = match snapshot {
            None => active,
            Some(name) => {
                let mut all = table.found.iter();
                let found = all.find(|one| one.name == name || one.id == name).map(then);
                found.ok_or_else(|| ImageError::NoSnapshot {
                    path: path.into(),
                    name: name.into(),
                    names: table.found.iter().map(|one| one.name.clone()).collect(),
                })?
            }
        };
        let l1 = entries_of(&source, chosen.0, chosen.1).map_err(|source| ImageError::Os {
            path: path.into(),
            action: "read its L1 table",
            source,
        })?;
        let mut salvage = Self {
            file,
            length,
            size: chosen.2,
            faults,
            l1,
            roles: Vec::new(),
            budget: BUDGET,
            table: (0, Vec::new()),
            cluster: (0, Vec::new()),
            header,
        };
        if length >> salvage.header.cluster_bits >= MAX_CLUSTERS {
            salvage.faults.push("too large to look for clusters with two uses".into());
            return Ok(salvage);
        }
        salvage.roles = vec![0; length.div_ceil(salvage.shape().cluster()) as usize];
        salvage.mark_structures(table.length);
        let mut others: Vec<_> = table.found.iter().map(then).collect();
        others.push(active);
        for &(offset, entries, _) in &others {
            salvage.mark_table(offset, 8 * u64::from(entries));
        }
        others.retain(|other| other.0 != chosen.0);
        salvage.mark_disk();
        for (offset, entries, _) in others {
            let source = Source { file: &*salvage.file, length };
            let table = entries_of(&source, offset, entries).unwrap_or_default();
            for entry in table.into_iter().filter(|entry| entry & OFFSET != 0) {
                salvage.add(entry & OFFSET, 1, |role| match *role & L2 {
                    0 => *role | TABLE | L2,
                    _ => *role,
                });
            }
        }
        salvage.budget = BUDGET;
        Ok(salvage)
    }

    pub(crate) fn shape(&self) -> Shape {
        self.header.shape()
    }

    /// Changes the roles of the clusters of a range of the file.
    fn add(&mut self, offset: u64, bytes: u64, role: impl Fn(&u8) -> u8) {
        let bits = self.header.cluster_bits;
        let end = offset.saturating_add(bytes.max(1) - 1) >> bits;
        let known = (self.roles.len() as u64).min(end.saturating_add(1));
        // An offset of 0 is none; the header is marked by itself.
        for cluster in offset >> bits..known {
            let at = cluster as usize;
            self.roles[at] = role(&self.roles[at]);
        }
    }

    fn mark_table(&mut self, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.add(offset, bytes, |role| role | TABLE);
        }
    }

    /// The header, the refcounts and the table of snapshots.
    fn mark_structures(&mut self, snapshots: u64) {
        let cluster = self.shape().cluster();
        self.mark_table(0, cluster);
        self.mark_table(self.header.snapshots_offset, snapshots);
        let (start, clusters) = (self.header.reftable_offset, self.header.reftable_clusters);
        let bytes = (cluster * u64::from(clusters)).min(self.length.saturating_sub(start));
        if start == 0 || start % cluster != 0 {
            return;
        }
        self.mark_table(start, bytes);
        let source = Source { file: &*self.file, length: self.length };
        let table = source.bytes(start, bytes as usize).unwrap_or_default();
        for entry in table.chunks_exact(8).map(|entry| be64(entry, 0)).filter(|entry| *entry != 0) {
            self.mark_table(entry & OFFSET, cluster);
        }
    }

    /// The L2 tables of the disk that is read, and its data.
    fn mark_disk(&mut self) {
        let shape = self.shape();
        for number in 0..self.l1.len() {
            let table = self.l1[number] & OFFSET;
            if table == 0 || !table.is_multiple_of(shape.cluster()) || table >= self.length {
                continue;
            }
            self.add(table, 1, |role| match role & TABLE {
                0 => role | TABLE | L2,
                _ => role | L2 | TABLES,
            });
            let bytes = match self.table(table) {
                Ok(bytes) => bytes.to_vec(),
                Err(_) => continue,
            };
            for index in 0..shape.in_table() {
                let entry = shape.entry(&bytes, index << shape.cluster_bits);
                match Cluster::new(entry.word, shape.cluster_bits) {
                    _ if entry.word == 0 => {}
                    Cluster::Packed { at, length } => {
                        self.add(at, length, |role| match role & DATA {
                            0 => role | PACKED,
                            _ => role | PACKED | TWICE,
                        })
                    }
                    _ if entry.word & OFFSET == 0 => {}
                    _ => self.add(entry.word & OFFSET, 1, |role| match role & (DATA | PACKED) {
                        0 => role | DATA,
                        _ => role | DATA | TWICE,
                    }),
                }
            }
        }
    }

    /// The bytes of an L2 table.
    fn table(&mut self, at: u64) -> Result<&[u8], String> {
        if self.table.0 != at {
            self.budget = self
                .budget
                .checked_sub(self.shape().in_table())
                .ok_or("its tables are shared more often than any disk needs")?;
            let source = Source { file: &*self.file, length: self.length };
            let bytes = source.bytes(at, self.shape().cluster() as usize);
            let bytes = bytes.map_err(|error| format!("its L2 table cannot be read: {error}"))?;
            self.table = (at, bytes);
        }
        Ok(&self.table.1)
    }

    fn role(&self, at: u64) -> u8 {
        self.roles.get((at >> self.header.cluster_bits) as usize).copied().unwrap_or(0)
    }

    /// Content of the disk from `offset` on.
    pub(crate) fn look_up(&mut self, offset: u64, most: u64) -> Found {
        let shape = self.shape();
        let rest = (shape.covered() - offset % shape.covered()).min(most);
        let lost =
            |cause: &str, count: u64| Found { content: Err(cause.to_owned()), count, doubt: None };
        let Some(&word) = self.l1.get((offset / shape.covered()) as usize) else {
            return lost("the L1 table ends before it", rest);
        };
        let table = word & OFFSET;
        let mut doubt = match word & !(OFFSET | COPIED) {
            0 => None,
            _ => Some(format!("its L1 entry has unknown bits: {word:#x}")),
        };
        let in_cluster = (shape.cluster() - offset % shape.cluster()).min(rest);
        match () {
            () if table == 0 => return Found { content: Ok(Content::Hole), count: rest, doubt },
            () if !table.is_multiple_of(shape.cluster()) => {
                return lost("its L2 table is not aligned", rest)
            }
            () if table >= self.length => {
                return lost("its L2 table lies behind the end of the file", rest);
            }
            () if table + shape.place(offset) + shape.entry_size() > self.length => {
                return lost("the file ends within its L2 table", in_cluster);
            }
            () if self.role(table) & TABLES != 0 => {
                let also = format!("its L2 table at {table:#x} has another use");
                doubt = doubt.or(Some(also));
            }
            () => {}
        }
        let entry = match self.table(table) {
            Ok(bytes) => shape.entry(bytes, offset),
            Err(cause) => return lost(&cause, rest),
        };
        if let Some(error) = shape.contradiction(entry) {
            // Without the place, so that neighbours are one range.
            let cause = match error {
                stasis_qcow2_format::entries::EntryError::Unaligned(_) => {
                    "its data is not aligned".into()
                }
                error => error.to_string(),
            };
            return lost(&cause, in_cluster);
        }
        let unit = match shape.unit_at(entry, offset) {
            Ok(unit) => unit,
            Err(error) => return lost(&error.to_string(), in_cluster),
        };
        let inside = offset % shape.unit();
        let in_unit = (shape.unit() - inside).min(rest);
        let standard = !(OFFSET | COPIED | if shape.extended { 0 } else { ZERO });
        let (content, count, role) = match unit {
            Cluster::Packed { at, .. } if at >= self.length => {
                return lost("its data lies behind the end of the file", in_cluster);
            }
            Cluster::Packed { at, length } => {
                let content = Content::Packed { word: entry.word, at, length };
                (content, in_cluster, self.role(at))
            }
            Cluster::Hole => (Content::Hole, in_unit, 0),
            Cluster::Zero { .. } if self.header.version == 2 => {
                return lost("a cluster of zeroes in an image of version 2", in_unit);
            }
            Cluster::Zero { .. } => (Content::Zero, in_unit, 0),
            Cluster::Data { at, .. } => {
                let from = at + inside;
                let Some(there @ 1..) = self.length.checked_sub(from) else {
                    let within = entry.word & OFFSET < self.length;
                    let cause = match within {
                        true => "the file ends within its cluster",
                        false => "its data lies behind the end of the file",
                    };
                    return lost(cause, in_unit);
                };
                (Content::Data(from), in_unit.min(there), self.role(from))
            }
        };
        let is_packed = matches!(content, Content::Packed { .. });
        let own_doubt = match () {
            () if !is_packed && entry.word & standard != 0 => "its L2 entry has unknown bits",
            () if role & TABLE != 0 => "its data lies where the image has a table",
            () if role & TWICE != 0 => "its data is that of another part of the disk too",
            () => return Found { content: Ok(content), count, doubt },
        };
        Found { content: Ok(content), count, doubt: doubt.or_else(|| Some(own_doubt.to_owned())) }
    }

    /// A whole compressed cluster.
    pub(crate) fn unpacked(&mut self, word: u64, at: u64, length: u64) -> Result<&[u8], String> {
        if self.cluster.0 != word {
            let source = Source { file: &*self.file, length: self.length };
            // The last sector may be cut short by the file's end.
            let length = length.min(self.length.saturating_sub(at));
            let packed = source.bytes(at, length as usize);
            let packed = packed.map_err(|error| format!("it cannot be read: {error}"))?;
            let size = self.shape().cluster() as usize;
            let cluster = unpack(&packed, self.header.compression, size)
                .map_err(|_| "its compressed data is damaged")?;
            self.cluster = (word, cluster);
        }
        Ok(&self.cluster.1)
    }
}

/// An L1 table, as far as the file has it.
fn entries_of(source: &Source, offset: u64, entries: u32) -> std::io::Result<Vec<u64>> {
    let there = source.length.saturating_sub(offset) / 8;
    let bytes = source.bytes(offset, 8 * there.min(entries.into()) as usize)?;
    Ok(bytes.chunks_exact(8).map(|entry| be64(entry, 0)).collect())
}
