//! The header of a qcow2 image and its table of snapshots, as far as they have
//! to be known before the image is opened (QEMU, docs/interop/qcow2.txt).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use stasis_layout::{FromBytes, IntoBytes};

use crate::layout::{self, BitmapsExtension, Extension, Further, SnapshotExtra, SnapshotHead};
use crate::FormatError;

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

/// Compression of an image's compressed clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As raw deflate streams (RFC 1951).
    Deflate,
    /// As zstd frames (RFC 8878).
    Zstd,
}

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

/// The big-endian number at `at`; 0 beyond the end.
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
    eight.map_or(0, |bytes| u64::from_be_bytes(*bytes))
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
        let (length, refcount_order) = match version {
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
        header.check_features(&unsupported, &damaged)?;
        header.check_tables(source.length, &damaged)?;
        if length < least || !length.is_multiple_of(8) || u64::from(length) > header.cluster_size()
        {
            return Err(damaged(format!("a header of {length} bytes")));
        }
        let mut further = Further::default();
        if length > least {
            source.read(u64::from(least), further.as_mut_bytes()).map_err(os)?;
        }
        let kind = further.compression;
        header.compression = match (header.incompatible & COMPRESSION_TYPE != 0, kind) {
            (false, 0) => Compression::Deflate,
            (true, 1) => Compression::Zstd,
            (true, 2..) => return Err(unsupported(&format!("compression of the kind {kind}"))),
            _ => return Err(damaged(format!("the compression type {kind} against its bit"))),
        };
        let name = (first.backing_offset.get(), first.backing_length.get());
        header.read_names(source, length, name, path)?;
        Ok(header)
    }

    fn check_features(
        &self,
        unsupported: &dyn Fn(&str) -> FormatError,
        damaged: &dyn Fn(String) -> FormatError,
    ) -> Result<(), FormatError> {
        let bits = self.incompatible;
        for (bit, feature) in
            [(EXTERNAL_DATA, "an external data file"), (EXTENDED_L2, "extended L2 entries")]
        {
            if bits & bit != 0 {
                return Err(unsupported(feature));
            }
        }
        if bits & CORRUPT != 0 {
            return Err(damaged("it is marked as corrupt".into()));
        }
        let newer = bits & !(DIRTY | COMPRESSION_TYPE);
        if newer != 0 {
            return Err(unsupported(&format!("a feature of a newer version ({newer:#x})")));
        }
        if !self.size.is_multiple_of(512) {
            return Err(unsupported(&format!("a disk of {} bytes, not whole sectors", self.size)));
        }
        if self.refcount_order > 6 {
            return Err(damaged(format!("refcounts of 2^{} bits", self.refcount_order)));
        }
        Ok(())
    }

    fn check_tables(
        &self,
        length: u64,
        damaged: &dyn Fn(String) -> FormatError,
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
                () if bytes > limit => Err(damaged(format!("a {name} of {bytes} bytes"))),
                () if !within => Err(damaged(format!("a {name} behind its end"))),
                () => Ok(()),
            }
        };
        let l1 = 8 * u64::from(self.l1_entries);
        let covered = cluster * (cluster / 8);
        if self.size.div_ceil(covered) > u64::from(self.l1_entries) {
            return Err(damaged("an L1 table too short for the disk".into()));
        }
        place("L1 table", self.l1_offset, l1, MAX_L1)?;
        let reftable = cluster * u64::from(self.reftable_clusters);
        place("refcount table", self.reftable_offset, reftable, MAX_REFTABLE)?;
        if self.reftable_clusters == 0 || self.reftable_offset == 0 {
            return Err(damaged("no refcount table".into()));
        }
        if self.snapshots > MAX_SNAPSHOTS {
            return Err(damaged(format!("{} snapshots", self.snapshots)));
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

/// Returns the internal snapshots, and the bytes of their table.
///
/// # Errors
/// A [`FormatError`] if the table cannot be read, or contradicts itself.
pub fn snapshots(
    source: &Source,
    header: &Header,
    path: &Path,
) -> Result<(Vec<Snapshot>, u64), FormatError> {
    let os = |source| FormatError::Os { path: path.into(), source };
    let damaged = |contradiction: &str| FormatError::Damaged {
        path: path.into(),
        contradiction: contradiction.to_owned(),
    };
    let mut found = Vec::new();
    if header.snapshots == 0 {
        return Ok((found, 0));
    }
    let start = header.snapshots_offset;
    if !start.is_multiple_of(header.cluster_size()) {
        return Err(damaged("an unaligned table of snapshots"));
    }
    let mut at = start;
    for _ in 0..header.snapshots {
        let mut head = SnapshotHead::default();
        let length = head.as_bytes().len();
        if at.checked_add(length as u64).is_none_or(|end| end > source.length.next_multiple_of(8)) {
            return Err(damaged("a table of snapshots behind its end"));
        }
        source.read(at, head.as_mut_bytes()).map_err(os)?;
        let [id, name] = [head.id_length, head.name_length].map(|length| usize::from(length.get()));
        let extra = head.extra_length.get() as usize;
        if extra > 1024 {
            return Err(damaged("a snapshot with extra data that is too long"));
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
        let covered = header.cluster_size() * (header.cluster_size() / 8);
        let end = snapshot.l1_offset.checked_add(l1);
        if l1 > MAX_L1
            || !snapshot.l1_offset.is_multiple_of(header.cluster_size())
            || end.is_none_or(|end| end > source.length.next_multiple_of(header.cluster_size()))
            || snapshot.size > 1 << 56
            || snapshot.size.div_ceil(covered) > u64::from(snapshot.l1_entries)
        {
            return Err(damaged("a snapshot with an impossible L1 table"));
        }
        found.push(snapshot);
        at += (length + extra + id + name).next_multiple_of(8) as u64;
    }
    Ok((found, at - start))
}
