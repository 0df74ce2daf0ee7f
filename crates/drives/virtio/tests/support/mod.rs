//! The other side of the device: a driver that works as Linux's does, over a
//! memory that is a vector, and a drive that is a vector too.

#![allow(dead_code)] // Each test file uses its part.

use std::cell::RefCell;

use stasis_block::{Command, Operation, Request, Status};
use stasis_virtio::{feature, Config, Memory, OutOfMemoryRange, PciDevice};

/// Guest memory from address 0 on.
pub struct Ram(RefCell<Vec<u8>>);

impl Ram {
    pub fn new(size: usize) -> Self {
        Self(RefCell::new(vec![0; size]))
    }

    fn range(
        &self,
        address: u64,
        length: usize,
    ) -> Result<std::ops::Range<usize>, OutOfMemoryRange> {
        match address.checked_add(length as u64) {
            Some(end) if end <= self.0.borrow().len() as u64 => Ok(address as usize..end as usize),
            _ => Err(OutOfMemoryRange { address, length }),
        }
    }

    pub fn get<const N: usize>(&self, address: u64) -> [u8; N] {
        self.0.borrow()[address as usize..][..N].try_into().unwrap()
    }

    pub fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        self.0.borrow()[address as usize..][..length].to_vec()
    }

    pub fn get16(&self, address: u64) -> u16 {
        u16::from_le_bytes(self.get(address))
    }

    pub fn set(&self, address: u64, data: &[u8]) {
        self.0.borrow_mut()[address as usize..][..data.len()].copy_from_slice(data);
    }

    pub fn set16(&self, address: u64, value: u16) {
        self.set(address, &value.to_le_bytes());
    }

    pub fn fill(&self, address: u64, length: usize, value: u8) {
        self.0.borrow_mut()[address as usize..][..length].fill(value);
    }
}

impl Memory for Ram {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.0.borrow()[range]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        let range = self.range(address, from.len())?;
        self.0.borrow_mut()[range].copy_from_slice(from);
        Ok(())
    }
}

/// Types of requests (virtio 1.2 section 5.2.6).
pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

pub const OK: u8 = 0;
pub const IO_ERROR: u8 = 1;
pub const UNSUPPORTED: u8 = 2;
/// Value that the driver puts in the place of a status.
pub const NO_STATUS: u8 = 0x5a;

/// Registers: the four structures' places in the BAR.
pub const SPACE: u64 = 0x2000;
pub const NOTIFY: u64 = 0x3000;

/// Queue n is at QUEUES + n * 0x10000, with the driver's own room behind it.
pub const QUEUES: u64 = 0x10_0000;
const QUEUE_STEP: u64 = 0x10_0000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x6000;
/// Header, status and indirect table of the request at a descriptor.
const ROOM: u64 = 0x1_0000;
const ROOM_STEP: u64 = 0x1000;
/// Memory for data.
pub const DATA: u64 = 0x80_0000;
pub const RAM: usize = 0x200_0000;
pub const CAPACITY: u64 = 4 << 20;

pub fn config() -> Config {
    Config {
        capacity: CAPACITY,
        identifier: "TEST0".into(),
        queues: 2,
        queue_size: 128,
        max_segments: 62,
        ..Config::default()
    }
}

/// A piece of guest memory.
pub type Piece = (u64, u32);

/// A virtqueue of the driver.
pub struct Queue {
    pub size: u16,
    base: u64,
    free: Vec<u16>,
    /// Descriptors of each request in flight, by its head.
    chains: Vec<Vec<u16>>,
    /// Entries made available, and the part of them announced to the device.
    pub available: u16,
    notified: u16,
    used: u16,
}

/// A request's end, as the driver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub head: u16,
    pub length: u32,
    pub status: u8,
}

pub struct Driver {
    pub device: PciDevice,
    pub ram: Ram,
    pub queues: Vec<Queue>,
    pub features: u64,
    pub kicks: u64,
    pub disk: Vec<u8>,
    /// Commands to the drive, without data.
    pub asked: Vec<Command>,
}

