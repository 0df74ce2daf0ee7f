//! The NVM command set (NVMe 1.4 section 6): from commands to requests.

use stasis_block::{Command, Operation};

use crate::command::{location, SubmissionEntry};
use crate::commands;
use crate::config::Namespace;
use crate::controller::{Controller, Request};
use crate::slots::{CommandId, Owner, Purpose, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

/// NSID that stands for all namespaces (section 6.1).
pub const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// FUSE in the flags: fused operations are not offered.
pub const FUSE: u8 = 0x03;
/// PSDT in the flags: 0 for PRPs, 1 and 2 for SGLs, which differ in where
/// metadata is only.
pub const PSDT: u8 = 0xc0;
/// Most requests that one command becomes.
pub const MOST_REQUESTS: usize = 256;
/// Force Unit Access, in Dword 12 of Read, Write and Write Zeroes.
const FUA: u32 = 1 << 30;

/// A run of logical blocks inside its namespace.
pub struct Extent {
    pub lba: u64,
    /// First byte, and how many.
    pub offset: u64,
    pub length: u64,
}

impl Extent {
    /// `at`: which byte of the command says so, for the error log.
    pub fn new(namespace: &Namespace, lba: u64, blocks: u64, at: u16) -> Result<Self, Failure> {
        let end = lba.checked_add(blocks);
        if end.is_none_or(|end| end > namespace.blocks) {
            return Err(StatusCode::LbaOutOfRange.at(at));
        }
        // No overflow: a namespace has less than 2^63 bytes.
        let size = u64::from(namespace.block_size);
        Ok(Self { lba, offset: lba * size, length: blocks * size })
    }

    /// Its bytes.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.length
    }
}

/// What a command with data does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    Read,
    Write,
    Compare,
}

impl Controller {
    pub(crate) fn execute_io(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        if command.flags & FUSE != 0 || command.flags & PSDT == PSDT {
            return Err(StatusCode::InvalidField.at(location::FLAGS));
        }
        if self.zoned(command.nsid).is_some() && !self.registers.has_all_command_sets() {
            return Err(StatusCode::InvalidNamespace.at(location::NSID));
        }
        let table = match self.chunks(command.nsid) {
            None => &commands::IO,
            Some(_) => &commands::OPEN_CHANNEL,
        };
        match table.find(command.opcode) {
            Some(known) => (known.execute)(self, memory, queue, command),
            None => Err(StatusCode::InvalidOpcode.at(location::OPCODE)),
        }
    }

    pub(crate) fn io_namespace(&self, nsid: u32) -> Result<&Namespace, Failure> {
        if self.formatting.as_ref().is_some_and(|formatting| formatting.concerns(nsid)) {
            return Err(StatusCode::FormatInProgress.at(location::NSID));
        }
        self.config.namespace(nsid).ok_or(StatusCode::InvalidNamespace.at(location::NSID))
    }

    pub(crate) fn writable_namespace(&self, nsid: u32) -> Result<&Namespace, Failure> {
        let namespace = self.io_namespace(nsid)?;
        if namespace.read_only || self.condition.health().read_only {
            return Err(StatusCode::NamespaceWriteProtected.at(location::NSID));
        }
        Ok(namespace)
    }

    /// Read, Write and Compare (sections 6.9, 6.15 and 6.6).
    pub(crate) fn transfer(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
        what: Transfer,
    ) -> Result<Outcome, Failure> {
        let namespace = match what {
            Transfer::Write => self.writable_namespace(command.nsid)?,
            _ => self.io_namespace(command.nsid)?,
        };
        let extent = extent_of(namespace, command)?;
        self.check_length(&extent)?;
        match what {
            Transfer::Write => self.check_writable(command.nsid, &extent)?,
            _ => self.check_readable(command.nsid, &extent)?,
        }
        let owner = Owner::Command(CommandId { sq: queue, cid: command.cid });
        self.transfer_extent(memory, queue, command, what, &extent, owner)
    }

    /// Whether a command may move so much data.
    pub(crate) fn check_length(&self, extent: &Extent) -> Result<(), Failure> {
        if extent.length > self.config.max_transfer.into() {
            return Err(StatusCode::InvalidField.at(location::CDW12));
        }
        Ok(())
    }

