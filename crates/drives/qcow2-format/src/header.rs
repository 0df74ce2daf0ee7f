//! The header of a qcow2 image and its table of snapshots, as far as they have
//! to be known before the image is opened (QEMU, docs/interop/qcow2.txt).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use stasis_layout::{FromBytes, IntoBytes};

use crate::entries::{Compression, Shape};
use crate::layout::{self, BitmapsExtension, Extension, Further, SnapshotExtra, SnapshotHead};
use crate::FormatError;

pub use crate::layout::be64;

/// The first bytes of an image.
pub const MAGIC: u32 = 0x5146_49fb;
/// Longest tables that QEMU opens (block/qcow2.h: `QCOW_MAX_L1_SIZE`,
/// `QCOW_MAX_REFTABLE_SIZE`, `QCOW_MAX_SNAPSHOTS`), in bytes and in number.
pub const MAX_L1: u64 = 32 << 20;
const MAX_REFTABLE: u64 = 8 << 20;
const MAX_SNAPSHOTS: u32 = 65536;
/// Longest name of a backing file (qcow2.txt: `backing_file_size`).
const MAX_NAME: u32 = 1023;

/// Header extension with the format of the backing file (qcow2.txt, "Header extensions").
pub const BACKING_FORMAT: u32 = 0xe279_2aca;

/// Header extension with bitmaps (qcow2.txt, "Bitmaps extension"), and limits on them (block/qcow2.h:
/// `QCOW2_MAX_BITMAPS`, `QCOW2_MAX_BITMAP_DIRECTORY_SIZE`).
const BITMAPS_EXTENSION: u32 = 0x2385_2875;
const MAX_BITMAPS: u32 = 65535;
const MAX_DIRECTORY: u64 = 1024 * MAX_BITMAPS as u64;

/// Incompatible feature bit: refcounts may be stale (qcow2.txt: bytes 72 to 79).
pub const DIRTY: u64 = 1;
const CORRUPT: u64 = 2;
const EXTERNAL_DATA: u64 = 4;
const COMPRESSION_TYPE: u64 = 8;
const EXTENDED_L2: u64 = 16;
/// Binary logarithm of the smallest clusters of images with extended L2 entries, of which a subcluster
/// has 512 bytes (qcow2.txt, "Extended L2 Entries").
const MIN_EXTENDED_BITS: u32 = 14;
/// Compatible feature bit (bytes 80 to 87).
pub const LAZY_REFCOUNTS: u64 = 1;
/// Autoclear feature bit (bytes 88 to 95).
const BITMAPS: u64 = 1;

/// Content of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Binary logarithm of the cluster size.
    pub cluster_bits: u32,
    /// Size of the disk in bytes.
    pub size: u64,
    /// Name of the backing file as written.
    pub backing: Option<String>,
    /// Its format as written.
    pub backing_format: Option<String>,
    /// Entries of the active L1 table.
    pub l1_entries: u32,
    /// Its first byte in the file.
    pub l1_offset: u64,
    /// First byte of the refcount table in the file.
    pub reftable_offset: u64,
    /// Its length in clusters.
    pub reftable_clusters: u32,
    /// Number of internal snapshots.
    pub snapshots: u32,
    /// First byte of their table.
    pub snapshots_offset: u64,
    /// Incompatible features.
    pub incompatible: u64,
    /// Compatible features.
    pub compatible: u64,
    /// Features that a program clears if it does not support them.
    pub autoclear: u64,
    /// Binary logarithm of a refcount's width in bits.
    pub refcount_order: u32,
    /// Compression of compressed clusters.
    pub compression: Compression,
    /// The directory of its bitmaps, where somebody keeps these up to date.
    pub directory: Option<Directory>,
}

/// The directory of an image's bitmaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directory {
    /// Number of bitmaps.
    pub bitmaps: u32,
    /// Its first byte in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// A header that was read in spite of its faults.
#[derive(Debug)]
pub struct Salvaged {
    /// The header.
    pub header: Header,
    /// Contradictions in it.
    pub faults: Vec<String>,
    /// True if there is a backing file, whose name cannot be read.
    pub backing_unknown: bool,
}

