//! A driver and a carrier that follow a string of bytes, and the properties that must hold all the
//! same. Shared by the property test and the fuzz target.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use stasis_block::{Doorbells, Operation, Request, Status};
use stasis_virtio::{Config, Memory, OutOfMemoryRange, PciDevice};

#[path = "../../../block/tests/common/hostile.rs"]
pub mod common;
use common::Script;

/// Small, so that any address often hits something.
const RAM: usize = 128 << 10;
const CAPACITY: u64 = 2 << 20;
const SEGMENTS: u16 = 8;
const SEGMENT: u32 = 4 << 10;
const MAX_IN_FLIGHT: usize = 96 << 10;
const QUEUES: u16 = 3;
const SIZE: u16 = 16;
/// Limit on the accesses to memory in one call: in each queue twice its entries, each
/// with as many descriptors, each seen once, and its data in as many pieces.
const MAX_ACCESSES: u64 = QUEUES as u64 * 2 * SIZE as u64 * (2 * SIZE as u64 + 12) + 64;

/// Memory that another processor may change at any time.
struct Ram {
    bytes: RefCell<Vec<u8>>,
    accesses: Cell<u64>,
    /// Seed of the other processor's doings; 0 if there is none.
    other: Cell<u64>,
}

impl Ram {
    fn range(address: u64, length: usize) -> Result<std::ops::Range<usize>, OutOfMemoryRange> {
        common::range(RAM, address, length).ok_or(OutOfMemoryRange { address, length })
    }

    fn access(&self) {
        self.accesses.set(self.accesses.get() + 1);
        let mut seed = self.other.get();
        if seed != 0 {
            // xorshift64 (Marsaglia: Xorshift RNGs, 2003).
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            self.other.set(seed);
            // Mostly in a ring: its flags and index, or an entry.
            let place = queue_base((seed >> 32) as u16 % QUEUES) + 4096 * (seed >> 48 & 3);
            let at = place as usize + (seed >> 20) as usize % 48;
            self.bytes.borrow_mut()[at] = seed as u8 % 24;
        }
    }
}

impl Memory for Ram {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        self.access();
        into.copy_from_slice(&self.bytes.borrow()[Self::range(address, into.len())?]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        self.access();
        self.bytes.borrow_mut()[Self::range(address, from.len())?].copy_from_slice(from);
        Ok(())
    }
}

impl Script<'_> {
    /// Mostly in memory, sometimes anything.
    fn address(&mut self) -> u64 {
        match self.u8() {
            0..=239 => u64::from(self.u16()) * 2,
            _ => u64::from(self.u32()) << 32 | u64::from(self.u32()),
        }
    }
}

/// A queue's descriptors are in its first page, its rings in the next two.
fn queue_base(queue: u16) -> u64 {
    4096 + 4 * 4096 * u64::from(queue)
}

struct World {
    device: PciDevice,
    ram: Ram,
    held: HashMap<u32, Request>,
    available: [u16; QUEUES as usize],
    capacity: u64,
    read_only: bool,
}

/// Carries out `script`.
///
/// # Panics
/// If the device breaks a promise.
pub fn run(script: &[u8]) {
    let mut script = Script(script);
    let flags = script.u8();
    let config = Config {
        capacity: CAPACITY,
        queues: QUEUES,
        queue_size: SIZE,
        max_segments: SEGMENTS,
        max_segment_bytes: SEGMENT,
        max_in_flight_bytes: MAX_IN_FLIGHT,
        read_only: flags & 0x21 == 0x21,
        volatile_write_cache: flags & 2 == 0,
        discard_zeroes: flags & 4 != 0,
        notify: if flags & 8 != 0 { Doorbells::Lazy } else { Doorbells::Exact },
        event_index: flags & 16 == 0,
        indirect: flags & 64 == 0,
        ..Config::default()
    };
    let read_only = config.read_only;
    let mut world = World {
        device: PciDevice::new(config).expect("a good configuration"),
        ram: Ram {
            bytes: RefCell::new(vec![0; RAM]),
            accesses: Cell::new(0),
            other: Cell::new(if flags & 0x80 != 0 { u64::from(script.u16()) } else { 0 }),
        },
        held: HashMap::new(),
        available: [0; QUEUES as usize],
        capacity: CAPACITY,
        read_only,
    };
    // Start in working order, or else scripts would rarely get there.
    world.start();
    while !script.0.is_empty() {
        world.ram.accesses.set(0);
        world.step(&mut script);
        assert!(world.ram.accesses.get() <= MAX_ACCESSES, "{}", world.ram.accesses.get());
        assert!(world.device.device().in_flight() >= world.held.len());
        let bytes: usize = world.held.values().map(|request| request.data.len()).sum();
        assert!(bytes <= MAX_IN_FLIGHT);
    }
    // Whatever happened, the drive can give everything back, and a reset helps.
    world.ram.other.set(0);
    for (_, request) in world.held.drain() {
        world.device.complete(&world.ram, request.tag, Status::Ok, request.data);
    }
    world.start();
    assert_eq!(world.device.device().in_flight(), 0);
    assert!(world.device.pop_request().is_none());
    assert_eq!(world.device.device().fault(), None);
}