impl Driver {
    /// A driver that has not looked at its device.
    pub fn cold(config: Config) -> Self {
        let disk = vec![0; config.capacity.min(64 << 20) as usize];
        Self {
            device: PciDevice::new(config).unwrap(),
            ram: Ram::new(RAM),
            queues: Vec::new(),
            features: 0,
            kicks: 0,
            disk,
            asked: Vec::new(),
        }
    }

    /// A driver that uses all that the device offers.
    pub fn new(config: Config) -> Self {
        Self::without(config, &[])
    }

    /// A driver without support for `unknown` features.
    pub fn without(config: Config, unknown: &[u32]) -> Self {
        let mut driver = Self::cold(config);
        driver.start(unknown);
        driver
    }

    /// The initialization of section 3.1.1.
    pub fn start(&mut self, unknown: &[u32]) {
        self.write8(20, 0);
        self.write8(20, 1);
        self.write8(20, 3);
        let mut features = 0;
        for half in 0..2 {
            self.write32(0, half);
            features |= u64::from(self.read32(4)) << (32 * half);
        }
        features &= !unknown.iter().fold(0, |bits, bit| bits | 1 << bit);
        self.features = features;
        for half in 0..2 {
            self.write32(8, half);
            self.write32(12, (features >> (32 * half)) as u32);
        }
        self.write8(20, 11);
        assert_eq!(self.read8(20), 11, "the features are good");
        let count = self.read16(18);
        self.write16(16, count);
        self.queues.clear();
        for queue in 0..count {
            self.set_up(queue);
        }
        self.write8(20, 15);
        assert_eq!(self.read8(20), 15, "nothing is wrong");
    }

    fn set_up(&mut self, queue: u16) {
        self.write16(22, queue);
        let size = self.read16(24);
        let base = QUEUES + u64::from(queue) * QUEUE_STEP;
        self.ram.fill(base, 0x1_0000, 0);
        self.write16(24, size);
        self.write16(26, queue);
        for (at, address) in [(32, base), (40, base + AVAILABLE), (48, base + USED)] {
            self.write32(at, address as u32);
            self.write32(at + 4, (address >> 32) as u32);
        }
        self.write16(28, 1);
        self.queues.push(Queue {
            size,
            base,
            free: (0..size).rev().collect(),
            chains: vec![Vec::new(); size.into()],
            available: 0,
            notified: 0,
            used: 0,
        });
    }

    pub fn has(&self, bit: u32) -> bool {
        self.features & 1 << bit != 0
    }

    pub fn read8(&mut self, offset: u64) -> u8 {
        let mut raw = [0; 1];
        self.device.read_register(offset, &mut raw);
        raw[0]
    }

    pub fn read16(&mut self, offset: u64) -> u16 {
        let mut raw = [0; 2];
        self.device.read_register(offset, &mut raw);
        u16::from_le_bytes(raw)
    }

    pub fn read32(&mut self, offset: u64) -> u32 {
        let mut raw = [0; 4];
        self.device.read_register(offset, &mut raw);
        u32::from_le_bytes(raw)
    }

    pub fn write8(&mut self, offset: u64, value: u8) {
        self.device.write_register(&self.ram, offset, &[value]);
    }

    pub fn write16(&mut self, offset: u64, value: u16) {
        self.device.write_register(&self.ram, offset, &value.to_le_bytes());
    }

    pub fn write32(&mut self, offset: u64, value: u32) {
        self.device.write_register(&self.ram, offset, &value.to_le_bytes());
    }

    /// Address of the header of the request at descriptor `head`.
    pub fn header_of(&self, queue: u16, head: u16) -> u64 {
        self.queues[usize::from(queue)].base + ROOM + u64::from(head % 0xf0) * ROOM_STEP
    }

    fn status_of(&self, queue: u16, head: u16) -> u64 {
        self.header_of(queue, head) + 16
    }

