//! Disks: the machine's virtio block devices, one request at a time, waited for.
//!
//! A device's time is in no guest's time. Section numbers are those of the Virtual I/O Device
//! specification 1.2.

use std::sync::atomic::{fence, Ordering};

/// Limit on the disks of a machine: the slots of QEMU's microvm (hw/i386/microvm.c), as are their
/// addresses.
pub const MAX_DISKS: usize = 8;
const BASE: u64 = 0xfeb0_0000;
const STEP: u64 = 0x200;

/// Bytes of a sector: in what requests count (5.2.4).
pub const SECTOR: u64 = 512;

// Registers: 4.2.2.
const MAGIC: u64 = 0x00;
const VERSION: u64 = 0x04;
const DEVICE: u64 = 0x08;
const DEVICE_FEATURES: u64 = 0x10;
const DEVICE_FEATURES_WORD: u64 = 0x14;
const DRIVER_FEATURES: u64 = 0x20;
const DRIVER_FEATURES_WORD: u64 = 0x24;
const QUEUE: u64 = 0x30;
const QUEUE_SIZE: u64 = 0x38;
const QUEUE_READY: u64 = 0x44;
const NOTIFY: u64 = 0x50;
const STATUS: u64 = 0x70;
const DESCRIPTORS: u64 = 0x80;
const AVAILABLE: u64 = 0x90;
const USED: u64 = 0xa0;
/// Place of the capacity, in sectors.
const CAPACITY: u64 = 0x100;

const MAGIC_VALUE: u32 = 0x7472_6976;
const BLOCK_DEVICE: u32 = 2;

// Status bits: 2.1.
const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;

// Features: 5.2.3; the last one is bit 0 of the second word (6).
const READ_ONLY: u32 = 1 << 5;
const FLUSH: u32 = 1 << 9;
const WRITE_ZEROES: u32 = 1 << 14;
const VERSION_1: u32 = 1;

/// A request to a disk (5.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// A read into the memory at an address: the address, and a number of bytes.
    Read(u64, u64),
    /// A write from the memory at an address: the address, and a number of bytes.
    Write(u64, u64),
    /// Everything written before is durable.
    Flush,
    /// A range that reads as zeroes from then on. `unmap`: it needs no room either.
    Zero { bytes: u64, unmap: bool },
}

/// A descriptor (2.7.5).
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    length: u32,
    flags: u16,
    next: u16,
}

const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;
/// Entries of the queue: a request has up to three.
const ENTRIES: usize = 4;

/// The one queue of a disk, and a request's own bytes.
#[repr(C, align(4096))]
struct Queue {
    descriptors: [Descriptor; ENTRIES],
    // Flags, index, ring (2.7.6).
    available: [u16; 2 + ENTRIES],
    // Flags and index, then pairs of an entry and a length (2.7.8).
    used: [u32; 1 + 2 * ENTRIES],
    // Type, reserved, sector.
    header: [u64; 2],
    // Sector, then the number of sectors and flags (5.2.6.1).
    range: [u64; 2],
    status: u8,
    ready: bool,
    features: u32,
    requests: u16,
}

const EMPTY: Queue = Queue {
    descriptors: [Descriptor { address: 0, length: 0, flags: 0, next: 0 }; ENTRIES],
    available: [0; 2 + ENTRIES],
    used: [0; 1 + 2 * ENTRIES],
    header: [0; 2],
    range: [0; 2],
    status: 0,
    ready: false,
    features: 0,
    requests: 0,
};

static mut QUEUES: [Queue; MAX_DISKS] = [EMPTY; MAX_DISKS];

/// The disk in slot `index`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disk {
    index: usize,
}

/// A disk reports that a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed;

impl Disk {
    /// The disk in slot `index`, if there is one; made ready at the first call.
    pub(crate) fn find(index: usize) -> Option<Self> {
        if index >= MAX_DISKS {
            return None;
        }
        let disk = Self { index };
        if !disk.queue().ready && !disk.start() {
            return None;
        }
        Some(disk)
    }

    /// Bytes.
    pub(crate) fn capacity(self) -> u64 {
        let (low, high) = (self.get(CAPACITY), self.get(CAPACITY + 4));
        (u64::from(low) | u64::from(high) << 32).saturating_mul(SECTOR)
    }

    /// Returns whether nothing can be written.
    pub(crate) fn is_read_only(self) -> bool {
        self.queue().features & READ_ONLY != 0
    }

    /// Returns whether it zeroes ranges by itself.
    pub(crate) fn zeroes(self) -> bool {
        self.queue().features & WRITE_ZEROES != 0
    }

