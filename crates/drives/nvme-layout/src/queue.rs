//! Entries of queues, and the pieces of memory that they point to.

use zerocopy::little_endian::{U16, U32, U64};

use crate::layout::layout;

layout! {
    /// Submission Queue Entry (NVMe 1.4 section 4.2).
    pub struct SubmissionEntry: 64 {
        /// Opcode.
        [0] pub opc: u8,
        /// FUSE in bits 1:0, PSDT in bits 7:6.
        [1] pub flags: u8,
        /// Command Identifier.
        [2] pub cid: U16,
        /// Namespace Identifier.
        [4] pub nsid: U32,
        /// Command Dword 2.
        [8] pub cdw2: U32,
        /// Command Dword 3.
        [12] pub cdw3: U32,
        /// Metadata Pointer.
        [16] pub mptr: U64,
        /// PRP Entry 1, or the first half of SGL Entry 1.
        [24] pub prp1: U64,
        /// PRP Entry 2, or the second half of SGL Entry 1.
        [32] pub prp2: U64,
        /// Command Dword 10.
        [40] pub cdw10: U32,
        /// Command Dword 11.
        [44] pub cdw11: U32,
        /// Command Dword 12.
        [48] pub cdw12: U32,
        /// Command Dword 13.
        [52] pub cdw13: U32,
        /// Command Dword 14.
        [56] pub cdw14: U32,
        /// Command Dword 15.
        [60] pub cdw15: U32,
    }
}

layout! {
    /// Completion Queue Entry (NVMe 1.4 section 4.6).
    pub struct CompletionEntry: 16 {
        /// Dwords 0 and 1, which are the command's own.
        [0] pub result: U64,
        /// SQ Head Pointer.
        [8] pub sqhd: U16,
        /// SQ Identifier.
        [10] pub sqid: U16,
        /// Command Identifier.
        [12] pub cid: U16,
        /// Phase Tag in bit 0, Status in bits 15:1.
        [14] pub status: U16,
    }
}

layout! {
    /// SGL Descriptor (NVMe 1.4 section 4.4): a data block, a bit bucket, or a segment of descriptors.
    pub struct SglDescriptor: 16 {
        /// Address.
        [0] pub address: U64,
        /// Length in bytes.
        [8] pub length: U32,
        [12] reserved12: [u8; 3],
        /// Sub type in bits 3:0, type in bits 7:4.
        [15] pub identifier: u8,
    }
}

layout! {
    /// Shadow doorbells of a queue pair, or their event indices, as Doorbell Buffer Config has them (NVMe 1.4
    /// section 5.7), for a stride (CAP.DSTRD) of 0.
    pub struct DoorbellPair: 8 {
        /// SQ Tail Doorbell.
        [0] pub sq_tail: U32,
        /// CQ Head Doorbell.
        [4] pub cq_head: U32,
    }
}
