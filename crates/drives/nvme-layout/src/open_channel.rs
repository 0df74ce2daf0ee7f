//! Open-Channel SSD Specification 2.0 (OCSSD 2.0): Geometry, chunks, and their notifications.

use stasis_layout::{layout, U16, U32, U64};

layout! {
    /// Geometry (OCSSD 2.0 section 2.1).
    pub struct Geometry: 4096 {
        /// Major Version Number.
        [0] major: u8,
        /// Minor Version Number.
        [1] minor: u8,
        [2] reserved2: [u8; 6],
        /// LBA Format: bits of the group in an address.
        [8] group_bits: u8,
        /// LBA Format: bits of the parallel unit.
        [9] unit_bits: u8,
        /// LBA Format: bits of the chunk.
        [10] chunk_bits: u8,
        /// LBA Format: bits of the logical block.
        [11] sector_bits: u8,
        [12] reserved12: [u8; 4],
        /// Media and Controller Capabilities.
        [16] mccap: U32,
        [20] reserved20: [u8; 44],
        /// Number of Groups.
        [64] num_grp: U16,
        /// Number of parallel units of a group.
        [66] num_pu: U16,
        /// Number of chunks of a parallel unit.
        [68] num_chk: U32,
        /// Chunk Size, in blocks.
        [72] clba: U32,
        [76] reserved76: [u8; 52],
        /// Minimum Write Size, in blocks.
        [128] ws_min: U32,
        /// Optimal Write Size, in blocks.
        [132] ws_opt: U32,
        /// Cache Minimum Write Size Units, in blocks.
        [136] mw_cunits: U32,
        /// Maximum Open Chunks; 0: no limit.
        [140] maxoc: U32,
        /// Maximum Open Chunks of a parallel unit; 0: no limit.
        [144] maxocpu: U32,
        [148] reserved148: [u8; 3948],
    }
}

layout! {
    /// Chunk Descriptor (OCSSD 2.0 section 3.2).
    pub struct ChunkDescriptor: 32 {
        /// Chunk State.
        [0] cs: u8,
        /// Chunk Type.
        [1] ct: u8,
        /// Wear-level Index.
        [2] wli: u8,
        [3] reserved3: [u8; 5],
        /// Starting LBA.
        [8] slba: U64,
        /// Number of blocks in the chunk.
        [16] cnlb: U64,
        /// Write Pointer.
        [24] wp: U64,
    }
}

layout! {
    /// Chunk Notification (OCSSD 2.0 section 3.3).
    pub struct ChunkNotification: 64 {
        /// Notification Count.
        [0] nc: U64,
        /// Logical Block Address.
        [8] lba: U64,
        /// Namespace Identifier.
        [16] nsid: U32,
        /// State.
        [20] state: u8,
        [21] reserved21: u8,
        /// Mask: sectors in bit 0, the chunk in bit 1.
        [22] mask: u8,
        [23] reserved23: [u8; 9],
        /// Number of Logical Blocks, 0's based.
        [32] nlb: U16,
        [34] reserved34: [u8; 30],
    }
}
