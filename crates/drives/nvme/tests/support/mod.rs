//! The other side of the controller: a driver that works as Linux's does, over
//! a memory that is a vector, and a drive that is a vector too.

#![allow(dead_code)] // Each test file uses its part.

use std::cell::{Cell, RefCell};

use stasis_block::{Operation, Request, Status};
use stasis_nvme::{Config, KeptState, Memory, Namespace, OutOfMemoryRange};

mod one;
pub use one::Controller;

pub const PAGE: u64 = 4096;

/// Guest memory from address 0 on.
pub struct Ram {
    pub bytes: RefCell<Vec<u8>>,
    pub writes: Cell<u64>,
}

impl Ram {
    pub fn new(size: usize) -> Self {
        Self { bytes: RefCell::new(vec![0; size]), writes: Cell::new(0) }
    }

    fn range(
        &self,
        address: u64,
        length: usize,
    ) -> Result<std::ops::Range<usize>, OutOfMemoryRange> {
        let end = address.checked_add(length as u64);
        match end {
            Some(end) if end <= self.bytes.borrow().len() as u64 => {
                Ok(address as usize..end as usize)
            }
            _ => Err(OutOfMemoryRange { address, length }),
        }
    }

    pub fn get(&self, address: u64, length: usize) -> Vec<u8> {
        self.bytes.borrow()[address as usize..][..length].to_vec()
    }

    pub fn set(&self, address: u64, data: &[u8]) {
        self.bytes.borrow_mut()[address as usize..][..data.len()].copy_from_slice(data);
    }

    pub fn get32(&self, address: u64) -> u32 {
        let bytes = self.bytes.borrow();
        u32::from_le_bytes(bytes[address as usize..][..4].try_into().unwrap())
    }

    pub fn set32(&self, address: u64, value: u32) {
        self.set(address, &value.to_le_bytes());
    }

    pub fn set64(&self, address: u64, value: u64) {
        self.set(address, &value.to_le_bytes());
    }
}

impl Memory for Ram {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.bytes.borrow()[range]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        let range = self.range(address, from.len())?;
        self.writes.set(self.writes.get() + 1);
        self.bytes.borrow_mut()[range].copy_from_slice(from);
        Ok(())
    }
}

/// A submission queue entry.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sqe {
    pub opcode: u8,
    pub flags: u8,
    pub cid: u16,
    pub nsid: u32,
    pub cdw2: u32,
    pub cdw3: u32,
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

