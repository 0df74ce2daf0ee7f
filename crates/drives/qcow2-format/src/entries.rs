//! Entries of L1 and L2 tables, and compressed clusters (qcow2.txt, "Cluster mapping").

use std::io::{self, Read};

use crate::layout::be64;

/// Bits of an entry of an L1 or L2 table that are an offset (bytes).
pub const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Flag of an entry: the table or the cluster has one use, and can be changed in place.
pub const COPIED: u64 = 1 << 63;
/// Flag of an L2 entry: the cluster is compressed.
const COMPRESSED: u64 = 1 << 62;
/// Flag of an L2 entry: the cluster reads as zeroes (version 3, without extended entries).
pub const ZERO: u64 = 1;
/// Parts of a cluster that an extended entry has bits for (qcow2.txt, "Extended L2 Entries").
const SUBCLUSTERS: u64 = 32;
/// Second word of an extended entry all of whose parts have data.
pub const ALL_DATA: u64 = 0xffff_ffff;
/// Second word of an extended entry all of whose parts are zeroes.
pub const ALL_ZEROES: u64 = ALL_DATA << SUBCLUSTERS;

/// Compression of an image's compressed clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As raw deflate streams (RFC 1951).
    Deflate,
    /// As zstd frames (RFC 8878).
    Zstd,
}

/// Shape of the L2 tables of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Binary logarithm of the cluster size.
    pub cluster_bits: u32,
    /// True if each entry has a second word, with bits for the parts of its cluster.
    pub extended: bool,
}

/// An entry of an L2 table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its first word: where the cluster lies.
    pub word: u64,
    /// Its second word: which subclusters have data (bits 0 to 31) and which are zeroes (32 to 63); 0
    /// where entries are not extended.
    pub bits: u64,
}

/// Contradiction in an entry, which tells no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The data begins within a cluster.
    #[error("a data cluster at {0:#x} is not aligned")]
    Unaligned(u64),
    /// A subcluster has data and is zeroes.
    #[error("a subcluster is both data and zeroes")]
    Both,
    /// A subcluster has data, and its cluster has no place.
    #[error("a subcluster with data lies nowhere")]
    Nowhere,
    /// A compressed cluster has subclusters.
    #[error("a compressed cluster has subclusters")]
    Compressed,
}

impl Shape {
    /// Bytes of a cluster, and of a table.
    pub fn cluster(self) -> u64 {
        1 << self.cluster_bits
    }

    /// Bytes of an entry.
    pub fn entry_size(self) -> u64 {
        8 << u32::from(self.extended)
    }

    /// Entries of a table.
    pub fn in_table(self) -> u64 {
        self.cluster() / self.entry_size()
    }

    /// Bytes of the disk that a table describes.
    pub fn covered(self) -> u64 {
        self.cluster() * self.in_table()
    }

    /// Bytes of the disk that are alike: a cluster, or one of its subclusters.
    pub fn unit(self) -> u64 {
        if self.extended {
            self.cluster() / SUBCLUSTERS
        } else {
            self.cluster()
        }
    }

    /// Place within its table of the entry for the byte `offset` of the disk (bytes).
    pub fn place(self, offset: u64) -> u64 {
        (offset >> self.cluster_bits) % self.in_table() * self.entry_size()
    }

    /// The entry for the byte `offset` of the disk in the table with these bytes.
    pub fn entry(self, table: &[u8], offset: u64) -> Entry {
        let place = self.place(offset) as usize;
        let bits = if self.extended { be64(table, place + 8) } else { 0 };
        Entry { word: be64(table, place), bits }
    }

    /// Content of the unit with the byte `offset` of the disk, whose cluster has this entry. Data
    /// begins where the unit does; a compressed cluster is whole.
    ///
    /// # Errors
    /// The entry contradicts itself.
    pub fn unit_at(self, entry: Entry, offset: u64) -> Result<Cluster, EntryError> {
        let number = offset % self.cluster() / self.unit();
        let cluster = match Cluster::new(entry.word, self.cluster_bits) {
            packed @ Cluster::Packed { .. } if entry.bits == 0 => return Ok(packed),
            Cluster::Packed { .. } => return Err(EntryError::Compressed),
            cluster if !self.extended => cluster,
            _ => {
                let (at, own) = (entry.word & OFFSET, entry.word & COPIED != 0);
                let bit = |shift: u64| entry.bits >> (shift + number) & 1 != 0;
                match (bit(0), bit(SUBCLUSTERS)) {
                    (true, true) => return Err(EntryError::Both),
                    (true, false) if at == 0 => return Err(EntryError::Nowhere),
                    (true, false) => Cluster::Data { at, own },
                    (false, true) => Cluster::Zero { at, own },
                    (false, false) => Cluster::Hole,
                }
            }
        };
        match cluster {
            Cluster::Data { at, .. } if at % self.cluster() != 0 => Err(EntryError::Unaligned(at)),
            Cluster::Data { at, own } => Ok(Cluster::Data { at: at + number * self.unit(), own }),
            other => Ok(other),
        }
    }

    /// Bytes up to the end of the data in the cluster of an entry that is not compressed.
    pub fn data(self, entry: Entry) -> u64 {
        match self.extended {
            false if entry.word & ZERO != 0 => 0,
            false => self.cluster(),
            true => u64::from(u32::BITS - (entry.bits as u32).leading_zeros()) * self.unit(),
        }
    }