/// Decides about a fault: an error, or nothing.
type Judge<'a> = &'a mut dyn FnMut(FormatError) -> Result<(), FormatError>;

/// Bytes that an image is read from.
pub trait ReadAt: std::fmt::Debug {
    /// Reads bytes from `offset` on into `into`. Returns the number of bytes, 0 at the end of the
    /// image.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }
}

/// Reads of a file in which everything behind the end is zero.
#[derive(Debug)]
pub struct Source<'a> {
    /// The file.
    pub file: &'a dyn ReadAt,
    /// Its length in bytes.
    pub length: u64,
}

impl<'a> Source<'a> {
    /// Returns the source of a whole file, or of a block device.
    ///
    /// # Errors
    /// If its length cannot be found.
    pub fn new(file: &'a File) -> io::Result<Self> {
        use std::io::{Seek, SeekFrom};
        let mut end = file;
        // Block devices have no length among their metadata.
        Ok(Self { file, length: end.seek(SeekFrom::End(0))? })
    }

    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            match self.file.read_at(into, offset) {
                Ok(0) => {
                    into.fill(0);
                    return Ok(());
                }
                Ok(count) => {
                    into = &mut into[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// `length` bytes from `offset` on.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(offset, &mut bytes)?;
        Ok(bytes)
    }
}

/// Returns whether a file begins as a qcow2 image does.
///
/// # Errors
/// The file cannot be read.
pub fn is_qcow2(source: &Source) -> io::Result<bool> {
    Ok(source.bytes(0, 4)? == MAGIC.to_be_bytes())
}

impl Header {
    /// Reads and checks the header of `path`.
    ///
    /// # Errors
    /// A [`FormatError`] that names the field that cannot be.
    pub fn read(source: &Source, path: &Path) -> Result<Self, FormatError> {
        Self::judged(source, path, &mut Err)
    }

    /// Reads the header of `path` as far as its disk can be found by it, whatever else it
    /// contradicts: refcounts, snapshots, the end of the L1 table, the name of the backing file.
    ///
    /// # Errors
    /// A [`FormatError`] where nothing of the disk can be found.
    pub fn salvage(source: &Source, path: &Path) -> Result<Salvaged, FormatError> {
        let mut faults = Vec::new();
        let header = Self::judged(source, path, &mut |error| {
            faults.push(match error {
                FormatError::Damaged { contradiction, .. } => contradiction,
                FormatError::Unsupported { feature, .. } => feature,
                error => return Err(error),
            });
            Ok(())
        })?;
        let mut first = layout::Header::default();
        let os = |source| FormatError::Os { path: path.into(), source };
        source.read(0, first.as_mut_bytes()).map_err(os)?;
        let backing_unknown = first.backing_offset.get() != 0 && header.backing.is_none();
        Ok(Salvaged { header, faults, backing_unknown })
    }

    /// Reads the header; `judge` decides about each fault with which the disk can still be found.
    fn judged(source: &Source, path: &Path, judge: Judge) -> Result<Self, FormatError> {
        let os = |source| FormatError::Os { path: path.into(), source };
        let unsupported = |feature: &str| FormatError::Unsupported {
            path: path.into(),
            feature: feature.to_owned(),
        };
        let damaged =
            |contradiction: String| FormatError::Damaged { path: path.into(), contradiction };

        let mut first = layout::Header::default();
        source.read(0, first.as_mut_bytes()).map_err(os)?;
        if first.magic.get() != MAGIC {
            return Err(FormatError::NotQcow2(path.into()));
        }
        let version = first.version.get();
        if !matches!(version, 2 | 3) {
            return Err(unsupported(&format!("qcow2 version {version}")));
        }
        let least = layout::LENGTH[usize::from(version > 2)] as u32;
        if source.length < u64::from(least) {
            return Err(damaged(format!(
                "it ends after {} bytes, within its header",
                source.length
            )));
        }
        let mut third = layout::Version3::default();
        if version > 2 {
            source.read(layout::LENGTH[0] as u64, third.as_mut_bytes()).map_err(os)?;
        }
        let (mut length, refcount_order) = match version {
            2 => (least, 4),
            _ => (third.header_length.get(), third.refcount_order.get()),
        };
        let mut header = Self {
            version,
            cluster_bits: first.cluster_bits.get(),
            size: first.size.get(),
            backing: None,
            backing_format: None,
            l1_entries: first.l1_entries.get(),
            l1_offset: first.l1_offset.get(),
            reftable_offset: first.reftable_offset.get(),
            reftable_clusters: first.reftable_clusters.get(),
            snapshots: first.snapshots.get(),
            snapshots_offset: first.snapshots_offset.get(),
            incompatible: third.incompatible.get(),
            compatible: third.compatible.get(),
            autoclear: third.autoclear.get(),
            refcount_order,
            compression: Compression::Deflate,
            directory: None,
        };
        match first.encryption.get() {
            0 => {}
            1 | 2 => return Err(unsupported("encryption")),
            other => return Err(damaged(format!("the unknown encryption method {other}"))),
        }
        if !(9..=21).contains(&header.cluster_bits) {
            return Err(damaged(format!("a cluster size of 2^{} bytes", header.cluster_bits)));
        }
        header.check_features(&unsupported, &damaged, judge)?;
        header.check_tables(source.length, &damaged, judge)?;
        if length < least || !length.is_multiple_of(8) || u64::from(length) > header.cluster_size()
        {
            judge(damaged(format!("a header of {length} bytes")))?;
            length = least;
        }
        let mut further = Further::default();
        if length > least {
            source.read(u64::from(least), further.as_mut_bytes()).map_err(os)?;
        }
        let (has_type, kind) = (header.incompatible & COMPRESSION_TYPE != 0, further.compression);
        header.compression = if has_type { Compression::Zstd } else { Compression::Deflate };
        match (has_type, kind) {
            (false, 0) | (true, 1) => {}
            (true, 2..) => return Err(unsupported(&format!("compression of the kind {kind}"))),
            _ => judge(damaged(format!("the compression type {kind} against its bit")))?,
        }
        let name = (first.backing_offset.get(), first.backing_length.get());
        header.read_names(source, length, name, path).or_else(judge)?;
        Ok(header)
    }

    fn check_features(
        &mut self,
        unsupported: &dyn Fn(&str) -> FormatError,
        damaged: &dyn Fn(String) -> FormatError,
        judge: Judge,
    ) -> Result<(), FormatError> {
        let bits = self.incompatible;
        if bits & EXTERNAL_DATA != 0 {
            return Err(unsupported("an external data file"));
        }
        let newer = bits & !(DIRTY | CORRUPT | COMPRESSION_TYPE | EXTENDED_L2);
        if newer != 0 {
            return Err(unsupported(&format!("a feature of a newer version ({newer:#x})")));
        }
        if self.extended_l2() && self.cluster_bits < MIN_EXTENDED_BITS {
            return Err(damaged(format!(
                "extended L2 entries for clusters of {} bytes",
                self.cluster_size()
            )));
        }
        if !self.size.is_multiple_of(512) {
            judge(unsupported(&format!("a disk of {} bytes, no whole sectors,", self.size)))?;
        }
        if self.refcount_order > 6 {
            judge(damaged(format!("refcounts of 2^{} bits", self.refcount_order)))?;
            self.refcount_order = 4;
        }
        Ok(())
    }

    fn check_tables(
        &mut self,
        length: u64,
        damaged: &dyn Fn(String) -> FormatError,
        judge: Judge,
    ) -> Result<(), FormatError> {
        let cluster = self.cluster_size();
        if self.size > 1 << 56 {
            return Err(damaged(format!("a disk of {} bytes", self.size)));
        }
        let place = |name: &str, offset: u64, bytes: u64, limit: u64| {
            let within = offset
                .checked_add(bytes)
                .is_some_and(|end| end <= length.next_multiple_of(cluster));
            match () {
                () if !offset.is_multiple_of(cluster) => {
                    Err(damaged(format!("an unaligned {name}")))
                }
                () if bytes > limit => Err(damaged(format!("{name} of {bytes} bytes"))),
                () if !within => Err(damaged(format!("{name} behind its end"))),
                () => Ok(()),
            }
        };
        let needed = self.size.div_ceil(self.shape().covered());
        // Without the begin of the L1 table there is nothing to find.
        if !self.l1_offset.is_multiple_of(cluster) {
            return Err(damaged("an unaligned L1 table".into()));
        }
        if needed > MAX_L1 / 8 || needed > 0 && self.l1_offset >= length {
            place("an L1 table", self.l1_offset, 8 * needed, MAX_L1)?;
        }
        if needed > u64::from(self.l1_entries) {
            judge(damaged("an L1 table too short for the disk".into()))?;
        }
        let l1 = place("an L1 table", self.l1_offset, 8 * u64::from(self.l1_entries), MAX_L1);
        if let Err(fault) = l1 {
            judge(fault)?;
            self.l1_entries = self.l1_entries.min(needed as u32);
        }
        let reftable = cluster * u64::from(self.reftable_clusters);
        place("a refcount table", self.reftable_offset, reftable, MAX_REFTABLE)
            .or_else(&mut *judge)?;
        if self.reftable_clusters == 0 || self.reftable_offset == 0 {
            judge(damaged("no refcount table".into()))?;
        }
        if self.snapshots > MAX_SNAPSHOTS {
            judge(damaged(format!("{} snapshots", self.snapshots)))?;
        }
        // QEMU opens no image where this is not so, even without a snapshot (block/qcow2.c:
        // `qcow2_validate_table`).
        let at = self.snapshots_offset;
        if !at.is_multiple_of(cluster) || at > i64::MAX as u64 {
            judge(damaged("an unaligned table of snapshots".into()))?;
        }
        Ok(())
    }

    fn read_names(
        &mut self,
        source: &Source,
        length: u32,
        (offset, bytes): (u64, u32),
        path: &Path,
    ) -> Result<(), FormatError> {
        let os = |source| FormatError::Os { path: path.into(), source };
        let damaged = |contradiction: &str| FormatError::Damaged {
            path: path.into(),
            contradiction: contradiction.to_owned(),
        };
        let cluster = self.cluster_size();
        if offset != 0 {
            let end = offset.checked_add(u64::from(bytes));
            let outside = offset < u64::from(length) || end.is_none_or(|end| end > cluster);
            if bytes > MAX_NAME || outside {
                return Err(damaged("the name of its backing file is not within its header"));
            }
            let name = source.bytes(offset, bytes as usize).map_err(os)?;
            let name = String::from_utf8(name)
                .map_err(|_| damaged("the name of its backing file is no text"))?;
            self.backing = Some(name);
        }
        // Header extensions, each of a type, a length and its data in multiples of 8, up to
        // the name of the backing file.
        let mut at = u64::from(length);
        let end = if offset == 0 { cluster } else { offset };
        while at + 8 <= end {
            let mut head = Extension::default();
            source.read(at, head.as_mut_bytes()).map_err(os)?;
            let (kind, bytes) = (head.kind.get(), u64::from(head.length.get()));
            if kind == 0 {
                return Ok(());
            }
            if at + 8 + bytes > end {
                return Err(damaged("a header extension is longer than the header"));
            }
            if kind == BACKING_FORMAT {
                let name = source.bytes(at + 8, bytes as usize).map_err(os)?;
                let name = String::from_utf8(name)
                    .map_err(|_| damaged("the format of its backing file is no text"))?;
                if self.backing_format.replace(name).is_some() {
                    return Err(damaged("the format of its backing file is there twice"));
                }
            }
            if kind == BITMAPS_EXTENSION && self.bitmaps() {
                let mut extension = BitmapsExtension::default();
                source.read(at + 8, extension.as_mut_bytes()).map_err(os)?;
                let [offset, length] =
                    [extension.directory_offset.get(), extension.directory_length.get()];
                let bitmaps = extension.bitmaps.get();
                if !(1..=MAX_BITMAPS).contains(&bitmaps)
                    || length > MAX_DIRECTORY
                    || !offset.is_multiple_of(cluster)
                    || bytes != extension.as_bytes().len() as u64
                {
                    return Err(damaged("an impossible extension for bitmaps"));
                }
                self.directory = Some(Directory { bitmaps, offset, length });
            }
            at += 8 + bytes.next_multiple_of(8);
        }
        Ok(())
    }

    /// Bytes of a cluster.
    pub fn cluster_size(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Clusters that a refcount block describes.
    pub fn refcounts_in_block(&self) -> u64 {
        (self.cluster_size() * 8) >> self.refcount_order
    }

    /// Shape of its L2 tables.
    pub fn shape(&self) -> Shape {
        Shape { cluster_bits: self.cluster_bits, extended: self.extended_l2() }
    }

    /// Returns whether entries of L2 tables tell of parts of clusters.
    pub fn extended_l2(&self) -> bool {
        self.incompatible & EXTENDED_L2 != 0
    }

    /// Returns whether a program has found it corrupt and marked it.
    pub fn corrupt(&self) -> bool {
        self.incompatible & CORRUPT != 0
    }

    /// Returns whether refcounts are written late.
    pub fn lazy_refcounts(&self) -> bool {
        self.compatible & LAZY_REFCOUNTS != 0
    }

    /// Returns whether it was in use when its program ended.
    pub fn dirty(&self) -> bool {
        self.incompatible & DIRTY != 0
    }

    /// Returns whether it has bitmaps that someone else keeps up to date.
    pub fn bitmaps(&self) -> bool {
        self.autoclear & BITMAPS != 0
    }
}

/// An internal snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number, as text.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Size of the disk then, in bytes.
    pub size: u64,
    /// First byte of its L1 table in the file.
    pub l1_offset: u64,
    /// Entries of that table.
    pub l1_entries: u32,
}

/// The table of internal snapshots.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// Those that can be read.
    pub found: Vec<Snapshot>,
    /// Bytes of the table.
    pub length: u64,
    /// Contradictions in it.
    pub faults: Vec<String>,
}

/// Reads the internal snapshots.
///
/// # Errors
/// A [`FormatError`] if the table cannot be read.
pub fn snapshots(source: &Source, header: &Header, path: &Path) -> Result<Snapshots, FormatError> {
    let os = |source| FormatError::Os { path: path.into(), source };
    let mut table = Snapshots::default();
    let start = header.snapshots_offset;
    let cluster = header.cluster_size();
    let file = source.length.next_multiple_of(cluster);
    let mut at = start;
    for number in 0..header.snapshots.min(MAX_SNAPSHOTS) {
        let mut head = SnapshotHead::default();
        let length = head.as_bytes().len();
        if at.checked_add(length as u64).is_none_or(|end| end > source.length.next_multiple_of(8)) {
            table.faults.push(format!(
                "the table of {} snapshots ends behind the end of the file, with snapshot {number}",
                header.snapshots
            ));
            break;
        }
        source.read(at, head.as_mut_bytes()).map_err(os)?;
        let [id, name] = [head.id_length, head.name_length].map(|length| usize::from(length.get()));
        let extra = head.extra_length.get() as usize;
        if extra > 1024 {
            table.faults.push(format!("snapshot {number} has {extra} bytes of extra data"));
            break;
        }
        let rest = source.bytes(at + length as u64, extra + id + name).map_err(os)?;
        let then = SnapshotExtra::read_from_prefix(&rest[..extra]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let snapshot = Snapshot {
            id: text(&rest[extra..extra + id]),
            name: text(&rest[extra + id..]),
            size: then.map_or(header.size, |(then, _)| then.size.get()),
            l1_offset: head.l1_offset.get(),
            l1_entries: head.l1_entries.get(),
        };
        let l1 = 8 * u64::from(snapshot.l1_entries);
        let end = snapshot.l1_offset.checked_add(l1);
        if l1 > MAX_L1
            || !snapshot.l1_offset.is_multiple_of(cluster)
            || end.is_none_or(|end| end > file)
            || snapshot.size > 1 << 56
            || snapshot.size.div_ceil(header.shape().covered()) > u64::from(snapshot.l1_entries)
        {
            table.faults.push(format!(
                "snapshot {number} (`{}`) has an impossible L1 table: {l1} bytes at {:#x}",
                snapshot.name, snapshot.l1_offset
            ));
        } else {
            table.found.push(snapshot);
        }
        at += (length + extra + id + name).next_multiple_of(8) as u64;
        table.length = at - start;
    }
    Ok(table)
}