impl Sqe {
    pub fn to_bytes(self) -> [u8; 64] {
        let mut raw = [0; 64];
        raw[0] = self.opcode;
        raw[1] = self.flags;
        raw[2..4].copy_from_slice(&self.cid.to_le_bytes());
        raw[4..8].copy_from_slice(&self.nsid.to_le_bytes());
        raw[16..24].copy_from_slice(&self.mptr.to_le_bytes());
        raw[24..32].copy_from_slice(&self.prp1.to_le_bytes());
        raw[32..40].copy_from_slice(&self.prp2.to_le_bytes());
        for (at, value) in [
            (8, self.cdw2),
            (12, self.cdw3),
            (40, self.cdw10),
            (44, self.cdw11),
            (48, self.cdw12),
            (52, self.cdw13),
            (56, self.cdw14),
            (60, self.cdw15),
        ] {
            raw[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        raw
    }

    /// A Read or Write of `blocks` blocks from `lba` on, in namespace 1.
    pub fn io(opcode: u8, lba: u64, blocks: u32, prp1: u64, prp2: u64) -> Self {
        Self {
            opcode,
            nsid: 1,
            prp1,
            prp2,
            cdw10: lba as u32,
            cdw11: (lba >> 32) as u32,
            cdw12: blocks - 1,
            ..Default::default()
        }
    }
}

/// A completion queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cqe {
    pub result: u32,
    /// Dword 1.
    pub high: u32,
    pub sq_head: u16,
    pub sq_id: u16,
    pub cid: u16,
    /// Type and code only.
    pub status: u16,
    pub dnr: bool,
}

/// A queue pair of the driver.
pub struct Pair {
    pub id: u16,
    pub sq: u64,
    pub cq: u64,
    pub sq_size: u16,
    pub cq_size: u16,
    pub tail: u16,
    pub head: u16,
    pub phase: bool,
    pub last_cid: u16,
}

pub struct Driver {
    pub controller: Controller,
    pub ram: Ram,
    pub pairs: Vec<Pair>,
    /// Shadow doorbells and event indices.
    pub shadow: Option<(u64, u64)>,
    /// Writes of tail and head registers of I/O queues.
    pub tail_rings: u64,
    pub head_rings: u64,
    pub disk: Vec<u8>,
    /// The drive's requests, without data.
    pub asked: Vec<stasis_block::Command>,
}

pub const ADMIN_SQ: u64 = 0x1000;
pub const ADMIN_CQ: u64 = 0x2000;
pub const SHADOW: u64 = 0x3000;
pub const EVENTS: u64 = 0x4000;
/// A page for data of admin commands.
pub const SCRATCH: u64 = 0x5000;
/// Queues of pair n at QUEUES + n * 0x20000: submission, then completion.
pub const QUEUES: u64 = 0x10_0000;
/// Memory for data.
pub const DATA: u64 = 0x100_0000;
pub const RAM: usize = 0x200_0000;
pub const BLOCKS: u64 = 8192;

pub fn config() -> Config {
    Config {
        serial: "TEST0".into(),
        namespaces: vec![Namespace::new(BLOCKS, 512)],
        ..Config::default()
    }
}

/// Linux's nvme_dbbuf_need_event.
fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

impl Driver {
    /// A driver of the same drive after its power was off, with its kept state as text in between.
    pub fn power_cycle(self, config: Config) -> Self {
        let text = serde_json::to_string(&self.controller.kept_state()).unwrap();
        let state: KeptState = serde_json::from_str(&text).unwrap();
        let mut after = Self::cold(config.clone());
        after.controller = Controller::with_state(config, &state).unwrap();
        after.disk = self.disk;
        after.enable();
        after.create_pair(1, 64, 64, 1);
        after
    }

    /// A driver whose controller is not enabled.
    pub fn cold(config: Config) -> Self {
        let ends = config.namespaces.iter().map(|namespace| namespace.start + namespace.bytes());
        let bytes = ends.max().unwrap_or(0);
        Self {
            controller: Controller::new(config).unwrap(),
            ram: Ram::new(RAM),
            pairs: Vec::new(),
            shadow: None,
            tail_rings: 0,
            head_rings: 0,
            disk: vec![0; bytes.min(64 << 20) as usize],
            asked: Vec::new(),
        }
    }

    /// A driver with its admin queue.
    pub fn new(config: Config) -> Self {
        let mut driver = Self::cold(config);
        driver.enable();
        driver
    }

    /// A driver with `queues` I/O queue pairs of `size` entries.
    pub fn with_queues(config: Config, queues: u16, size: u16) -> Self {
        let mut driver = Self::new(config);
        for id in 1..=queues {
            driver.create_pair(id, size, size, id);
        }
        driver
    }

    pub fn read32(&mut self, offset: u64) -> u32 {
        let mut raw = [0; 4];
        self.controller.read_register(offset, &mut raw);
        u32::from_le_bytes(raw)
    }

    pub fn write32(&mut self, offset: u64, value: u32) {
        self.controller.write_register(&self.ram, offset, &value.to_le_bytes());
    }

    pub fn write64(&mut self, offset: u64, value: u64) {
        self.controller.write_register(&self.ram, offset, &value.to_le_bytes());
    }

    /// As Linux's nvme_pci_configure_admin_queue: 32 entries.
    pub fn enable(&mut self) {
        self.write32(0x24, 31 << 16 | 31);
        self.write64(0x28, ADMIN_SQ);
        self.write64(0x30, ADMIN_CQ);
        self.ram.set(ADMIN_CQ, &[0; 4096]);
        // All command sets, where there are several.
        let css = if self.read32(4) >> 11 & 1 != 0 { 6 << 4 } else { 0 };
        self.write32(0x14, 4 << 20 | 6 << 16 | css | 1);
        assert_eq!(self.read32(0x1c), 1, "ready");
        self.pairs = vec![Pair {
            id: 0,
            sq: ADMIN_SQ,
            cq: ADMIN_CQ,
            sq_size: 32,
            cq_size: 32,
            tail: 0,
            head: 0,
            phase: true,
            last_cid: 0,
        }];
        self.shadow = None;
    }

