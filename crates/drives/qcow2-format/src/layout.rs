//! Structures of an image: the header's two parts, its extensions, and snapshots (QEMU,
//! docs/interop/qcow2.txt). All numbers are big-endian. The one description from which they are read
//! and by which they are written.

use stasis_layout::big_endian::{U16, U32, U64};
use stasis_layout::{layout, FromBytes};

layout! {
    /// The header of every version ("Header").
    pub struct Header: 72 {
        /// `QFI\xfb`.
        [0] magic: U32,
        /// 2 or 3.
        [4] version: U32,
        /// Offset of the backing file's name (bytes); 0 without one.
        [8] backing_offset: U64,
        /// Length of that name (bytes).
        [16] backing_length: U32,
        /// Binary logarithm of the cluster size.
        [20] cluster_bits: U32,
        /// Size of the disk (bytes).
        [24] size: U64,
        /// Method of encryption; 0 for none.
        [32] encryption: U32,
        /// Entries of the active L1 table.
        [36] l1_entries: U32,
        /// Offset of the L1 table (bytes).
        [40] l1_offset: U64,
        /// Offset of the refcount table (bytes).
        [48] reftable_offset: U64,
        /// Its length (clusters).
        [56] reftable_clusters: U32,
        /// Number of internal snapshots.
        [60] snapshots: U32,
        /// Offset of the table of snapshots (bytes).
        [64] snapshots_offset: U64,
    }
}

layout! {
    /// Part of the header behind that, from version 3 on.
    pub struct Version3: 32 {
        /// Features without which an image cannot be opened.
        [0] incompatible: U64,
        /// Features that may be ignored.
        [8] compatible: U64,
        /// Features that a program clears if it does not support them.
        [16] autoclear: U64,
        /// Binary logarithm of a refcount's width (bits).
        [24] refcount_order: U32,
        /// Length of the header (bytes).
        [28] header_length: U32,
    }
}

layout! {
    /// Fields that may follow behind that ("Additional fields").
    pub(crate) struct Further: 8 {
        /// Compression of clusters: 0 for deflate, 1 for zstd.
        [0] compression: u8,
        [1] padding: [u8; 7],
    }
}

layout! {
    /// Head of a header extension, whose data follows in multiples of 8 bytes ("Header extensions").
    pub struct Extension: 8 {
        /// Kind of extension; 0 behind the last.
        [0] kind: U32,
        /// Length of the data (bytes).
        [4] length: U32,
    }
}

layout! {
    /// Head of a snapshot, with extra data, its number and its name behind it ("Snapshots").
    pub(crate) struct SnapshotHead: 40 {
        /// Offset of its L1 table (bytes).
        [0] l1_offset: U64,
        /// Entries of that table.
        [8] l1_entries: U32,
        /// Length of its number, which is text (bytes).
        [12] id_length: U16,
        /// Length of its name (bytes).
        [14] name_length: U16,
        /// Times of the host and of the guest, and the size of the machine's state.
        [16] machine: [u8; 20],
        /// Length of its extra data (bytes).
        [36] extra_length: U32,
    }
}

layout! {
    /// Extra data of a snapshot, of version 3 at least.
    pub(crate) struct SnapshotExtra: 16 {
        /// Size of the machine's state (bytes).
        [0] state: U64,
        /// Size of the disk then (bytes).
        [8] size: U64,
    }
}

layout! {
    /// Header extension with the place of bitmaps ("Bitmaps extension").
    pub(crate) struct BitmapsExtension: 24 {
        /// Number of bitmaps.
        [0] bitmaps: U32,
        [4] reserved: U32,
        /// Length of their directory (bytes).
        [8] directory_length: U64,
        /// Its offset (bytes).
        [16] directory_offset: U64,
    }
}

layout! {
    /// Head of a bitmap in the directory, with extra data and its name behind it ("Bitmap directory").
    pub(crate) struct BitmapHead: 24 {
        /// Offset of its table (bytes).
        [0] table_offset: U64,
        /// Entries of that table.
        [8] table_entries: U32,
        /// Flags.
        [12] flags: U32,
        /// Type: 1 for a dirty tracking bitmap.
        [16] kind: u8,
        /// Binary logarithm of the bytes that a bit stands for.
        [17] granularity_bits: u8,
        /// Length of its name (bytes).
        [18] name_length: U16,
        /// Length of its extra data (bytes).
        [20] extra_length: U32,
    }
}

/// The big-endian number at `at`; 0 beyond the end.
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
    eight.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Bytes of the header of version 2, and the fewest of that of version 3.
pub const LENGTH: [usize; 2] = [size_of::<Header>(), size_of::<Header>() + size_of::<Version3>()];

/// The header at the begin of a file; `None` where there is none.
pub fn header(file: &[u8]) -> Option<&Header> {
    let (header, _) = Header::ref_from_prefix(file).ok()?;
    (header.version.get() > 1).then_some(header)
}

/// The header, to be changed.
pub fn header_mut(file: &mut [u8]) -> Option<&mut Header> {
    let (header, _) = Header::mut_from_prefix(file).ok()?;
    (header.version.get() > 1).then_some(header)
}

/// The part of version 3; `None` where the header is of an earlier one: something else lies there.
pub fn version3(file: &[u8]) -> Option<&Version3> {
    let (header, behind) = Header::ref_from_prefix(file).ok()?;
    let (version3, _) = Version3::ref_from_prefix(behind).ok()?;
    (header.version.get() > 2).then_some(version3)
}

/// The same part, to be changed.
pub fn version3_mut(file: &mut [u8]) -> Option<&mut Version3> {
    let (header, behind) = Header::mut_from_prefix(file).ok()?;
    let (version3, _) = Version3::mut_from_prefix(behind).ok()?;
    (header.version.get() > 2).then_some(version3)
}

/// Sets or clears a feature.
pub fn set_feature(features: &mut U64, feature: u64, on: bool) {
    let others = features.get() & !feature;
    features.set(if on { others | feature } else { others });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_of_version_3_is_in_version_2() {
        for version in [1, 2, 3, 4] {
            let mut file = vec![0xa5; 512];
            header_mut(&mut file).unwrap().version = version.into();
            assert_eq!(file[4..8], [0, 0, 0, version as u8]);
            assert_eq!(header(&file).is_some(), version > 1);
            let third = version3_mut(&mut file);
            assert_eq!(third.is_some(), version > 2);
            if let Some(third) = third {
                set_feature(&mut third.incompatible, 1 << 63, false);
                set_feature(&mut third.incompatible, 2, true);
                assert_eq!(file[72..80], [0x25, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa7]);
                assert_eq!(version3(&file).unwrap().incompatible.get(), 0x25a5_a5a5_a5a5_a5a7);
            } else {
                assert!(version3(&file).is_none() && file[8..] == [0xa5; 504]);
            }
        }
        let short = [0xff; LENGTH[1] - 1];
        assert!(header(&short[..LENGTH[0] - 1]).is_none() && version3(&short).is_none());
        assert!(header(&short).is_some());
    }
}
