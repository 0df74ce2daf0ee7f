//! Entries of queues, and the pieces of memory that they point to.

use stasis_layout::{layout, U16, U32, U64};

layout! {
    /// Submission Queue Entry (NVMe 1.4 section 4.2).
    pub struct SubmissionEntry: 64 {
        /// Opcode.
        [0] opc: u8,
        /// FUSE in bits 1:0, PSDT in bits 7:6.
        [1] flags: u8,
        /// Command Identifier.
        [2] cid: U16,
        /// Namespace Identifier.
        [4] nsid: U32,
        /// Command Dword 2.
        [8] cdw2: U32,
        /// Command Dword 3.
        [12] cdw3: U32,
        /// Metadata Pointer.
        [16] mptr: U64,
        /// PRP Entry 1, or the first half of SGL Entry 1.
        [24] prp1: U64,
        /// PRP Entry 2, or the second half of SGL Entry 1.
        [32] prp2: U64,
        /// Command Dword 10.
        [40] cdw10: U32,
        /// Command Dword 11.
        [44] cdw11: U32,
        /// Command Dword 12.
        [48] cdw12: U32,
        /// Command Dword 13.
        [52] cdw13: U32,
        /// Command Dword 14.
        [56] cdw14: U32,
        /// Command Dword 15.
        [60] cdw15: U32,
    }
}

layout! {
    /// Completion Queue Entry (NVMe 1.4 section 4.6).
    pub struct CompletionEntry: 16 {
        /// Dwords 0 and 1, which are the command's own.
        [0] result: U64,
        /// SQ Head Pointer.
        [8] sqhd: U16,
        /// SQ Identifier.
        [10] sqid: U16,
        /// Command Identifier.
        [12] cid: U16,
        /// Phase Tag in bit 0, Status in bits 15:1.
        [14] status: U16,
    }
}

layout! {
    /// SGL Descriptor (NVMe 1.4 section 4.4): a data block, a bit bucket, or a segment of descriptors.
    pub struct SglDescriptor: 16 {
        /// Address.
        [0] address: U64,
        /// Length in bytes.
        [8] length: U32,
        [12] reserved12: [u8; 3],
        /// Sub type in bits 3:0, type in bits 7:4.
        [15] identifier: u8,
    }
}

layout! {
    /// Command of a capsule (NVMe-oF 1.1 section 2.1), or of fabrics (section 3): the fields that are
    /// not those of [`SubmissionEntry`].
    pub struct FabricsEntry: 64 {
        /// Opcode.
        [0] opc: u8,
        /// FUSE in bits 1:0, PSDT in bits 7:6.
        [1] flags: u8,
        /// Command Identifier.
        [2] cid: U16,
        /// Fabrics Command Type, of a command of fabrics.
        [4] fctype: u8,
        [5] reserved5: [u8; 19],
        /// SGL Descriptor 1.
        [24] sgl1: SglDescriptor,
        /// Command Dwords 10 to 15.
        [40] specific: [u8; 24],
    }
}

layout! {
    /// Authentication Send and Receive (NVMe 2.0 sections 6.1 and 6.2).
    pub struct AuthenticationEntry: 64 {
        /// Opcode.
        [0] opc: u8,
        /// FUSE in bits 1:0, PSDT in bits 7:6.
        [1] flags: u8,
        /// Command Identifier.
        [2] cid: U16,
        /// Fabrics Command Type.
        [4] fctype: u8,
        [5] reserved5: [u8; 36],
        /// Security Protocol Specific 0 and 1, and the Security Protocol.
        [41] protocol: [u8; 3],
        /// Transfer Length, or Allocation Length, in bytes.
        [44] length: U32,
        [48] reserved48: [u8; 16],
    }
}

layout! {
    /// Shadow doorbells of a queue pair, or their event indices, as Doorbell Buffer Config has them (NVMe 1.4
    /// section 5.7), for a stride (CAP.DSTRD) of 0.
    pub struct DoorbellPair: 8 {
        /// SQ Tail Doorbell.
        [0] sq_tail: U32,
        /// CQ Head Doorbell.
        [4] cq_head: U32,
    }
}
