//! Check of the uses of each cluster in an image's tables against its refcounts.
//!
//! The crate `qcow2` trusts an image's tables; so an image is checked as a whole before it is
//! opened.

use std::path::Path;

use crate::entries::{Cluster, COPIED, OFFSET};
use stasis_layout::FromBytes as _;

use crate::header::{be64, snapshots, Directory, Snapshot, Source, MAX_L1};
use crate::layout::BitmapHead;
use crate::{refcounts, FormatError, Header};

/// Entries of tables that are looked at before a check gives up: those of
/// 8 TiB in clusters of 64 KiB, twice over. Snapshots that share tables could
/// otherwise make a small file take hours.
const BUDGET: u64 = 1 << 28;
/// Clusters of the largest file that is checked.
const MAX_CLUSTERS: u64 = 1 << 28;
/// Contradictions that are described; the rest are counted.
const DESCRIBED: usize = 20;

/// Formats that a backing file can have (`qemu-img --help`, QEMU 7.2); which of them can be
/// used is another matter.
const BACKING_FORMATS: [&str; 17] = [
    "raw",
    "file",
    "host_device",
    "qcow2",
    "qcow",
    "qed",
    "vmdk",
    "vdi",
    "vpc",
    "vhdx",
    "parallels",
    "dmg",
    "luks",
    "bochs",
    "cloop",
    "nbd",
    "https",
];

/// Result of a check.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Contradictions in the image, the first few.
    pub corruptions: Vec<String>,
    /// Number of contradictions.
    pub corruption_count: u64,
    /// Clusters that nothing uses and that are not free.
    pub leaks: u64,
    /// Clusters with data of the disk, of the active state.
    pub allocated: u64,
    /// Compressed ones among them.
    pub compressed: u64,
    /// Clusters of the disk.
    pub total: u64,
    /// End of the last used cluster in the file (bytes).
    pub end: u64,
    /// Number of uses of each cluster.
    pub uses: Vec<u32>,
    /// The refcount blocks, by place in the refcount table: number of their
    /// cluster.
    pub blocks: Vec<Option<u64>>,
}

impl Report {
    /// Returns whether nothing contradicts itself. Leaks are harmless.
    pub fn is_sound(&self) -> bool {
        self.corruption_count == 0
    }
}

/// Way in which a table may be used more than once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// By the active state alone.
    Own,
    /// By snapshots as well.
    Shared,
}

struct Checker<'a> {
    source: &'a Source<'a>,
    header: &'a Header,
    path: &'a Path,
    report: Report,
    // Clusters with tables: they must have one use each, except L2 tables of
    // snapshots.
    metadata: Vec<bool>,
    budget: u64,
}

/// Checks the image whose header is `header`.
///
/// # Errors
/// A [`FormatError`] if it cannot be read, or is too large to be checked.
pub fn check(
    source: &Source,
    header: &Header,
    path: &Path,
) -> Result<(Report, Vec<Snapshot>), FormatError> {
    let (found, table) = snapshots(source, header, path)?;
    let mut checker = Checker {
        source,
        header,
        path,
        report: Report::default(),
        metadata: Vec::new(),
        budget: BUDGET,
    };
    if source.length >> header.cluster_bits >= MAX_CLUSTERS {
        let feature = "a file of more than 2^28 clusters".to_owned();
        return Err(FormatError::Unsupported { path: path.into(), feature });
    }
    if let Some(format) = &header.backing_format {
        if header.backing.is_some() && !BACKING_FORMATS.contains(&format.as_str()) {
            checker.corrupt(|| format!("its backing file has the unknown format `{format}`"));
        }
    }
    checker.report.total = header.size.div_ceil(header.cluster_size());
    checker.table(0, header.cluster_size(), "header");
    let reftable = header.cluster_size() * u64::from(header.reftable_clusters);
    checker.table(header.reftable_offset, reftable, "refcount table");
    checker.table(header.l1_offset, 8 * u64::from(header.l1_entries), "L1 table");
    checker.table(header.snapshots_offset, table, "table of snapshots");
    for snapshot in &found {
        checker.table(snapshot.l1_offset, 8 * u64::from(snapshot.l1_entries), "L1 table");
    }
    let blocks = checker.blocks()?;
    checker.l1(header.l1_offset, header.l1_entries, Sharing::Own, &blocks)?;
    for snapshot in &found {
        checker.l1(snapshot.l1_offset, snapshot.l1_entries, Sharing::Shared, &blocks)?;
    }
    if let Some(directory) = header.directory {
        checker.bitmaps(directory)?;
    }
    checker.compare(&blocks);
    Ok((checker.report, found))
}

/// The refcount blocks' bytes, by place in the refcount table.
type Blocks = Vec<Option<Vec<u8>>>;