    pub fn disable(&mut self) {
        self.write32(0x14, 4 << 20 | 6 << 16);
        assert_eq!(self.read32(0x1c), 0);
    }

    /// Puts a command into queue `id` without telling; its command identifier.
    pub fn put(&mut self, id: u16, mut sqe: Sqe) -> u16 {
        let pair = &mut self.pairs[usize::from(id)];
        pair.last_cid = pair.last_cid.wrapping_add(1);
        sqe.cid = pair.last_cid;
        self.ram.set(pair.sq + u64::from(pair.tail) * 64, &sqe.to_bytes());
        pair.tail = (pair.tail + 1) % pair.sq_size;
        sqe.cid
    }

    /// Announces queue `id`'s tail to the controller.
    pub fn ring(&mut self, id: u16) {
        let tail = self.pairs[usize::from(id)].tail;
        let offset = u64::from(id) * 8;
        if self.moves_shadow(id, offset, tail) {
            self.tail_rings += u64::from(id != 0);
            self.write32(0x1000 + offset, tail.into());
        }
    }

    /// Returns whether the register is to be written too.
    fn moves_shadow(&mut self, id: u16, offset: u64, value: u16) -> bool {
        let Some((doorbells, events)) = self.shadow.filter(|_| id != 0) else { return true };
        let old = self.ram.get32(doorbells + offset) as u16;
        self.ram.set32(doorbells + offset, value.into());
        need_event(self.ram.get32(events + offset) as u16, value, old)
    }

    pub fn submit(&mut self, id: u16, sqe: Sqe) -> u16 {
        let cid = self.put(id, sqe);
        self.ring(id);
        cid
    }

    /// Takes the next completion of queue `id`, without telling.
    pub fn next(&mut self, id: u16) -> Option<Cqe> {
        let pair = &mut self.pairs[usize::from(id)];
        let raw = self.ram.get(pair.cq + u64::from(pair.head) * 16, 16);
        let word = |at: usize| u16::from_le_bytes([raw[at], raw[at + 1]]);
        if (word(14) & 1 != 0) != pair.phase {
            return None;
        }
        pair.head += 1;
        if pair.head == pair.cq_size {
            pair.head = 0;
            pair.phase = !pair.phase;
        }
        Some(Cqe {
            result: u32::from_le_bytes(raw[..4].try_into().unwrap()),
            high: u32::from_le_bytes(raw[4..8].try_into().unwrap()),
            sq_head: word(8),
            sq_id: word(10),
            cid: word(12),
            status: word(14) >> 1 & 0x7ff,
            dnr: word(14) >> 15 != 0,
        })
    }

    /// Announces queue `id`'s head to the controller.
    pub fn ring_head(&mut self, id: u16) {
        let head = self.pairs[usize::from(id)].head;
        let offset = u64::from(id) * 8 + 4;
        if self.moves_shadow(id, offset, head) {
            self.head_rings += u64::from(id != 0);
            self.write32(0x1000 + offset, head.into());
        }
    }

    /// Takes all completions of queue `id`.
    pub fn reap(&mut self, id: u16) -> Vec<Cqe> {
        let mut all = Vec::new();
        while let Some(cqe) = self.next(id) {
            all.push(cqe);
        }
        if !all.is_empty() {
            self.ring_head(id);
        }
        all
    }

    /// An admin command and its completion.
    pub fn admin(&mut self, sqe: Sqe) -> Cqe {
        let cid = self.submit(0, sqe);
        let mut all = self.reap(0);
        assert_eq!(all.len(), 1, "one completion for {sqe:?}");
        assert_eq!(all[0].cid, cid);
        all.remove(0)
    }

    /// An I/O command of queue 1, carried out, and its completion.
    pub fn io(&mut self, sqe: Sqe) -> Cqe {
        let cid = self.submit(1, sqe);
        self.serve();
        let mut all = self.reap(1);
        assert_eq!(all.len(), 1, "one completion for {sqe:?}");
        assert_eq!(all[0].cid, cid);
        all.remove(0)
    }

    pub fn create_cq(&mut self, id: u16, size: u16, vector: u16) -> Cqe {
        self.admin(Sqe {
            opcode: 5,
            prp1: QUEUES + u64::from(id) * 0x20000 + 0x10000,
            cdw10: u32::from(size - 1) << 16 | u32::from(id),
            cdw11: u32::from(vector) << 16 | 3,
            ..Default::default()
        })
    }

