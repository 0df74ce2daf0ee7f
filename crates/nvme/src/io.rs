//! The NVM command set (NVMe 1.4 section 6): from commands to requests.

use stasis_block::{Command, Operation};

use crate::command::{location, SubmissionEntry};
use crate::config::Namespace;
use crate::controller::{Controller, Request};
use crate::prp;
use crate::slots::{CommandId, Owner, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

/// Opcodes (section 6, "Opcodes for NVM Commands").
pub mod opcode {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// NSID that stands for all namespaces (section 6.1).
pub const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// FUSE and PSDT in the flags: fused operations and SGLs are not offered.
pub const FUSED_OR_SGL: u8 = 0xc3;
/// Most ranges of a Dataset Management command (section 6.7).
const MOST_RANGES: usize = 256;
/// Most requests that one command becomes.
pub const MOST_REQUESTS: usize = MOST_RANGES;
/// Size of a range's definition in bytes (section 6.7.1.1).
const RANGE: usize = 16;
/// Deallocate, in Dword 11 of Dataset Management.
const DEALLOCATE: u32 = 1 << 2;
/// Force Unit Access, in Dword 12 of Read, Write and Write Zeroes.
const FUA: u32 = 1 << 30;

/// A run of logical blocks inside its namespace.
struct Extent {
    lba: u64,
    offset: u64,
    length: u64,
}

impl Extent {
    fn new(namespace: &Namespace, lba: u64, blocks: u64) -> Result<Self, Failure> {
        let end = lba.checked_add(blocks);
        if end.is_none_or(|end| end > namespace.blocks) {
            return Err(StatusCode::LbaOutOfRange.at(location::CDW10));
        }
        // No overflow: a namespace has less than 2^63 bytes.
        let size = u64::from(namespace.block_size);
        Ok(Self { lba, offset: lba * size, length: blocks * size })
    }
}

impl Controller {
    pub(crate) fn execute_io(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        if command.flags & FUSED_OR_SGL != 0 {
            return Err(StatusCode::InvalidField.at(location::FLAGS));
        }
        match command.opcode {
            opcode::FLUSH => self.flush(queue, command),
            opcode::READ => self.transfer(memory, queue, command, Operation::Read),
            opcode::WRITE => self.transfer(memory, queue, command, Operation::Write),
            opcode::WRITE_ZEROES => self.write_zeroes(queue, command),
            opcode::DATASET_MANAGEMENT => self.dataset_management(memory, queue, command),
            _ => Err(StatusCode::InvalidOpcode.at(location::OPCODE)),
        }
    }

    fn io_namespace(&self, nsid: u32) -> Result<&Namespace, Failure> {
        self.config.namespace(nsid).ok_or(StatusCode::InvalidNamespace.at(location::NSID))
    }

    fn writable_namespace(&self, nsid: u32) -> Result<&Namespace, Failure> {
        let namespace = self.io_namespace(nsid)?;
        if namespace.read_only {
            return Err(StatusCode::NamespaceWriteProtected.at(location::NSID));
        }
        Ok(namespace)
    }

    /// Flush (section 6.8), of one namespace or of all.
    fn flush(&mut self, queue: u16, command: &SubmissionEntry) -> Result<Outcome, Failure> {
        let id = CommandId { sq: queue, cid: command.cid };
        if command.nsid == ALL_NAMESPACES {
            let count = self.config.namespaces.len() as u32;
            let group = self.slots.insert_group(id, count);
            for nsid in 1..=count {
                self.request_flush(queue, nsid, Owner::Part(group));
            }
        } else {
            self.io_namespace(command.nsid)?;
            self.request_flush(queue, command.nsid, Owner::Command(id));
        }
        Ok(Outcome::Pending)
    }

    /// Read (section 6.9) and Write (section 6.15).
    fn transfer(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
        operation: Operation,
    ) -> Result<Outcome, Failure> {
        let namespace = match operation {
            Operation::Write => self.writable_namespace(command.nsid)?,
            _ => self.io_namespace(command.nsid)?,
        };
        let Extent { lba, offset, length } = extent_of(namespace, command)?;
        if length > self.config.max_transfer.into() {
            return Err(StatusCode::InvalidField.at(location::CDW12));
        }
        let bytes = length as usize;
        let mut segments = self.pool.take_segments();
        let walked = prp::walk(memory, command, bytes, &mut self.page, &mut segments);
        let mut data = match walked {
            Ok(()) => self.pool.take(bytes),
            Err(failure) => {
                self.pool.give_segments(segments);
                return Err(failure);
            }
        };
        if operation == Operation::Write {
            let gathered = prp::gather(memory, &segments, &mut data);
            // A write needs its places no more; a read's wait for its data.
            self.pool.give_segments(std::mem::take(&mut segments));
            if let Err(error) = gathered {
                self.pool.give(data);
                return Err(error.into());
            }
        }
        let owner = Owner::Command(CommandId { sq: queue, cid: command.cid });
        let fua = self.is_forced(command, operation);
        let nsid = command.nsid;
        let tag = self.slots.insert(Slot { owner, operation, nsid, lba, bytes, segments });
        let command = Command { fua, ..Command::new(operation, offset, length) };
        self.outbox.push_back(Request { tag, namespace: nsid, queue, command, data });
        Ok(Outcome::Pending)
    }

    /// Write Zeroes (section 6.17).
    fn write_zeroes(&mut self, queue: u16, command: &SubmissionEntry) -> Result<Outcome, Failure> {
        let namespace = self.writable_namespace(command.nsid)?;
        let Extent { lba, offset, length } = extent_of(namespace, command)?;
        let operation = Operation::WriteZeroes;
        let fua = self.is_forced(command, operation);
        let owner = Owner::Command(CommandId { sq: queue, cid: command.cid });
        self.request(
            queue,
            command.nsid,
            owner,
            Command { fua, ..Command::new(operation, offset, length) },
            lba,
        );
        Ok(Outcome::Pending)
    }

    /// Dataset Management (section 6.7): each range to deallocate is a request.
    fn dataset_management(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        self.io_namespace(command.nsid)?;
        if command.cdw11 & DEALLOCATE == 0 {
            // Only hints about future accesses, which no model uses.
            return Ok(Outcome::Done(0));
        }
        let namespace = self.writable_namespace(command.nsid)?.clone();
        let count = (command.cdw10 & 0xff) as usize + 1;
        let mut raw = [0; MOST_RANGES * RANGE];
        let raw = &mut raw[..count * RANGE];
        self.receive(memory, command, raw)?;

        let mut ranges = 0;
        for range in raw.chunks_exact(RANGE) {
            let (lba, blocks) = parse_range(range);
            Extent::new(&namespace, lba, blocks)?;
            ranges += u32::from(blocks > 0);
        }
        if ranges == 0 {
            return Ok(Outcome::Done(0));
        }
        let id = CommandId { sq: queue, cid: command.cid };
        let owner = match ranges {
            1 => Owner::Command(id),
            _ => Owner::Part(self.slots.insert_group(id, ranges)),
        };
        for range in raw.chunks_exact(RANGE) {
            let (lba, blocks) = parse_range(range);
            let Extent { offset, length, .. } = Extent::new(&namespace, lba, blocks)?;
            if length > 0 {
                let operation = Operation::Discard;
                let discard = Command::new(operation, offset, length);
                self.request(queue, command.nsid, owner, discard, lba);
            }
        }
        Ok(Outcome::Pending)
    }

    /// Whether a write is durable when it is acknowledged: because it asks so,
    /// or because the guest has turned the volatile write cache off.
    fn is_forced(&self, command: &SubmissionEntry, operation: Operation) -> bool {
        let cached = self.config.volatile_write_cache && self.features.write_cache;
        command.cdw12 & FUA != 0 || operation != Operation::Read && !cached
    }

    /// Hands a flush to the drive.
    pub(crate) fn request_flush(&mut self, queue: u16, nsid: u32, owner: Owner) {
        let command = Command::flush();
        self.request(queue, nsid, owner, command, 0);
    }

    /// Hands a request without data to the drive.
    fn request(&mut self, queue: u16, nsid: u32, owner: Owner, command: Command, lba: u64) {
        let operation = command.operation;
        let segments = Vec::new();
        let tag = self.slots.insert(Slot { owner, operation, nsid, lba, bytes: 0, segments });
        self.outbox.push_back(Request { tag, namespace: nsid, queue, command, data: Vec::new() });
    }

    /// Copies the data of a command from the guest into all of `data`.
    pub(crate) fn receive(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        data: &mut [u8],
    ) -> Result<(), Failure> {
        self.with_segments(memory, command, data.len(), |segments| {
            prp::gather(memory, segments, data).map_err(Failure::from)
        })
    }

    /// Copies `data` to the guest, where the command wants it.
    pub(crate) fn send(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), Failure> {
        self.with_segments(memory, command, data.len(), |segments| {
            prp::scatter(memory, segments, data).map_err(Failure::from)
        })
    }

    fn with_segments(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        length: usize,
        use_them: impl FnOnce(&[prp::Segment]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut segments = self.pool.take_segments();
        let result = prp::walk(memory, command, length, &mut self.page, &mut segments)
            .and_then(|()| use_them(&segments));
        self.pool.give_segments(segments);
        result
    }
}

/// The blocks of Read, Write and Write Zeroes: SLBA in Dwords 10 and 11, NLB
/// (0's based) in Dword 12.
fn extent_of(namespace: &Namespace, command: &SubmissionEntry) -> Result<Extent, Failure> {
    let lba = u64::from(command.cdw10) | u64::from(command.cdw11) << 32;
    Extent::new(namespace, lba, u64::from(command.cdw12 & 0xffff) + 1)
}

/// First block and count of blocks of a Dataset Management range.
fn parse_range(raw: &[u8]) -> (u64, u64) {
    let dword =
        |i: usize| u64::from(u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]));
    (dword(8) | dword(12) << 32, dword(4))
}

const _: () = assert!(MOST_RANGES * RANGE == PAGE_SIZE);