impl Checker<'_> {
    fn corrupt(&mut self, describe: impl FnOnce() -> String) {
        self.report.corruption_count += 1;
        if self.report.corruptions.len() < DESCRIBED {
            self.report.corruptions.push(describe());
        }
    }

    fn spend(&mut self, entries: u64) -> Result<(), FormatError> {
        self.budget = self.budget.checked_sub(entries).ok_or_else(|| FormatError::Damaged {
            path: self.path.into(),
            contradiction: "its tables are shared more often than any disk needs".into(),
        })?;
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, FormatError> {
        self.source
            .bytes(offset, length)
            .map_err(|source| FormatError::Os { path: self.path.into(), source })
    }

    /// Counts a use of the cluster with `offset`; returns whether the file has it.
    fn add(&mut self, offset: u64, name: &str) -> bool {
        let cluster = offset >> self.header.cluster_bits;
        // A cluster that was never written may begin where the file ends.
        if offset > self.source.length {
            self.corrupt(|| format!("{name} at {offset:#x} lies behind the end of the file"));
            return false;
        }
        let index = cluster as usize;
        if self.report.uses.len() <= index {
            self.report.uses.resize(index + 1, 0);
            self.metadata.resize(index + 1, false);
        }
        self.report.uses[index] = self.report.uses[index].saturating_add(1);
        self.report.end = self.report.end.max((cluster + 1) << self.header.cluster_bits);
        true
    }

    fn table(&mut self, offset: u64, length: u64, name: &str) {
        let cluster = self.header.cluster_size();
        for at in (offset..offset.saturating_add(length)).step_by(cluster as usize) {
            if self.add(at, name) {
                self.own(at, name);
            }
        }
    }

    /// Notes that a cluster holds a table used by nobody else.
    fn own(&mut self, offset: u64, name: &str) {
        let index = (offset >> self.header.cluster_bits) as usize;
        if self.report.uses[index] > 1 {
            self.corrupt(|| format!("{name} at {offset:#x} overlaps something else"));
        }
        self.metadata[index] = true;
    }

    fn blocks(&mut self) -> Result<Blocks, FormatError> {
        let cluster = self.header.cluster_size();
        let length = cluster * u64::from(self.header.reftable_clusters);
        let table = self.read(self.header.reftable_offset, length as usize)?;
        let mut blocks = Vec::new();
        for (index, entry) in table.chunks_exact(8).enumerate() {
            let offset = be64(entry, 0) & !0x1ff;
            let aligned = offset.is_multiple_of(cluster) && be64(entry, 0) & 0x1ff == 0;
            let mut block = None;
            if offset != 0 && !aligned {
                self.corrupt(|| format!("refcount block {index} at {offset:#x} is not aligned"));
            } else if offset != 0 && self.add(offset, "refcount block") {
                let known = self.metadata[(offset / cluster) as usize];
                self.own(offset, "refcount block");
                if !known {
                    block = Some(self.read(offset, cluster as usize)?);
                    self.report.blocks.resize(index, None);
                    self.report.blocks.push(Some(offset / cluster));
                }
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn refcount(&self, blocks: &Blocks, cluster: u64) -> u64 {
        let in_block = self.header.refcounts_in_block();
        match blocks.get((cluster / in_block) as usize) {
            Some(Some(block)) => {
                refcounts::get(block, self.header.refcount_order, cluster % in_block)
            }
            _ => 0,
        }
    }

    fn l1(
        &mut self,
        offset: u64,
        entries: u32,
        sharing: Sharing,
        blocks: &Blocks,
    ) -> Result<(), FormatError> {
        self.spend(u64::from(entries))?;
        let table = self.read(offset, 8 * entries as usize)?;
        for (index, entry) in table.chunks_exact(8).enumerate() {
            let entry = be64(entry, 0);
            let offset = entry & OFFSET;
            if offset == 0 {
                continue;
            }
            if !offset.is_multiple_of(self.header.cluster_size()) || entry & !(OFFSET | COPIED) != 0
            {
                self.corrupt(|| format!("L1 entry {index} is {entry:#x}"));
                continue;
            }
            if !self.add(offset, "L2 table") {
                continue;
            }
            let cluster = (offset >> self.header.cluster_bits) as usize;
            if sharing == Sharing::Own {
                self.own(offset, "L2 table");
                self.copied(entry, blocks, "L1 entry", index as u64);
            } else {
                if !self.metadata[cluster] && self.report.uses[cluster] > 1 {
                    self.corrupt(|| format!("L2 table at {offset:#x} overlaps something else"));
                }
                self.metadata[cluster] = true;
            }
            // A table met before by the active state is not gone into again.
            if sharing == Sharing::Shared || self.report.uses[cluster] == 1 {
                self.l2(offset, index as u64, sharing, blocks)?;
            }
        }
        Ok(())
    }

    /// Checks the flag of a cluster that has one use, and may be changed in place.
    fn copied(&mut self, entry: u64, blocks: &Blocks, table: &str, index: u64) {
        if self.header.dirty() {
            return;
        }
        let refcount = self.refcount(blocks, (entry & OFFSET) >> self.header.cluster_bits);
        if (entry & COPIED != 0) != (refcount == 1) {
            self.corrupt(|| {
                format!("{table} {index} is {entry:#x}, with a refcount of {refcount}")
            });
        }
    }

    fn l2(
        &mut self,
        offset: u64,
        l1_index: u64,
        sharing: Sharing,
        blocks: &Blocks,
    ) -> Result<(), FormatError> {
        let cluster = self.header.cluster_size();
        let entries = cluster / 8;
        self.spend(entries)?;
        let table = self.read(offset, cluster as usize)?;
        for (index, entry) in table.chunks_exact(8).enumerate() {
            let entry = be64(entry, 0);
            if entry == 0 {
                continue;
            }
            let number = l1_index * entries + index as u64;
            let active = sharing == Sharing::Own;
            if let Cluster::Packed { at, length } = Cluster::new(entry, self.header.cluster_bits) {
                self.compressed(entry, (at, length), number, active);
                continue;
            }
            let offset = entry & OFFSET;
            let zero = entry & 1 != 0;
            let reserved = entry & !(OFFSET | COPIED | 1) != 0;
            if reserved || !offset.is_multiple_of(cluster) || (zero && self.header.version == 2) {
                self.corrupt(|| format!("L2 entry of cluster {number} is {entry:#x}"));
                continue;
            }
            if offset == 0 || !self.add(offset, "data cluster") {
                continue;
            }
            if self.metadata[(offset / cluster) as usize] {
                self.corrupt(|| format!("data cluster at {offset:#x} overlaps a table"));
            }
            if active {
                self.report.allocated += 1;
                self.copied(entry, blocks, "L2 entry of cluster", number);
            }
        }
        Ok(())
    }

    /// A compressed cluster, whose bytes lie anywhere.
    fn compressed(&mut self, entry: u64, (at, length): (u64, u64), number: u64, active: bool) {
        let end = at + length;
        if entry & COPIED != 0 {
            self.corrupt(|| format!("L2 entry of cluster {number} is {entry:#x}"));
            return;
        }
        let cluster = self.header.cluster_size();
        let mut at = at & !(cluster - 1);
        while at < end {
            if self.add(at, "compressed data") && self.metadata[(at / cluster) as usize] {
                self.corrupt(|| format!("compressed data at {at:#x} overlaps a table"));
            }
            at += cluster;
        }
        if active {
            self.report.allocated += 1;
            self.report.compressed += 1;
        }
    }

    /// The directory of bitmaps, their tables and their data.
    fn bitmaps(&mut self, directory: Directory) -> Result<(), FormatError> {
        /// The part of a table's entry that is an offset (qcow2.txt, "Bitmap table").
        const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
        let Directory { bitmaps, offset, length } = directory;
        self.table(offset, length, "directory of bitmaps");
        let bytes = self.read(offset, length as usize)?;
        let mut rest = &bytes[..];
        for number in 0..bitmaps {
            let Ok((head, _)) = BitmapHead::read_from_prefix(rest) else {
                self.corrupt(|| format!("the directory of bitmaps ends before bitmap {number}"));
                return Ok(());
            };
            let names = u64::from(head.extra_length.get()) + u64::from(head.name_length.get());
            let all = (size_of::<BitmapHead>() as u64 + names).next_multiple_of(8);
            let entries = u64::from(head.table_entries.get());
            let (at, bytes) = (head.table_offset.get(), 8 * entries);
            let within = at.checked_add(bytes).is_some_and(|end| end <= self.source.length);
            if !within || !at.is_multiple_of(self.header.cluster_size()) || bytes > MAX_L1 {
                self.corrupt(|| format!("bitmap {number} has a table at {at:#x} of {bytes} bytes"));
                return Ok(());
            }
            self.spend(entries)?;
            self.table(at, bytes, "table of a bitmap");
            let table = self.read(at, bytes as usize)?;
            for entry in table.chunks_exact(8) {
                let at = be64(entry, 0) & OFFSET;
                if !at.is_multiple_of(self.header.cluster_size()) {
                    self.corrupt(|| format!("bitmap {number} has unaligned data at {at:#x}"));
                } else if at != 0 && self.add(at, "data of a bitmap") {
                    self.own(at, "data of a bitmap");
                }
            }
            rest = usize::try_from(all).ok().and_then(|all| rest.get(all..)).unwrap_or_default();
        }
        Ok(())
    }

    fn compare(&mut self, blocks: &Blocks) {
        let in_block = self.header.refcounts_in_block();
        let described = (blocks.len() as u64).saturating_mul(in_block);
        let clusters = described.max(self.report.uses.len() as u64);
        let mut cluster = 0;
        while cluster < clusters {
            let missing = matches!(blocks.get((cluster / in_block) as usize), None | Some(None));
            let used = self.report.uses.get(cluster as usize).copied().unwrap_or(0);
            if missing && cluster >= self.report.uses.len() as u64 {
                // Nothing to compare until the next block.
                cluster = (cluster / in_block + 1) * in_block;
                continue;
            }
            let refcount = self.refcount(blocks, cluster);
            let used = u64::from(used);
            if refcount > used {
                self.report.leaks += 1;
            } else if refcount < used && !self.header.dirty() {
                let offset = cluster << self.header.cluster_bits;
                self.corrupt(|| {
                    format!(
                        "the cluster at {offset:#x} has {used} uses and a refcount of {refcount}"
                    )
                });
            }
            cluster += 1;
        }
    }
}