    /// Puts a request into `queue` without telling: its first descriptor.
    /// `None` if the queue has no room.
    pub fn put(
        &mut self,
        queue: u16,
        kind: u32,
        sector: u64,
        readable: &[Piece],
        writable: &[Piece],
    ) -> Option<u16> {
        self.put_with(queue, kind, 0, sector, readable, writable, 16)
    }

    /// The same, with the request's priority, and its header in pieces of
    /// `step` bytes.
    #[allow(clippy::too_many_arguments)]
    pub fn put_with(
        &mut self,
        queue: u16,
        kind: u32,
        priority: u32,
        sector: u64,
        readable: &[Piece],
        writable: &[Piece],
        step: u32,
    ) -> Option<u16> {
        let head = *self.queues[usize::from(queue)].free.last()?;
        let header = self.header_of(queue, head);
        self.ram.set(header, &kind.to_le_bytes());
        self.ram.set(header + 4, &priority.to_le_bytes());
        self.ram.set(header + 8, &sector.to_le_bytes());
        self.ram.set(header + 16, &[NO_STATUS]);
        let mut pieces: Vec<(Piece, u16)> = (0..16)
            .step_by(step as usize)
            .map(|at| ((header + at, step.min(16 - at as u32)), 0))
            .collect();
        pieces.extend(readable.iter().map(|&piece| (piece, 0)));
        pieces.extend(writable.iter().map(|&piece| (piece, 2)));
        pieces.push(((header + 16, 1), 2));
        let indirect = self.has(feature::INDIRECT_DESC) && pieces.len() > 1;
        let count = if indirect { 1 } else { pieces.len() };
        let free = &mut self.queues[usize::from(queue)].free;
        if free.len() < count {
            return None;
        }
        let ids = free.split_off(free.len() - count);
        let ids: Vec<u16> = ids.into_iter().rev().collect();
        assert_eq!(ids[0], head);
        let (base, table) = (self.queues[usize::from(queue)].base, header + 32);
        let write = |base: u64, index: u16, (address, length): Piece, flags: u16, next: u16| {
            let at = base + 16 * u64::from(index);
            self.ram.set(at, &address.to_le_bytes());
            self.ram.set(at + 8, &length.to_le_bytes());
            self.ram.set16(at + 12, flags);
            self.ram.set16(at + 14, next);
        };
        let last = pieces.len() - 1;
        if indirect {
            for (index, &(piece, flags)) in pieces.iter().enumerate() {
                let flags = flags | u16::from(index < last);
                write(table, index as u16, piece, flags, index as u16 + 1);
            }
            write(base, head, (table, 16 * pieces.len() as u32), 4, 0);
        } else {
            for (index, &(piece, flags)) in pieces.iter().enumerate() {
                let next = ids.get(index + 1).copied();
                let flags = flags | u16::from(next.is_some());
                write(base, ids[index], piece, flags, next.unwrap_or(0));
            }
        }
        self.queues[usize::from(queue)].chains[usize::from(head)] = ids;
        self.make_available(queue, head);
        Some(head)
    }

    /// Makes the chain at `head` available, whatever it is.
    pub fn make_available(&mut self, queue: u16, head: u16) {
        let queue = &mut self.queues[usize::from(queue)];
        let place = u64::from(queue.available % queue.size);
        self.ram.set16(queue.base + AVAILABLE + 4 + 2 * place, head);
        queue.available = queue.available.wrapping_add(1);
        self.ram.set16(queue.base + AVAILABLE + 2, queue.available);
    }

    /// Notifies the device if it asks for that (Linux: virtqueue_kick_prepare).
    pub fn kick(&mut self, queue: u16) -> bool {
        let events = self.has(feature::EVENT_IDX);
        let entry = &mut self.queues[usize::from(queue)];
        let (old, new) = (entry.notified, entry.available);
        entry.notified = new;
        let used = entry.base + USED;
        let wants = if events {
            let event = self.ram.get16(used + 4 + 8 * u64::from(entry.size));
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            self.ram.get16(used) & 1 == 0
        };
        if wants {
            self.kicks += 1;
            self.notify(queue);
        }
        wants
    }