    pub fn create_sq(&mut self, id: u16, size: u16, cq: u16) -> Cqe {
        self.admin(Sqe {
            opcode: 1,
            prp1: QUEUES + u64::from(id) * 0x20000,
            cdw10: u32::from(size - 1) << 16 | u32::from(id),
            cdw11: u32::from(cq) << 16 | 1,
            ..Default::default()
        })
    }

    pub fn create_pair(&mut self, id: u16, sq_size: u16, cq_size: u16, vector: u16) {
        let sq = QUEUES + u64::from(id) * 0x20000;
        let cq = sq + 0x10000;
        self.ram.set(cq, &vec![0; usize::from(cq_size) * 16]);
        assert_eq!(self.create_cq(id, cq_size, vector).status, 0);
        assert_eq!(self.create_sq(id, sq_size, id).status, 0);
        let pair =
            Pair { id, sq, cq, sq_size, cq_size, tail: 0, head: 0, phase: true, last_cid: 0 };
        if usize::from(id) < self.pairs.len() {
            self.pairs[usize::from(id)] = pair;
        } else {
            assert_eq!(usize::from(id), self.pairs.len());
            self.pairs.push(pair);
        }
    }

    /// As Linux's nvme_dbbuf_set.
    pub fn configure_shadow(&mut self) {
        let sqe = Sqe { opcode: 0x7c, prp1: SHADOW, prp2: EVENTS, ..Default::default() };
        assert_eq!(self.admin(sqe).status, 0);
        self.shadow = Some((SHADOW, EVENTS));
    }

    pub fn identify(&mut self, cns: u32, nsid: u32) -> (u16, Vec<u8>) {
        let sqe = Sqe { opcode: 6, nsid, prp1: SCRATCH, cdw10: cns, ..Default::default() };
        let status = self.admin(sqe).status;
        (status, self.ram.get(SCRATCH, 4096))
    }

    pub fn log(&mut self, identifier: u32, length: u32) -> Vec<u8> {
        let sqe = Sqe {
            opcode: 2,
            nsid: u32::MAX,
            prp1: SCRATCH,
            cdw10: (length / 4 - 1) << 16 | identifier,
            ..Default::default()
        };
        assert_eq!(self.admin(sqe).status, 0);
        self.ram.get(SCRATCH, length as usize)
    }

    pub fn get_feature(&mut self, identifier: u32, cdw11: u32) -> Cqe {
        self.admin(Sqe { opcode: 10, cdw10: identifier, cdw11, ..Default::default() })
    }

    pub fn set_feature(&mut self, identifier: u32, cdw11: u32) -> Cqe {
        self.admin(Sqe { opcode: 9, cdw10: identifier, cdw11, ..Default::default() })
    }

    /// Performs a request on the disk.
    pub fn perform(&mut self, request: &mut Request) {
        self.asked.push(request.command);
        let at = request.command.offset as usize;
        let length = request.command.length as usize;
        match request.command.operation {
            Operation::Read => request.data.copy_from_slice(&self.disk[at..at + length]),
            Operation::Write => self.disk[at..at + length].copy_from_slice(&request.data),
            Operation::WriteZeroes => self.disk[at..at + length].fill(0),
            Operation::Copy => {
                let source = request.command.source as usize;
                self.disk.copy_within(source..source + length, at);
            }
            Operation::Verify if !request.data.is_empty() => {
                request.data.copy_from_slice(&self.disk[at..at + length]);
            }
            Operation::Flush | Operation::Discard | Operation::Verify | Operation::Barrier => {}
        }
    }

    /// Carries out all requests.
    pub fn serve(&mut self) {
        while let Some(mut request) = self.controller.pop_request() {
            self.perform(&mut request);
            self.controller.complete(&self.ram, request.tag, Status::Ok, request.data);
        }
    }

    /// All interrupts that wait.
    pub fn interrupts(&mut self) -> Vec<u16> {
        std::iter::from_fn(|| self.controller.pop_interrupt()).collect()
    }

    pub fn fill_scratch(&self, value: u8) {
        self.ram.set(SCRATCH, &[value; 4096]);
    }
}
