//! Disks that are only read, at once and outside of virtual time, compressed clusters included.
//!
//! Guests write to the images of the crate `qcow2`, in layers above drives; a reader needs a file
//! alone, and takes both kinds of compression.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::entries::{unpack, Cluster, Entry, OFFSET};
use crate::header::{be64, is_qcow2, Source};
use crate::{FormatError, Header};

/// L2 tables that are kept (number), so that a large image's do not fill memory.
const TABLES_KEPT: usize = 1024;
/// Uncompressed clusters that are kept (bytes).
const CLUSTERS_KEPT: usize = 32 << 20;

/// A disk in one image, that is read.
#[derive(Debug)]
pub struct Reader {
    file: Arc<File>,
    length: u64,
    header: Header,
    l1: Vec<u64>,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// L2 tables, by their places.
    tables: HashMap<u64, Arc<Vec<u8>>>,
    /// Compressed clusters that were read, by their entries.
    clusters: HashMap<u64, Arc<Vec<u8>>>,
}

impl Reader {
    /// Returns whether a file begins as an image does.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_image(file: &File) -> io::Result<bool> {
        is_qcow2(&Source::new(file)?)
    }

    /// Opens the image in `file`, which is that at `path`.
    ///
    /// # Errors
    /// A [`FormatError`] that names the file: it is no image, damaged or marked as that, has an
    /// unsupported feature, or is the difference to a backing file.
    pub fn open(file: Arc<File>, path: &Path) -> Result<Self, FormatError> {
        let os = |source| FormatError::Os { path: path.into(), source };
        let source = Source::new(&file).map_err(os)?;
        let header = Header::read(&source, path)?;
        // The tables are not checked here.
        if header.corrupt() {
            return Err(FormatError::Marked(path.into()));
        }
        if header.backing.is_some() {
            let feature = "the difference to a backing file, read alone,".to_owned();
            return Err(FormatError::Unsupported { path: path.into(), feature });
        }
        let l1 = source.bytes(header.l1_offset, 8 * header.l1_entries as usize).map_err(os)?;
        let (l1, length) = (numbers(&l1), source.length);
        Ok(Self { file, length, header, l1, cache: Mutex::default() })
    }

    /// Size of the disk in bytes.
    pub fn size(&self) -> u64 {
        self.header.size
    }

    /// Fills `into` with the disk's bytes from `offset` on.
    ///
    /// # Errors
    /// Beyond the disk's end; if the file cannot be read; if a table or a compressed cluster is
    /// damaged.
    pub fn read_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.size()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let unit = self.header.shape().unit();
        while !into.is_empty() {
            let in_unit = unit - offset % unit;
            let (piece, rest) = into.split_at_mut(in_unit.min(into.len() as u64) as usize);
            let length = piece.len() as u64;
            self.piece(piece, offset)?;
            into = rest;
            offset += length;
        }
        Ok(())
    }

    fn source(&self) -> Source<'_> {
        Source { file: &*self.file, length: self.length }
    }

    /// Reads within one unit of the tables.
    fn piece(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let shape = self.header.shape();
        let table = self.l1.get((offset / shape.covered()) as usize).copied().unwrap_or(0) & OFFSET;
        let entry = match table {
            0 => Entry::default(),
            table => shape.entry(&self.l2(table)?, offset),
        };
        match shape.unit_at(entry, offset).map_err(io::Error::other)? {
            Cluster::Hole | Cluster::Zero { .. } => into.fill(0),
            Cluster::Data { at, .. } => self.source().read(at + offset % shape.unit(), into)?,
            Cluster::Packed { at, length } => {
                let cluster = self.unpacked(entry.word, at, length)?;
                let inside = (offset % shape.cluster()) as usize;
                into.copy_from_slice(&cluster[inside..inside + into.len()]);
            }
        }
        Ok(())
    }

    fn l2(&self, at: u64) -> io::Result<Arc<Vec<u8>>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = cache.tables.get(&at) {
            return Ok(Arc::clone(table));
        }
        if at >= self.length {
            return Err(io::Error::other("an L2 table lies behind the end of the image"));
        }
        let bytes = self.source().bytes(at, self.header.cluster_size() as usize)?;
        let table = Arc::new(bytes);
        if cache.tables.len() >= TABLES_KEPT {
            cache.tables.clear();
        }
        cache.tables.insert(at, Arc::clone(&table));
        Ok(table)
    }

    fn unpacked(&self, entry: u64, at: u64, length: u64) -> io::Result<Arc<Vec<u8>>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = cache.clusters.get(&entry) {
            return Ok(Arc::clone(cluster));
        }
        // The last sector may be cut short by the file's end.
        let length = length.min(self.length.saturating_sub(at));
        let packed = self.source().bytes(at, length as usize)?;
        let size = self.header.cluster_size() as usize;
        let cluster = unpack(&packed, self.header.compression, size)?;
        let cluster = Arc::new(cluster);
        if cache.clusters.len() >= CLUSTERS_KEPT >> self.header.cluster_bits {
            cache.clusters.clear();
        }
        cache.clusters.insert(entry, Arc::clone(&cluster));
        Ok(cluster)
    }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|bytes| be64(bytes, 0)).collect()
}
