//! Open-Channel SSD Specification 2.0 (OCSSD 2.0): Geometry, chunks, and their notifications.

use zerocopy::little_endian::{U16, U32, U64};

use crate::layout::layout;

layout! {
    /// Geometry (OCSSD 2.0 section 2.1).
    pub struct Geometry: 4096 {
        /// Major Version Number.
        [0] pub major: u8,
        /// Minor Version Number.
        [1] pub minor: u8,
        [2] reserved2: [u8; 6],
        /// LBA Format: bits of the group in an address.
        [8] pub group_bits: u8,
        /// LBA Format: bits of the parallel unit.
        [9] pub unit_bits: u8,
        /// LBA Format: bits of the chunk.
        [10] pub chunk_bits: u8,
        /// LBA Format: bits of the logical block.
        [11] pub sector_bits: u8,
        [12] reserved12: [u8; 4],
        /// Media and Controller Capabilities.
        [16] pub mccap: U32,
        [20] reserved20: [u8; 44],
        /// Number of Groups.
        [64] pub num_grp: U16,
        /// Number of parallel units of a group.
        [66] pub num_pu: U16,
        /// Number of chunks of a parallel unit.
        [68] pub num_chk: U32,
        /// Chunk Size, in blocks.
        [72] pub clba: U32,
        [76] reserved76: [u8; 52],
        /// Minimum Write Size, in blocks.
        [128] pub ws_min: U32,
        /// Optimal Write Size, in blocks.
        [132] pub ws_opt: U32,
        /// Cache Minimum Write Size Units, in blocks.
        [136] pub mw_cunits: U32,
        /// Maximum Open Chunks; 0: no limit.
        [140] pub maxoc: U32,
        /// Maximum Open Chunks of a parallel unit; 0: no limit.
        [144] pub maxocpu: U32,
        [148] reserved148: [u8; 3948],
    }
}

layout! {
    /// Chunk Descriptor (OCSSD 2.0 section 3.2).
    pub struct ChunkDescriptor: 32 {
        /// Chunk State.
        [0] pub cs: u8,
        /// Chunk Type.
        [1] pub ct: u8,
        /// Wear-level Index.
        [2] pub wli: u8,
        [3] reserved3: [u8; 5],
        /// Starting LBA.
        [8] pub slba: U64,
        /// Number of blocks in the chunk.
        [16] pub cnlb: U64,
        /// Write Pointer.
        [24] pub wp: U64,
    }
}

layout! {
    /// Chunk Notification (OCSSD 2.0 section 3.3).
    pub struct ChunkNotification: 64 {
        /// Notification Count.
        [0] pub nc: U64,
        /// Logical Block Address.
        [8] pub lba: U64,
        /// Namespace Identifier.
        [16] pub nsid: U32,
        /// State.
        [20] pub state: u8,
        [21] reserved21: u8,
        /// Mask: sectors in bit 0, the chunk in bit 1.
        [22] pub mask: u8,
        [23] reserved23: [u8; 9],
        /// Number of Logical Blocks, 0's based.
        [32] pub nlb: U16,
        [34] reserved34: [u8; 30],
    }
}