    pub fn notify(&mut self, queue: u16) {
        self.write16(NOTIFY + 4 * u64::from(queue), queue);
    }

    /// From which entry of the used ring on the driver wants an interrupt, or
    /// without the event index, whether it does (65535: no).
    pub fn want_interrupt(&mut self, queue: u16, at: u16) {
        let entry = &self.queues[usize::from(queue)];
        let available = entry.base + AVAILABLE;
        if self.has(feature::EVENT_IDX) {
            self.ram.set16(available + 4 + 2 * u64::from(entry.size), at);
        } else {
            self.ram.set16(available, u16::from(at == u16::MAX));
        }
    }

    /// Number of requests that the driver has taken back.
    pub fn used(&self, queue: u16) -> u16 {
        self.queues[usize::from(queue)].used
    }

    /// Takes back the requests that the device has given back.
    pub fn reap(&mut self, queue: u16) -> Vec<End> {
        let mut ends = Vec::new();
        loop {
            let entry = &mut self.queues[usize::from(queue)];
            let used = entry.base + USED;
            if self.ram.get16(used + 2) == entry.used {
                return ends;
            }
            let at = used + 4 + 8 * u64::from(entry.used % entry.size);
            entry.used = entry.used.wrapping_add(1);
            let head = u32::from_le_bytes(self.ram.get(at)) as u16;
            let length = u32::from_le_bytes(self.ram.get(at + 4));
            let mut ids = std::mem::take(&mut entry.chains[usize::from(head)]);
            assert!(!ids.is_empty(), "a request given back twice");
            ids.reverse();
            entry.free.append(&mut ids);
            let [status] = self.ram.get(self.status_of(queue, head));
            ends.push(End { head, length, status });
        }
    }

    /// A request of queue 0, carried out, and its end.
    pub fn io(&mut self, kind: u32, sector: u64, readable: &[Piece], writable: &[Piece]) -> End {
        let head = self.put(0, kind, sector, readable, writable).expect("room");
        self.kick(0);
        self.serve();
        let ends = self.reap(0);
        assert_eq!(ends.len(), 1, "one end");
        assert_eq!(ends[0].head, head);
        ends[0]
    }

    /// Writes ranges of sectors with flags to memory, as discards have them.
    pub fn ranges(&self, ranges: &[(u64, u32, u32)]) -> Piece {
        for (index, (sector, sectors, flags)) in ranges.iter().enumerate() {
            let at = DATA + 16 * index as u64;
            self.ram.set(at, &sector.to_le_bytes());
            self.ram.set(at + 8, &sectors.to_le_bytes());
            self.ram.set(at + 12, &flags.to_le_bytes());
        }
        (DATA, 16 * ranges.len() as u32)
    }

    /// Carries out a request on the disk.
    pub fn perform(&mut self, request: &mut Request) {
        let command = request.command;
        self.asked.push(command);
        let (at, length) = (command.offset as usize, command.length as usize);
        match command.operation {
            Operation::Read => request.data.copy_from_slice(&self.disk[at..at + length]),
            Operation::Write => self.disk[at..at + length].copy_from_slice(&request.data),
            Operation::WriteZeroes | Operation::Discard => self.disk[at..at + length].fill(0),
            _ => {}
        }
    }

    /// Carries out all requests.
    pub fn serve(&mut self) {
        while let Some(mut request) = self.device.pop_request() {
            self.perform(&mut request);
            self.device.complete(&self.ram, request.tag, Status::Ok, request.data);
        }
    }

    /// All interrupts that wait.
    pub fn interrupts(&mut self) -> Vec<u16> {
        std::iter::from_fn(|| self.device.pop_interrupt()).collect()
    }
}