impl World {
    fn write(&mut self, offset: u64, data: &[u8]) {
        self.device.write_register(&self.ram, offset, data);
    }

    /// As an honest driver would.
    fn start(&mut self) {
        self.available = [0; QUEUES as usize];
        self.write(20, &[0]);
        self.write(20, &[3]);
        for half in 0..2u32 {
            self.write(0, &half.to_le_bytes());
            let mut features = [0; 4];
            self.device.read_register(4, &mut features);
            self.write(8, &half.to_le_bytes());
            self.write(12, &features);
        }
        self.write(20, &[11]);
        self.write(16, &QUEUES.to_le_bytes());
        for queue in 0..QUEUES {
            let base = queue_base(queue);
            let _ = self.ram.write(base, &[0; 3 * 4096]);
            self.write(22, &queue.to_le_bytes());
            self.write(26, &queue.to_le_bytes());
            for (at, page) in [(32, 0), (40, 1), (48, 2)] {
                self.write(at, &(base + 4096 * page).to_le_bytes());
            }
            self.write(28, &[1, 0]);
        }
        self.write(20, &[15]);
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.u8() % 16 {
            0 => {
                let (offset, width) = (u64::from(script.u16() % 0x4100), script.u8() % 17);
                let data: Vec<u8> = (0..width).map(|_| script.u8()).collect();
                self.write(offset, &data);
            }
            1 => {
                let fields =
                    [(8, 4), (12, 4), (16, 2), (22, 2), (24, 2), (26, 2), (28, 2), (32, 8)];
                let (offset, width) = fields[usize::from(script.u8() % 8)];
                let value = (script.address() % 64).to_le_bytes();
                self.write(offset, &value[..width]);
            }
            2 => {
                let mut raw = vec![0; usize::from(script.u8() % 17)];
                self.device.read_register(script.u16().into(), &mut raw);
            }
            3 => {
                let address = script.address();
                let value = script.address().to_le_bytes();
                let _ = self.ram.write(address, &value.repeat(usize::from(script.u8() % 64)));
            }
            4 => {
                let queue = u64::from(script.u8() % 4);
                self.write(0x3000 + 4 * queue, &[0, 0]);
            }
            5 => self.device.poll(&self.ram),
            6 => {
                if script.u8() < 64 {
                    self.start();
                }
            }
            7 => {
                let capacity = u64::from(script.u16()) * 512;
                if script.u8() < 16 && self.device.resize(capacity).is_ok() {
                    self.capacity = self.capacity.max(capacity);
                }
            }
            8 => {
                while let Some(vector) = self.device.pop_interrupt() {
                    assert!(vector < self.device.vectors());
                }
            }
            9 | 10 => self.take(),
            11 => {
                let tag = u32::from(script.u8() % 32);
                let status = [Status::Ok, Status::ReadError, Status::WriteError]
                    [usize::from(script.u8() % 3)];
                match self.held.remove(&tag) {
                    Some(request) => self.device.complete(&self.ram, tag, status, request.data),
                    // Not in flight, at least not at the drive: a broken carrier.
                    None if script.u8() == 0 => {
                        self.device.complete(&self.ram, u32::MAX - tag, status, vec![1; 77]);
                    }
                    None => {}
                }
            }
            _ => self.command(script),
        }
    }

