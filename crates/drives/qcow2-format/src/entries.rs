//! Entries of L1 and L2 tables, and compressed clusters (qcow2.txt, "Cluster mapping").

use std::io::{self, Read};

use crate::Compression;

/// Bits of an entry of an L1 or L2 table that are an offset (bytes).
pub const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Flag of an entry: the table or the cluster has one use, and can be changed in place.
pub const COPIED: u64 = 1 << 63;
/// Flag of an L2 entry: the cluster is compressed.
const COMPRESSED: u64 = 1 << 62;
/// Flag of an L2 entry: the cluster reads as zeroes (version 3).
pub const ZERO: u64 = 1;

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
