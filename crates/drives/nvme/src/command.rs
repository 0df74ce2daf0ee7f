//! Queue entries: the fields of a command and of its completion.

use crate::controller_id::ControllerId;

/// Size of a submission queue entry in bytes (NVMe 1.4 section 4.2).
pub const SQE_SIZE: usize = 64;
/// Size of a completion queue entry in bytes (NVMe 1.4 section 4.6).
pub const CQE_SIZE: usize = 16;

/// NSID that stands for all namespaces (NVMe 1.4 section 6.1).
pub const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// FUSE in the flags.
pub const FUSE: u8 = 0x03;
/// PSDT in the flags: 0 for PRPs, 1 and 2 for SGLs, which differ in where
/// metadata is only.
pub const PSDT: u8 = 0xc0;
/// PSDT: data and metadata by SGLs.
pub const METADATA_SGL: u8 = 0x80;

/// A command of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandId {
    /// The controller that it came by.
    pub controller: ControllerId,
    /// Its submission queue.
    pub sq: u16,
    /// Its command identifier.
    pub cid: u16,
}

/// The admin commands that also concern namespaces that their controller does not have.
pub mod of_any_namespace {
    pub const IDENTIFY: u8 = 0x06;
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
}

/// Bytes of the fields in a submission queue entry, as errors locate them.
pub mod location {
    pub const OPCODE: u16 = 0;
    pub const FLAGS: u16 = 1;
    pub const NSID: u16 = 4;
    pub const CDW2: u16 = 8;
    pub const MPTR: u16 = 16;
    pub const PRP1: u16 = 24;
    pub const PRP2: u16 = 32;
    pub const CDW10: u16 = 40;
    pub const CDW11: u16 = 44;
    pub const CDW12: u16 = 48;
    pub const CDW13: u16 = 52;
    pub const CDW14: u16 = 56;
}

/// A command, copied once out of its queue.
#[derive(Debug, Clone, Copy)]
pub struct SubmissionEntry {
    /// The controller that it came by.
    pub controller: ControllerId,
    /// The submission queue that it came by.
    pub sq: u16,
    pub opcode: u8,
    /// FUSE in bits 1:0, PSDT in bits 7:6.
    pub flags: u8,
    pub cid: u16,
    pub nsid: u32,
    pub cdw2: u32,
    pub cdw3: u32,
    /// Metadata pointer.
    pub mptr: u64,
    pub prp1: u64,
    pub prp2: u64,
    pub cdw10: u32,
    pub cdw11: u32,
    pub cdw12: u32,
    pub cdw13: u32,
    pub cdw14: u32,
    pub cdw15: u32,
}

impl SubmissionEntry {
    /// An entry of the submission queue `sq` of a controller.
    pub fn parse(controller: ControllerId, sq: u16, raw: &[u8; SQE_SIZE]) -> Self {
        let dword = |i: usize| u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
        let qword = |i: usize| u64::from(dword(i)) | u64::from(dword(i + 4)) << 32;
        Self {
            controller,
            sq,
            opcode: raw[0],
            flags: raw[1],
            cid: u16::from_le_bytes([raw[2], raw[3]]),
            nsid: dword(4),
            cdw2: dword(8),
            cdw3: dword(12),
            mptr: qword(16),
            prp1: qword(24),
            prp2: qword(32),
            cdw10: dword(40),
            cdw11: dword(44),
            cdw12: dword(48),
            cdw13: dword(52),
            cdw14: dword(56),
            cdw15: dword(60),
        }
    }

    /// Its name, by which its completion is posted.
    pub fn id(&self) -> CommandId {
        CommandId { controller: self.controller, sq: self.sq, cid: self.cid }
    }

    /// SLBA, or the destination's, in Dwords 10 and 11.
    pub fn starting_lba(&self) -> u64 {
        u64::from(self.cdw10) | u64::from(self.cdw11) << 32
    }
}

/// A completion that waits for its place in a queue, hence without its phase.
#[derive(Debug, Clone, Copy)]
pub struct CompletionEntry {
    /// Dwords 0 and 1.
    pub result: u64,
    pub sq_head: u16,
    pub sq_id: u16,
    pub cid: u16,
    /// The status field without its phase bit.
    pub status: u16,
    /// True if no interrupt announces it.
    pub quiet: bool,
}

impl CompletionEntry {
    pub fn to_bytes(self, phase: bool) -> [u8; CQE_SIZE] {
        let mut raw = [0; CQE_SIZE];
        raw[0..8].copy_from_slice(&self.result.to_le_bytes());
        raw[8..10].copy_from_slice(&self.sq_head.to_le_bytes());
        raw[10..12].copy_from_slice(&self.sq_id.to_le_bytes());
        raw[12..14].copy_from_slice(&self.cid.to_le_bytes());
        raw[14..16].copy_from_slice(&(self.status << 1 | u16::from(phase)).to_le_bytes());
        raw
    }
}
