//! From chains of descriptors to requests (virtio 1.2 section 5.2.6).

use stasis_block::memory::{gather, scatter};
use stasis_block::{Command, Operation, Refused, Request};
use stasis_layout::{layout, IntoBytes, U16, U32, U64};

use crate::block::completions::RequestStatus;
use crate::block::device::{Device, MAX_REFUSED};
use crate::block::features::feature;
use crate::block::slots::{ChainId, Owner, Slot};
use crate::block::space::{MAX_DISCARD, MAX_RANGES, MAX_ZEROES};
use crate::chain::{cut_last, skip, total, Chain};
use crate::ring::Fault;
use crate::{Memory, OutOfMemoryRange, SECTOR};

/// Size of a request's header in bytes.
const HEADER: usize = size_of::<Header>();
/// In a range: the device may deallocate.
const UNMAP: u32 = 1;
/// Length of the device's identifier.
const IDENTIFIER: usize = 20;

/// Types of requests.
mod kind {
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

layout! {
    /// Header of every request.
    struct Header: 16 {
        [0] kind: U32,
        /// I/O priority, which Linux puts in place of four bytes that the specification reserves
        /// (linux/virtio_blk.h, `ioprio`): 16 bits.
        [4] priority: U16,
        [6] reserved6: [u8; 2],
        [8] sector: U64,
    }
}
layout! {
    /// A range to discard or to write zeroes to.
    struct Range: 16 {
        [0] sector: U64,
        [8] sectors: U32,
        [12] flags: U32,
    }
}

/// Outcome of the start of a request, or its status where it ends at once.
type Begun = Result<Outcome, RequestStatus>;

/// Progress of a request at its start.
enum Outcome {
    /// The drive has it.
    Pending,
    /// The request is done, with this many bytes written to the guest.
    Done(usize),
}

impl Device {
    /// Takes the request whose chain begins at descriptor `head`.
    pub(crate) fn execute(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        head: u16,
    ) -> Result<(), Fault> {
        let mut chain = std::mem::take(&mut self.chain);
        let result = self.execute_chain(memory, queue, head, &mut chain);
        self.chain = chain;
        result
    }

    fn execute_chain(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        head: u16,
        chain: &mut Chain,
    ) -> Result<(), Fault> {
        let Some(Some(ring)) = self.rings.get(usize::from(queue)) else { return Ok(()) };
        let indirect = self.has(feature::INDIRECT_DESC);
        chain.walk(memory, ring, head, self.config.queue_size.into(), indirect)?;
        let status = cut_last(&mut chain.writable).ok_or(Fault::Request)?;
        if !memory.contains(status, 1) {
            return Err(OutOfMemoryRange { address: status, length: 1 }.into());
        }
        if total(&chain.readable) < HEADER {
            return Err(Fault::Request);
        }
        let id = ChainId { queue, head, status, writable: total(&chain.writable) };
        match self.begin(memory, id, chain) {
            Ok(Outcome::Pending) => Ok(()),
            Ok(Outcome::Done(written)) => self.end(memory, id, RequestStatus::Ok, written),
            Err(status) => self.end(memory, id, status, 0),
        }
    }

    fn begin(
        &mut self,
        memory: &dyn Memory,
        id: ChainId,
        chain: &mut Chain,
    ) -> Result<Outcome, RequestStatus> {
        let mut header = Header::default();
        gather(memory, &chain.readable, header.as_mut_bytes())?;
        skip(&mut chain.readable, HEADER);
        let bytes = if header.kind == kind::IN { id.writable } else { total(&chain.readable) };
        let outcome = self.start(memory, id, header, chain);
        if let Err(status) = outcome {
            self.log_refused(id.queue, header, bytes, status);
        }
        outcome
    }

    /// Notes that a request was refused, if it is one for the drive.
    fn log_refused(&mut self, queue: u16, header: Header, bytes: usize, status: RequestStatus) {
        // The ranges of discards and of writes of zeroes are in their data.
        let (operation, ranged) = match header.kind.get() {
            kind::IN => (Operation::Read, true),
            kind::OUT => (Operation::Write, true),
            kind::FLUSH => (Operation::Flush, false),
            kind::DISCARD => (Operation::Discard, false),
            kind::WRITE_ZEROES => (Operation::WriteZeroes, false),
            _ => return,
        };
        if self.refused.len() >= MAX_REFUSED {
            return;
        }
        let mut command = Command::new(operation, 0, 0);
        if ranged {
            command.offset = header.sector.get().saturating_mul(SECTOR);
            command.length = bytes as u64;
        }
        let command = Command { priority: header.priority.get(), ..command };
        self.refused.push_back(Refused { queue, command, code: status as u16 });
    }

    fn start(
        &mut self,
        memory: &dyn Memory,
        id: ChainId,
        header: Header,
        chain: &mut Chain,
    ) -> Result<Outcome, RequestStatus> {
        let writes = matches!(header.kind.get(), kind::OUT | kind::DISCARD | kind::WRITE_ZEROES);
        if writes && self.config.read_only {
            return Err(RequestStatus::IoError);
        }
        match header.kind.get() {
            kind::IN => self.read(id, header, chain),
            kind::OUT => self.write(memory, id, header, chain),
            kind::FLUSH => {
                self.request(Owner::Chain(id), id, header, Command::flush());
                Ok(Outcome::Pending)
            }
            kind::GET_ID => {
                let mut name = [0; IDENTIFIER];
                let identifier = self.config.identifier.as_bytes();
                name[..identifier.len()].copy_from_slice(identifier);
                let length = id.writable.min(IDENTIFIER);
                scatter(memory, &chain.writable, &name[..length])?;
                Ok(Outcome::Done(length))
            }
            kind::DISCARD if self.has(feature::DISCARD) => self.ranges(memory, id, header, chain),
            kind::WRITE_ZEROES if self.has(feature::WRITE_ZEROES) => {
                self.ranges(memory, id, header, chain)
            }
            _ => Err(RequestStatus::Unsupported),
        }
    }