    /// The data of a command that has been checked, to or from `extent`.
    pub(crate) fn transfer_extent(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
        what: Transfer,
        extent: &Extent,
        owner: Owner,
    ) -> Result<Outcome, Failure> {
        let bytes = extent.length as usize;
        let mut segments = self.buffers.segments_of(memory, command, bytes)?;
        let mut data = self.buffers.take(bytes);
        if what == Transfer::Write {
            let gathered = stasis_memory::gather(memory, &segments, &mut data);
            // A write needs its places no more; a read's wait for its data.
            self.buffers.give_segments(std::mem::take(&mut segments));
            if let Err(error) = gathered {
                self.buffers.give(data);
                return Err(error.into());
            }
        }
        let stream = match what {
            Transfer::Write => match self.place(command, extent.length) {
                Ok(stream) => stream,
                Err(failure) => {
                    self.buffers.give(data);
                    return Err(failure);
                }
            },
            _ => 0,
        };
        let (operation, purpose) = match what {
            Transfer::Read => (Operation::Read, Purpose::Deliver),
            Transfer::Write => (Operation::Write, Purpose::Deliver),
            Transfer::Compare => (Operation::Read, Purpose::Compare),
        };
        let fua = self.is_forced(command, operation);
        let nsid = command.nsid;
        let command =
            Command { fua, stream, ..Command::new(operation, extent.offset, extent.length) };
        let slot =
            Slot { purpose, bytes, segments, ..Slot::new(owner, &command, nsid, extent.lba) };
        self.send_request(queue, slot, command, data);
        Ok(Outcome::Pending)
    }

    /// Whether a write is durable when it is acknowledged: because it asks so,
    /// or because the guest has turned the volatile write cache off.
    pub(crate) fn is_forced(&self, command: &SubmissionEntry, operation: Operation) -> bool {
        let cached = self.config.volatile_write_cache && self.features.write_cache;
        let reads = matches!(operation, Operation::Read | Operation::Verify);
        command.cdw12 & FUA != 0 || !reads && !cached
    }

    /// Hands a flush to the drive.
    pub(crate) fn request_flush(&mut self, queue: u16, nsid: u32, owner: Owner) {
        let command = Command::flush();
        self.request(queue, Slot::new(owner, &command, nsid, 0), command);
    }

    /// Hands a request without data to the drive.
    pub(crate) fn request(&mut self, queue: u16, slot: Slot, command: Command) {
        self.send_request(queue, slot, command, Vec::new());
    }

    /// Hands a request with its data, or room for it, to the drive.
    pub(crate) fn send_request(&mut self, queue: u16, slot: Slot, command: Command, data: Vec<u8>) {
        let namespace = slot.nsid;
        if slot.purpose != Purpose::Format {
            self.enter_zones(namespace, command.operation, command.offset, command.length);
        }
        let tag = self.slots.requests.insert(slot);
        self.outgoing.send(Request { tag, namespace, queue, command, data });
    }

    /// Copies the data of a command from the guest into all of `data`.
    pub(crate) fn receive(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        data: &mut [u8],
    ) -> Result<(), Failure> {
        self.with_segments(memory, command, data.len(), |segments| {
            stasis_memory::gather(memory, segments, data).map_err(Failure::from)
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
            stasis_memory::scatter(memory, segments, data).map_err(Failure::from)
        })
    }

    fn with_segments(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        length: usize,
        use_them: impl FnOnce(&[stasis_memory::Segment]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let segments = self.buffers.segments_of(memory, command, length)?;
        let result = use_them(&segments);
        self.buffers.give_segments(segments);
        result
    }
}

/// SLBA, or the destination's, in Dwords 10 and 11.
pub fn starting_lba(command: &SubmissionEntry) -> u64 {
    u64::from(command.cdw10) | u64::from(command.cdw11) << 32
}

/// The blocks of Read, Write and the commands like them: SLBA, and NLB (0's
/// based) in Dword 12.
pub fn extent_of(namespace: &Namespace, command: &SubmissionEntry) -> Result<Extent, Failure> {
    let blocks = u64::from(command.cdw12 & 0xffff) + 1;
    Extent::new(namespace, starting_lba(command), blocks, location::CDW10)
}