    /// The first contradiction of an entry, whatever part of its cluster is asked for.
    pub fn contradiction(self, entry: Entry) -> Option<EntryError> {
        let data = entry.bits & u64::from(u32::MAX);
        let packed = entry.word & COMPRESSED != 0;
        match () {
            () if packed && entry.bits != 0 => Some(EntryError::Compressed),
            () if packed => None,
            () if entry.word & OFFSET & (self.cluster() - 1) != 0 => {
                Some(EntryError::Unaligned(entry.word & OFFSET))
            }
            () if data & entry.bits >> SUBCLUSTERS != 0 => Some(EntryError::Both),
            () if data != 0 && entry.word & OFFSET == 0 => Some(EntryError::Nowhere),
            () => None,
        }
    }
}

/// Content of a cluster of the disk, as its L2 entry has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// As the file below has it; zeroes without one.
    Hole,
    /// Zeroes, with room in the file at `at` if that is not 0.
    Zero {
        /// Its first byte in the file.
        at: u64,
        /// True if the room has no other use.
        own: bool,
    },
    /// Data in the file.
    Data {
        /// Its first byte there.
        at: u64,
        /// True if the data has no other use.
        own: bool,
    },
    /// Compressed data in the file.
    Packed {
        /// Its first byte there, at no multiple of anything.
        at: u64,
        /// Bytes at most: up to the end of its last sector of 512.
        length: u64,
    },
}

impl Cluster {
    /// The content by `entry`, where clusters have `1 << cluster_bits` bytes.
    pub fn new(entry: u64, cluster_bits: u32) -> Self {
        let (at, own) = (entry & OFFSET, entry & COPIED != 0);
        match entry {
            _ if entry & COMPRESSED != 0 => {
                // "Compressed Clusters Descriptor"
                let bits = 62 - (cluster_bits - 8);
                let at = entry & ((1 << bits) - 1);
                let sectors = ((entry & (COMPRESSED - 1)) >> bits) + 1;
                Self::Packed { at, length: sectors * 512 - at % 512 }
            }
            _ if entry & ZERO != 0 => Self::Zero { at, own },
            _ if at == 0 => Self::Hole,
            _ => Self::Data { at, own },
        }
    }
}

/// The `size` bytes of a cluster of which `packed` begins with the compressed form.
///
/// # Errors
/// The bytes are not a compressed cluster, or one of fewer bytes.
pub fn unpack(packed: &[u8], compression: Compression, size: usize) -> io::Result<Vec<u8>> {
    let mut cluster = Vec::with_capacity(size);
    match compression {
        Compression::Zstd => {
            let decoder = zstd::Decoder::with_buffer(packed)?.single_frame();
            decoder.take(size as u64).read_to_end(&mut cluster)?;
        }
        Compression::Deflate => {
            let decoder = flate2::read::DeflateDecoder::new(packed);
            decoder.take(size as u64).read_to_end(&mut cluster)?;
        }
    }
    if cluster.len() != size {
        return Err(io::Error::other("a compressed cluster is damaged"));
    }
    Ok(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_entry_has_data_zeroes_and_holes_in_one_cluster() {
        let shape = Shape { cluster_bits: 16, extended: true };
        assert_eq!((shape.unit(), shape.in_table(), shape.covered()), (2048, 4096, 1 << 28));
        let entry = Entry { word: COPIED | 0x5_0000, bits: 1 << 1 | 1 << (32 + 2) };
        let at = |offset| shape.unit_at(entry, offset);
        assert_eq!(at(0), Ok(Cluster::Hole));
        assert_eq!(at(3 << 16 | 2048), Ok(Cluster::Data { at: 0x5_0800, own: true }));
        assert_eq!(at(4096), Ok(Cluster::Zero { at: 0x5_0000, own: true }));
        assert_eq!(shape.contradiction(entry), None);
        for (word, bits, error) in [
            (0x5_0000, 1 << 31 | 1 << 63, EntryError::Both),
            (0, 1 << 31, EntryError::Nowhere),
            (0x5_0200, 1 << 31, EntryError::Unaligned(0x5_0200)),
            (COMPRESSED | 0x5_0200, 1 << 31, EntryError::Compressed),
        ] {
            let entry = Entry { word, bits };
            assert_eq!(shape.unit_at(entry, 65535), Err(error));
            assert_eq!(shape.contradiction(entry), Some(error));
        }
    }

    #[test]
    fn an_entry_of_one_word_has_a_whole_cluster() {
        let shape = Shape { cluster_bits: 9, extended: false };
        assert_eq!((shape.unit(), shape.in_table(), shape.covered()), (512, 64, 1 << 15));
        let table: Vec<u8> = (0..64u64).flat_map(|n| (COPIED | (n * 512)).to_be_bytes()).collect();
        let entry = shape.entry(&table, (64 + 3) * 512 + 100);
        assert_eq!(entry, Entry { word: COPIED | 1536, bits: 0 });
        assert_eq!(shape.unit_at(entry, 100), Ok(Cluster::Data { at: 1536, own: true }));
        assert_eq!(
            shape.unit_at(Entry { word: ZERO, bits: 0 }, 0),
            Ok(Cluster::Zero { at: 0, own: false })
        );
    }
}
