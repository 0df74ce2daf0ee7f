//! Data of commands about ranges of blocks or bytes: Dataset Management, Copy and Get LBA Status.

use stasis_layout::{layout, U16, U32, U64};

layout! {
    /// Range of Dataset Management (NVMe 1.4 section 6.7).
    pub struct DatasetRange: 16 {
        /// Context Attributes.
        [0] attributes: U32,
        /// Length in blocks.
        [4] nlb: U32,
        /// Starting LBA.
        [8] slba: U64,
    }
}

layout! {
    /// Source Range Entry of Copy, of format 0 in the namespace of the command, of format 2 in any
    /// (NVM Command Set 1.1 figure 39).
    pub struct CopySource: 32 {
        /// Source Namespace Identifier, of format 2.
        [0] snsid: U32,
        [4] reserved4: [u8; 4],
        /// Starting LBA.
        [8] slba: U64,
        /// Number of Logical Blocks, 0's based.
        [16] nlb: U16,
        [18] reserved18: [u8; 4],
        /// Source Options, of format 2.
        [22] sopt: U16,
        /// Expected Initial Logical Block Reference Tag.
        [24] eilbrt: U32,
        /// Expected Logical Block Application Tag.
        [28] elbat: U16,
        /// Expected Logical Block Application Tag Mask.
        [30] elbatm: U16,
    }
}

layout! {
    /// Source Range Entry of Memory Copy in a memory namespace (SLM, descriptor format 4h).
    pub struct MemorySource: 32 {
        /// Source Namespace Identifier.
        [0] snsid: U32,
        [4] reserved4: [u8; 4],
        /// Starting Byte.
        [8] start: U64,
        /// Number of Bytes.
        [16] length: U32,
        [20] reserved20: [u8; 2],
        /// Source Options.
        [22] sopt: U16,
        [24] reserved24: [u8; 8],
    }
}

layout! {
    /// Head of the data of Get LBA Status (NVM Command Set 1.0 figure 52): descriptors lie behind it.
    pub struct LbaStatusHead: 8 {
        /// Number of LBA Status Descriptors.
        [0] nlsd: U32,
        /// Completion Condition.
        [4] cmpc: u8,
        [5] reserved5: [u8; 3],
    }
}

layout! {
    /// LBA Status Descriptor Entry (NVM Command Set 1.0 figure 53).
    pub struct LbaStatusEntry: 16 {
        /// Descriptor Starting LBA.
        [0] dslba: U64,
        /// Number of Logical Blocks.
        [8] nlb: U32,
        [12] reserved12: u8,
        /// Status.
        [13] status: u8,
        [14] reserved14: [u8; 2],
    }
}