    #[allow(clippy::mut_from_ref)]
    fn queue(&self) -> &mut Queue {
        // SAFETY: system calls do not nest and there is one thread; no other
        // reference is alive across a call of this.
        unsafe { &mut QUEUES[self.index] }
    }

    fn register(self, offset: u64) -> *mut u32 {
        (BASE + STEP * self.index as u64 + offset) as *mut u32
    }

    fn get(self, offset: u64) -> u32 {
        // SAFETY: a register of a slot, which is there with or without a disk.
        unsafe { self.register(offset).read_volatile() }
    }

    fn set(self, offset: u64, value: u32) {
        // SAFETY: as in `get`; the disk's accesses to memory after that are within the queue and
        // the request's buffer.
        unsafe { self.register(offset).write_volatile(value) };
    }

    fn set_address(self, offset: u64, address: u64) {
        self.set(offset, address as u32);
        self.set(offset + 4, (address >> 32) as u32);
    }

    // 3.1.1.
    fn start(self) -> bool {
        if self.get(MAGIC) != MAGIC_VALUE
            || self.get(VERSION) != 2
            || self.get(DEVICE) != BLOCK_DEVICE
        {
            return false;
        }
        self.set(STATUS, 0);
        self.set(STATUS, ACKNOWLEDGE | DRIVER);
        self.set(DEVICE_FEATURES_WORD, 0);
        let features = self.get(DEVICE_FEATURES) & (READ_ONLY | FLUSH | WRITE_ZEROES);
        self.set(DRIVER_FEATURES_WORD, 0);
        self.set(DRIVER_FEATURES, features);
        self.set(DRIVER_FEATURES_WORD, 1);
        self.set(DRIVER_FEATURES, VERSION_1);
        self.set(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        if self.get(STATUS) & FEATURES_OK == 0 {
            return false;
        }
        let queue = self.queue();
        queue.features = features;
        self.set(QUEUE, 0);
        self.set(QUEUE_SIZE, ENTRIES as u32);
        self.set_address(DESCRIPTORS, &raw const queue.descriptors as u64);
        self.set_address(AVAILABLE, &raw const queue.available as u64);
        self.set_address(USED, &raw const queue.used as u64);
        self.set(QUEUE_READY, 1);
        self.set(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
        queue.ready = true;
        true
    }

    /// Does `request` at `sector`, and waits for its end.
    ///
    /// # Safety
    /// The memory of a read or write must be the request's for the call.
    pub(crate) unsafe fn perform(self, request: Request, sector: u64) -> Result<(), Failed> {
        let queue = self.queue();
        let (kind, data) = match request {
            Request::Read(address, length) => (0, Some((address, length, DEVICE_WRITES))),
            Request::Write(address, length) => (1, Some((address, length, 0))),
            // Without the feature there is nothing to flush.
            Request::Flush if queue.features & FLUSH == 0 => return Ok(()),
            Request::Flush => (4, None),
            Request::Zero { bytes, unmap } => {
                queue.range = [sector, (bytes / SECTOR) | u64::from(unmap) << 32];
                (13, Some((&raw const queue.range as u64, 16, 0)))
            }
        };
        let at = match request {
            Request::Read(..) | Request::Write(..) => sector,
            _ => 0,
        };
        (queue.header, queue.status) = ([kind, at], 0xff);
        let mut count = 0;
        let mut add = |address: u64, length: u64, flags: u16| {
            let next = count as u16 + 1;
            queue.descriptors[count] = Descriptor { address, length: length as u32, flags, next };
            count += 1;
        };
        add(&raw const queue.header as u64, 16, NEXT);
        if let Some((address, length, flags)) = data {
            add(address, length, NEXT | flags);
        }
        add(&raw const queue.status as u64, 1, DEVICE_WRITES);
        queue.available[2 + usize::from(queue.requests) % ENTRIES] = 0;
        queue.requests = queue.requests.wrapping_add(1);
        fence(Ordering::SeqCst);
        let (available, used) = (&raw mut queue.available[1], &raw const queue.used[0]);
        let status = &raw const queue.status;
        // SAFETY: fields of the queue, which the disk reads and writes too.
        unsafe {
            available.write_volatile(queue.requests);
            fence(Ordering::SeqCst);
            self.set(NOTIFY, 0);
            while (used.read_volatile() >> 16) as u16 != queue.requests {
                std::hint::spin_loop();
            }
            fence(Ordering::SeqCst);
            if status.read_volatile() == 0 {
                Ok(())
            } else {
                Err(Failed)
            }
        }
    }
}
