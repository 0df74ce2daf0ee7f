//! Check of the uses of each cluster in an image's tables against its refcounts.
//!
//! The crate `qcow2` trusts an image's tables; so an image is checked as a whole before it is
//! opened.

use std::path::Path;

use crate::entries::{Cluster, Entry, COPIED, OFFSET, ZERO};
use stasis_layout::FromBytes as _;

use crate::header::{be64, snapshots, Directory, Snapshot, Source, MAX_L1};
use crate::layout::BitmapHead;
use crate::{refcounts, FormatError, Header};

/// Entries of tables that are looked at before a check gives up: those of
/// 8 TiB in clusters of 64 KiB, twice over. Snapshots that share tables could
/// otherwise make a small file take hours.
pub const BUDGET: u64 = 1 << 28;
/// Clusters of the largest file that is checked.
pub const MAX_CLUSTERS: u64 = 1 << 28;
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
    /// Clusters of the file that nothing uses and that are not free.
    pub leaks: u64,
    /// Refcounts, and flags that depend on them, that are behind in an image that was not closed:
    /// opening it to be written finds them again.
    pub stale: u64,
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

/// Outcome of a check, numbered as the exit statuses of `qemu-img check` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Sound = 0,
    /// Something contradicts itself, or refcounts are behind.
    Damaged = 2,
    /// Clusters have leaked, and no more.
    Leaks = 3,
}

impl Report {
    /// The outcome.
    pub fn verdict(&self) -> Verdict {
        match (self.corruption_count + self.stale, self.leaks) {
            (0, 0) => Verdict::Sound,
            (0, _) => Verdict::Leaks,
            _ => Verdict::Damaged,
        }
    }

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
    let table = snapshots(source, header, path)?;
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
    for fault in &table.faults {
        checker.corrupt(|| fault.clone());
    }
    let found = table.found;
    checker.report.total = header.size.div_ceil(header.cluster_size());
    checker.table(0, header.cluster_size(), "header");
    let reftable = header.cluster_size() * u64::from(header.reftable_clusters);
    checker.table(header.reftable_offset, reftable, "refcount table");
    checker.table(header.l1_offset, 8 * u64::from(header.l1_entries), "L1 table");
    checker.table(header.snapshots_offset, table.length, "table of snapshots");
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
            // Entries that the file does not have are none that were not written.
            if offset + self.header.cluster_size() > self.source.length {
                self.corrupt(|| format!("the file ends within the L2 table at {offset:#x}"));
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
        let refcount = self.refcount(blocks, (entry & OFFSET) >> self.header.cluster_bits);
        if (entry & COPIED != 0) != (refcount == 1) {
            if self.header.dirty() {
                self.report.stale += 1;
                return;
            }
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
        let shape = self.header.shape();
        self.spend(cluster / 8)?;
        let table = self.read(offset, cluster as usize)?;
        for index in 0..shape.in_table() {
            let Entry { word: entry, bits } = shape.entry(&table, index << shape.cluster_bits);
            if (entry, bits) == (0, 0) {
                continue;
            }
            let number = l1_index * shape.in_table() + index;
            let active = sharing == Sharing::Own;
            if let Some(error) = shape.contradiction(Entry { word: entry, bits }) {
                self.corrupt(|| format!("L2 entry of cluster {number} is {entry:#x}: {error}"));
                continue;
            }
            if let Cluster::Packed { at, length } = Cluster::new(entry, self.header.cluster_bits) {
                self.compressed(entry, (at, length), number, active);
                continue;
            }
            let offset = entry & OFFSET;
            let zero = entry & ZERO != 0;
            let reserved = entry & !(OFFSET | COPIED | ZERO) != 0;
            if reserved || (zero && (self.header.version == 2 || shape.extended)) {
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
                let disk = self.header.size.saturating_sub(number << shape.cluster_bits);
                let data = shape.data(Entry { word: entry, bits }).min(disk);
                if offset + data > self.source.length {
                    self.corrupt(|| format!("the file ends within the data at {offset:#x}"));
                }
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
        let in_file = self.source.length.div_ceil(self.header.cluster_size());
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
                // A count of what the file does not have takes no room.
                self.report.leaks += u64::from(cluster < in_file);
            } else if refcount < used && self.header.dirty() {
                self.report.stale += 1;
            } else if refcount < used {
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
