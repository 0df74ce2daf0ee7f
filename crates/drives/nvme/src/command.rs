//! Queue entries: the fields of a command and of its completion.

use stasis_nvme_layout::{queue, transmute, transmute_ref};

use crate::capsule_fault::CapsuleFault;
use crate::controller_id::ControllerId;

/// Size of a submission queue entry in bytes (NVMe 1.4 section 4.2).
pub const SQE_SIZE: usize = size_of::<queue::SubmissionEntry>();
/// Size of a completion queue entry in bytes (NVMe 1.4 section 4.6).
pub const CQE_SIZE: usize = size_of::<queue::CompletionEntry>();

/// NSID that stands for all namespaces (NVMe 1.4 section 6.1).
pub const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// FUSE in the flags.
pub const FUSE: u8 = 0x03;
/// PSDT in the flags: 0 for PRPs, 1 and 2 for SGLs, which differ in where
/// metadata is only.
pub const PSDT: u8 = 0xc0;
/// PSDT: data by SGLs, metadata in one piece: the only one on a fabric.
pub const DATA_SGL: u8 = 0x40;
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
    use std::mem::offset_of;

    use stasis_nvme_layout::queue::SubmissionEntry;

    use crate::narrow::constant16;

    pub const OPCODE: u16 = constant16(offset_of!(SubmissionEntry, opc) as u64);
    pub const FLAGS: u16 = constant16(offset_of!(SubmissionEntry, flags) as u64);
    pub const NSID: u16 = constant16(offset_of!(SubmissionEntry, nsid) as u64);
    pub const CDW2: u16 = constant16(offset_of!(SubmissionEntry, cdw2) as u64);
    pub const MPTR: u16 = constant16(offset_of!(SubmissionEntry, mptr) as u64);
    pub const PRP1: u16 = constant16(offset_of!(SubmissionEntry, prp1) as u64);
    pub const PRP2: u16 = constant16(offset_of!(SubmissionEntry, prp2) as u64);
    pub const CDW10: u16 = constant16(offset_of!(SubmissionEntry, cdw10) as u64);
    pub const CDW11: u16 = constant16(offset_of!(SubmissionEntry, cdw11) as u64);
    pub const CDW12: u16 = constant16(offset_of!(SubmissionEntry, cdw12) as u64);
    pub const CDW13: u16 = constant16(offset_of!(SubmissionEntry, cdw13) as u64);
    pub const CDW14: u16 = constant16(offset_of!(SubmissionEntry, cdw14) as u64);
}

/// Fields of a dword of a command, each of which is apart from the bits beside it.
pub trait Dword: Copy {
    /// Bits 15:0.
    fn low(self) -> u16;
    /// Bits 31:16.
    fn high(self) -> u16;
    /// Byte 0 to 3, the lowest first.
    fn byte(self, number: usize) -> u8;
}

impl Dword for u32 {
    fn low(self) -> u16 {
        (self & 0xffff) as u16
    }

    fn high(self) -> u16 {
        (self >> 16) as u16
    }

    fn byte(self, number: usize) -> u8 {
        self.to_le_bytes()[number]
    }
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
    /// Fault of its data block, where that was looked at before: it fails a command that gets as far as
    /// its data.
    pub fault: Option<CapsuleFault>,
}

impl SubmissionEntry {
    /// An entry of the submission queue `sq` of a controller.
    pub fn parse(controller: ControllerId, sq: u16, raw: &[u8; SQE_SIZE]) -> Self {
        let raw: &queue::SubmissionEntry = transmute_ref!(raw);
        Self {
            controller,
            sq,
            opcode: raw.opc,
            flags: raw.flags,
            cid: raw.cid.get(),
            nsid: raw.nsid.get(),
            cdw2: raw.cdw2.get(),
            cdw3: raw.cdw3.get(),
            mptr: raw.mptr.get(),
            prp1: raw.prp1.get(),
            prp2: raw.prp2.get(),
            cdw10: raw.cdw10.get(),
            cdw11: raw.cdw11.get(),
            cdw12: raw.cdw12.get(),
            cdw13: raw.cdw13.get(),
            cdw14: raw.cdw14.get(),
            cdw15: raw.cdw15.get(),
            fault: None,
        }
    }

    /// Returns the command's identifier, with which its completion is posted.
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
        transmute!(queue::CompletionEntry {
            result: self.result.into(),
            sqhd: self.sq_head.into(),
            sqid: self.sq_id.into(),
            cid: self.cid.into(),
            status: (self.status << 1 | u16::from(phase)).into(),
        })
    }
}
