//! Reads a disk image in qcow2 (QEMU, docs/interop/qcow2.rst), compressed clusters included, as
//! distributions' images have them.
//!
//! The crate `qcow2` has images that a guest writes to, in layers above drives; this needs a file alone.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use crate::content::{ReadAt, Span};

pub(crate) const MAGIC: &[u8] = b"QFI\xfb";
/// Largest table of tables: that of an image of 2 EiB with clusters of 2 MiB.
const TABLES: u32 = 4 << 20;
/// Bits of the first table's entries, and the second's, that are an offset.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Features without which an image cannot be understood: those that are known to be harmless
/// here are `dirty` (its reference counts may be stale) and the kind of compression.
const DIRTY: u64 = 1;
const KIND: u64 = 8;

/// An open image.
#[derive(Debug)]
pub(crate) struct Image {
    file: Span,
    size: u64,
    cluster_bits: u32,
    zstd: bool,
    tables: Vec<u64>,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    tables: HashMap<u64, Arc<Vec<u64>>>,
    /// Compressed clusters that were read, by their entries.
    clusters: HashMap<u64, Arc<Vec<u8>>>,
}

impl Image {
    /// Opens the image in `file`.
    pub(crate) fn open(file: Span) -> Result<Self, String> {
        let mut header = [0; 112];
        let length = file.length.min(112) as usize;
        file.read_at(&mut header[..length], 0).map_err(|e| e.to_string())?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let version = word(4);
        if !matches!(version, 2 | 3) {
            return Err(format!("it is qcow2 of the unknown version {version}"));
        }
        let features = if version == 3 { long(72) } else { 0 };
        let own = version == 3 && word(100) > 104 && features & KIND != 0;
        let cause = if long(8) != 0 {
            "it is the difference to a backing file: `qemu-img convert` writes one image of both"
        } else if word(32) != 0 {
            "it is encrypted"
        } else if features & !(DIRTY | KIND) != 0 {
            "it has features of qcow2 that are not known: `qemu-img convert -O raw` writes it plain"
        } else if !(9..=21).contains(&word(20)) || word(36) > TABLES || own && header[104] > 1 {
            "its header is damaged"
        } else {
            ""
        };
        if !cause.is_empty() {
            return Err(cause.into());
        }
        let tables = read_numbers(&file, long(40), word(36) as usize)
            .map_err(|_| "its first table is cut short")?;
        let zstd = own && header[104] == 1;
        let cache = Mutex::default();
        Ok(Self { file, size: long(24), cluster_bits: word(20), zstd, tables, cache })
    }

    fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Reads within one cluster.
    fn piece(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let (index, inside) = (offset >> self.cluster_bits, offset & (self.cluster() - 1));
        let per_table = self.cluster() / 8;
        let table = self.tables.get((index / per_table) as usize).copied().unwrap_or(0) & OFFSET;
        if table == 0 {
            into.fill(0);
            return Ok(());
        }
        let entry = self.table(table)?[(index % per_table) as usize];
        if entry & COMPRESSED != 0 {
            let cluster = self.unpacked(entry)?;
            let inside = inside as usize;
            into.copy_from_slice(&cluster[inside..inside + into.len()]);
        } else if entry & ZERO != 0 || entry & OFFSET == 0 {
            into.fill(0);
        } else {
            return self.file.read_at(into, (entry & OFFSET) + inside);
        }
        Ok(())
    }

    fn table(&self, at: u64) -> io::Result<Arc<Vec<u64>>> {
        /// So that a large image's tables do not fill the memory.
        const KEPT: usize = 1024;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = cache.tables.get(&at) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(read_numbers(&self.file, at, (self.cluster() / 8) as usize)?);
        if cache.tables.len() >= KEPT {
            cache.tables.clear();
        }
        cache.tables.insert(at, Arc::clone(&table));
        Ok(table)
    }

    fn unpacked(&self, entry: u64) -> io::Result<Arc<Vec<u8>>> {
        /// Bytes of all those that are kept.
        const KEPT: usize = 32 << 20;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = cache.clusters.get(&entry) {
            return Ok(Arc::clone(cluster));
        }
        let bits = 62 - (self.cluster_bits - 8);
        let start = entry & ((1 << bits) - 1);
        let sectors = ((entry & (COMPRESSED - 1)) >> bits) + 1;
        // The last sector may be cut short by the file's end.
        let length = (sectors * 512 - start % 512).min(self.file.length.saturating_sub(start));
        let mut packed = vec![0; length as usize];
        self.file.read_at(&mut packed, start)?;
        let mut cluster = Vec::new();
        let most = self.cluster();
        if self.zstd {
            let decoder = ruzstd::decoding::StreamingDecoder::new(&packed[..]);
            decoder.map_err(io::Error::other)?.take(most).read_to_end(&mut cluster)?;
        } else {
            flate2::read::DeflateDecoder::new(&packed[..]).take(most).read_to_end(&mut cluster)?;
        }
        if cluster.len() as u64 != most {
            return Err(io::Error::other("a compressed cluster is damaged"));
        }
        let cluster = Arc::new(cluster);
        if cache.clusters.len() >= KEPT >> self.cluster_bits {
            cache.clusters.clear();
        }
        cache.clusters.insert(entry, Arc::clone(&cluster));
        Ok(cluster)
    }
}

fn read_numbers(file: &Span, at: u64, count: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    file.read_at(&mut bytes, at)?;
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    Ok(bytes.chunks_exact(8).map(number).collect())
}

impl ReadAt for Image {
    fn read_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while !into.is_empty() {
            let left = self.cluster() - (offset & (self.cluster() - 1));
            let now = (into.len() as u64).min(left) as usize;
            let (piece, rest) = into.split_at_mut(now);
            self.piece(piece, offset)?;
            into = rest;
            offset += now as u64;
        }
        Ok(())
    }

    fn length(&self) -> u64 {
        self.size
    }
}