    /// The bytes of a transfer: whole sectors, inside the device, not more than
    /// a request moves.
    fn extent(&self, sector: u64, bytes: usize) -> Result<u64, RequestStatus> {
        if bytes == 0
            || !bytes.is_multiple_of(SECTOR as usize)
            || bytes > self.config.max_transfer()
        {
            return Err(RequestStatus::IoError);
        }
        self.inside(sector, bytes as u64)
    }

    /// The offset of `sector`, if `bytes` from there on are inside.
    fn inside(&self, sector: u64, bytes: u64) -> Result<u64, RequestStatus> {
        sector
            .checked_mul(SECTOR)
            .filter(|offset| {
                offset.checked_add(bytes).is_some_and(|end| end <= self.config.capacity)
            })
            .ok_or(RequestStatus::IoError)
    }

    fn read(&mut self, id: ChainId, header: Header, chain: &mut Chain) -> Begun {
        let bytes = id.writable;
        let offset = self.extent(header.sector.get(), bytes)?;
        let segments = std::mem::replace(&mut chain.writable, self.pool.take_segments());
        let operation = Operation::Read;
        let slot = Slot { owner: Owner::Chain(id), operation, bytes, segments };
        let command = Command::new(operation, offset, bytes as u64);
        let data = self.pool.take(bytes);
        self.send(slot, id, header, command, data);
        Ok(Outcome::Pending)
    }

    fn write(&mut self, memory: &dyn Memory, id: ChainId, header: Header, chain: &Chain) -> Begun {
        let bytes = total(&chain.readable);
        let offset = self.extent(header.sector.get(), bytes)?;
        let mut data = self.pool.take(bytes);
        if let Err(error) = gather(memory, &chain.readable, &mut data) {
            self.pool.give(data);
            return Err(error.into());
        }
        let operation = Operation::Write;
        let slot = Slot { owner: Owner::Chain(id), operation, bytes, segments: Vec::new() };
        let fua = self.is_write_through();
        let command = Command { fua, ..Command::new(operation, offset, bytes as u64) };
        self.send(slot, id, header, command, data);
        Ok(Outcome::Pending)
    }

    /// Discard and write zeroes: each range is a request.
    fn ranges(&mut self, memory: &dyn Memory, id: ChainId, header: Header, chain: &Chain) -> Begun {
        let length = total(&chain.readable);
        let mut ranges = [Range::default(); MAX_RANGES];
        if !length.is_multiple_of(size_of::<Range>()) || length > size_of_val(&ranges) {
            return Err(RequestStatus::IoError);
        }
        let ranges = &mut ranges[..length / size_of::<Range>()];
        gather(memory, &chain.readable, ranges.as_mut_bytes())?;
        let mut count = 0;
        for range in &*ranges {
            count += u32::from(self.range(header, range)?.length > 0);
        }
        let owner = match count {
            0 => return Ok(Outcome::Done(0)),
            1 => Owner::Chain(id),
            _ => Owner::Part(self.slots.insert_group(id, count)),
        };
        for range in &*ranges {
            let command = self.range(header, range)?;
            if command.length > 0 {
                self.request(owner, id, header, command);
            }
        }
        Ok(Outcome::Pending)
    }

    fn range(&self, header: Header, range: &Range) -> Result<Command, RequestStatus> {
        let (sectors, flags) = (range.sectors.get(), range.flags.get());
        let (known, most) = match header.kind.get() {
            kind::DISCARD => (0, MAX_DISCARD),
            _ => (UNMAP, MAX_ZEROES),
        };
        if flags & !known != 0 {
            return Err(RequestStatus::Unsupported);
        }
        if sectors > most {
            return Err(RequestStatus::IoError);
        }
        let length = u64::from(sectors) * SECTOR;
        let offset = self.inside(range.sector.get(), length)?;
        // Ranges that may be deallocated are, where they then read as zeroes.
        let zeroes = header.kind == kind::WRITE_ZEROES;
        let keeps = zeroes && (flags & UNMAP == 0 || !self.config.discard_zeroes);
        let operation = if keeps { Operation::WriteZeroes } else { Operation::Discard };
        let fua = zeroes && self.is_write_through();
        Ok(Command { fua, ..Command::new(operation, offset, length) })
    }

    /// Returns whether a write is durable when it is acknowledged: there is no cache, or the driver
    /// cannot flush it, or has turned it off (section 5.2.6.2).
    fn is_write_through(&self) -> bool {
        !self.has(feature::FLUSH) || !self.writeback
    }

    /// Hands a request without data to the drive.
    fn request(&mut self, owner: Owner, id: ChainId, header: Header, command: Command) {
        let operation = command.operation;
        let slot = Slot { owner, operation, bytes: 0, segments: Vec::new() };
        self.send(slot, id, header, command, Vec::new());
    }

    fn send(&mut self, slot: Slot, id: ChainId, header: Header, command: Command, data: Vec<u8>) {
        let command = Command { priority: header.priority.get(), ..command };
        let tag = self.slots.requests.insert(slot);
        let request = Request { queue: id.queue, ..Request::new(tag, command, data) };
        self.outbox.push_back(request);
    }
}