    /// Takes a request, as the drive does.
    fn take(&mut self) {
        let Some(request) = self.device.pop_request() else { return };
        let command = request.command;
        assert!(command.offset + command.length <= self.capacity, "inside the device");
        assert!(command.offset % 512 == 0 && command.length % 512 == 0);
        assert!(request.queue < QUEUES);
        match command.operation {
            Operation::Read | Operation::Write => {
                assert_eq!(request.data.len() as u64, command.length);
                let most = u64::from(SEGMENTS) * u64::from(SEGMENT);
                assert!(command.length > 0 && command.length <= most);
            }
            _ => assert!(request.data.is_empty()),
        }
        let reads = matches!(command.operation, Operation::Read | Operation::Flush);
        assert!(reads || !self.read_only, "protected");
        assert!(self.held.insert(request.tag, request).is_none(), "a tag in flight twice");
    }

    /// Puts a chain that makes some sense into a queue, and notifies.
    fn command(&mut self, script: &mut Script<'_>) {
        const KINDS: [u32; 8] = [0, 0, 1, 1, 4, 8, 11, 13];
        let queue = script.u8() % QUEUES as u8;
        let base = queue_base(queue.into());
        let kind = KINDS[usize::from(script.u8() % 8)];
        // The header, and ranges behind it, where descriptors point below.
        let room = 0x1_0000 + 4096 * u64::from(script.u8() % 12);
        let _ = self.ram.write(room, &kind.to_le_bytes());
        let sector = if script.u8() < 240 { u64::from(script.u16() % 5000) } else { u64::MAX };
        let _ = self.ram.write(room + 8, &sector.to_le_bytes());
        for range in 0..4u64 {
            let sectors = u32::from(script.u8());
            let at = room + 16 + 16 * range;
            let _ = self.ram.write(at, &(u64::from(script.u16() % 5000)).to_le_bytes());
            let _ = self.ram.write(at + 8, &sectors.to_le_bytes());
            let _ = self.ram.write(at + 12, &[script.u8() & 1, 0, 0, 0]);
        }
        let head = script.u8() % SIZE as u8;
        let count = 2 + script.u8() % 4;
        // The table is the queue's, or an indirect one.
        let indirect = script.u8() < 128;
        let table = if indirect { room + 2048 } else { base };
        let first = if indirect { 0 } else { u16::from(head) };
        for index in 0..u16::from(count) {
            let last = index + 1 == u16::from(count);
            let written = last || index > 0 && matches!(kind, 0 | 8);
            let (mut address, mut length) = match index {
                0 => (room, 16),
                _ if last => (room + 1024, 1),
                _ if kind >= 11 => (room + 16, 16 * u32::from(script.u8() % 4)),
                _ => (script.address(), 512 * u32::from(script.u8() % 12)),
            };
            let mut flags = u16::from(!last) | u16::from(written) << 1;
            let mut next = (first + index + 1) % SIZE;
            // Now and then something is wrong.
            match script.u8() {
                0..=3 => address = script.address(),
                4..=7 => length = script.u32(),
                8..=9 => flags = u16::from(script.u8() % 8),
                10..=11 => next = u16::from(script.u8() % 32),
                _ => {}
            }
            let at = table + 16 * u64::from((first + index) % SIZE);
            let _ = self.ram.write(at, &address.to_le_bytes());
            let _ = self.ram.write(at + 8, &length.to_le_bytes());
            let _ = self.ram.write(at + 12, &flags.to_le_bytes());
            let _ = self.ram.write(at + 14, &next.to_le_bytes());
        }
        if indirect {
            let at = base + 16 * u64::from(head);
            let _ = self.ram.write(at, &table.to_le_bytes());
            let _ = self.ram.write(at + 8, &(16 * u32::from(count)).to_le_bytes());
            let _ = self.ram.write(at + 12, &[4, 0, 0, 0]);
        }
        let available = &mut self.available[usize::from(queue)];
        let entry = base + 4096 + 4 + 2 * u64::from(*available % SIZE);
        *available = available.wrapping_add(1);
        let _ = self.ram.write(entry, &u16::from(head).to_le_bytes());
        let _ = self.ram.write(base + 4096 + 2, &available.to_le_bytes());
        self.ram.accesses.set(0);
        self.write(0x3000 + 4 * u64::from(queue), &[0, 0]);
    }
}
