//! Open-Channel namespaces, by the commands that a host's own FTL gives.

use crate::support::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Namespace, Ocssd};

const RESET: u8 = 0x90;
const WRITE: u8 = 0x91;
const READ: u8 = 0x92;
const COPY: u8 = 0x93;

const BLOCK: u64 = 4096;
const GROUPS: u64 = 2;
const UNITS: u64 = 3;
const CHUNKS: u64 = 4;
const SECTORS: u64 = 16;
/// Address of lists of addresses, and of a second one.
const LIST: u64 = 0x8000;
const TARGETS: u64 = 0x9000;

const FREE: u8 = 1;
const CLOSED: u8 = 2;
const OPEN: u8 = 4;
const OFFLINE: u8 = 8;

fn ocssd() -> Ocssd {
    Ocssd::new(GROUPS as u16, UNITS as u16, CHUNKS as u32, SECTORS as u32)
}

/// An address: 1 bit of group, 2 of unit, 2 of chunk, 4 of sector.
fn address(group: u64, unit: u64, chunk: u64, sector: u64) -> u64 {
    group << 8 | unit << 6 | chunk << 4 | sector
}

/// The same sector's byte on the drive.
fn linear(group: u64, unit: u64, chunk: u64, sector: u64) -> u64 {
    (((group * UNITS + unit) * CHUNKS + chunk) * SECTORS + sector) * BLOCK
}

fn driver_with(ocssd: Ocssd) -> Driver {
    let blocks = GROUPS * UNITS * CHUNKS * SECTORS;
    let namespace = Namespace { ocssd: Some(ocssd), ..Namespace::new(blocks, BLOCK as u32) };
    let driver = Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1, 64);
    list_pages(&driver);
    driver
}

/// A PRP list of the pages after the first.
fn list_pages(driver: &Driver) {
    let pages: Vec<u8> = (1..64u64).flat_map(|page| (DATA + page * PAGE).to_le_bytes()).collect();
    driver.ram.set(SCRATCH, &pages);
}

fn list(driver: &Driver, at: u64, lbas: &[u64]) -> u64 {
    let raw: Vec<u8> = lbas.iter().flat_map(|lba| lba.to_le_bytes()).collect();
    driver.ram.set(at, &raw);
    // One address is in the command itself.
    if lbas.len() == 1 {
        lbas[0]
    } else {
        at
    }
}

fn vector(driver: &Driver, opcode: u8, lbas: &[u64]) -> Sqe {
    let list = list(driver, LIST, lbas);
    let prp2 = if lbas.len() > 2 { SCRATCH } else { DATA + PAGE };
    Sqe::io(opcode, list, lbas.len() as u32, DATA, prp2)
}

/// Status, and the elements that failed.
fn run(driver: &mut Driver, opcode: u8, lbas: &[u64]) -> (u16, u64) {
    let sqe = vector(driver, opcode, lbas);
    let cqe = driver.io(sqe);
    (cqe.status, u64::from(cqe.result) | u64::from(cqe.high) << 32)
}

/// State, wear and write pointer of a chunk, by its log.
fn chunk(driver: &mut Driver, group: u64, unit: u64, chunk: u64) -> (u8, u8, u64) {
    let index = (group * UNITS + unit) * CHUNKS + chunk;
    let sqe = Sqe {
        opcode: 2,
        nsid: 1,
        prp1: TARGETS,
        cdw10: 7 << 16 | 0xca,
        cdw12: index as u32 * 32,
        ..Default::default()
    };
    assert_eq!(driver.admin(sqe).status, 0);
    let raw = driver.ram.get(TARGETS, 32);
    let word = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().unwrap());
    assert_eq!((raw[1], word(8), word(16)), (1, address(group, unit, chunk, 0), SECTORS));
    (raw[0], raw[2], word(24))
}

fn sectors(group: u64, unit: u64, chunk: u64, range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|sector| address(group, unit, chunk, sector)).collect()
}

#[test]
fn the_geometry_is_told() {
    let mut driver = driver_with(Ocssd {
        write_min: 4,
        write_optimal: Some(8),
        cached: 4,
        max_open: Some(7),
        max_open_per_unit: Some(3),
        ..ocssd()
    });
    let geometry = Sqe { opcode: 0xe2, nsid: 1, prp1: TARGETS, ..Default::default() };
    assert_eq!(driver.admin(geometry).status, 0);
    let page = driver.ram.get(TARGETS, 4096);
    let dword = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
    assert_eq!((page[0], page[1]), (2, 0));
    assert_eq!(page[8..12], [1, 2, 2, 4], "bits of group, unit, chunk, sector");
    assert_eq!(dword(16), 1, "vector copy");
    assert_eq!((dword(64), dword(68), dword(72)), (3 << 16 | 2, 4, 16));
    assert_eq!((dword(128), dword(132), dword(136), dword(140), dword(144)), (4, 8, 4, 7, 3));
    let (_, id) = driver.identify(0, 1);
    assert_eq!(id[0..8], 512u64.to_le_bytes(), "all addresses");
    assert_eq!(id[8..16], 384u64.to_le_bytes(), "those that exist");
    let mut plain = Driver::new(config());
    let mut request = plain.controller.pop_vendor();
    assert!(request.is_none());
    plain.submit(0, geometry);
    request = plain.controller.pop_vendor();
    assert!(request.is_some(), "elsewhere it is the drive's own");
}

#[test]
fn vectors_become_requests_for_runs() {
    let mut driver = driver_with(ocssd());
    for page in 0..8 {
        driver.ram.set(DATA + page * PAGE, &[page as u8 + 1; 4096]);
    }
    // Three sectors of one chunk, two of another, one more of the first.
    let mut lbas = sectors(1, 2, 3, 0..3);
    lbas.extend(sectors(0, 1, 2, 0..2));
    lbas.extend(sectors(1, 2, 3, 3..4));
    assert_eq!(run(&mut driver, WRITE, &lbas), (0, 0));
    let asked: Vec<_> = driver.asked.drain(..).map(|at| (at.offset, at.length / BLOCK)).collect();
    let first = linear(1, 2, 3, 0);
    assert_eq!(asked, [(first, 3), (linear(0, 1, 2, 0), 2), (first + 3 * BLOCK, 1)]);
    assert_eq!(chunk(&mut driver, 1, 2, 3), (OPEN, 0, 4));
    assert_eq!(chunk(&mut driver, 0, 1, 2), (OPEN, 0, 2));
    // Read in another order.
    let order = [
        address(0, 1, 2, 1),
        address(1, 2, 3, 3),
        address(1, 2, 3, 0),
        address(1, 2, 3, 1),
        address(0, 1, 2, 0),
    ];
    assert_eq!(run(&mut driver, READ, &order), (0, 0));
    for (page, value) in [5, 6, 1, 2, 4].into_iter().enumerate() {
        assert_eq!(driver.ram.get(DATA + page as u64 * PAGE, 4096), [value; 4096]);
    }
    // A single one is in the command.
    assert_eq!(run(&mut driver, READ, &[address(1, 2, 3, 2)]), (0, 0));
    assert_eq!(driver.ram.get(DATA, 4096), [3; 4096]);
}

#[test]
fn chunks_are_written_in_order_and_reset_when_closed() {
    let mut driver = driver_with(Ocssd { write_min: 4, ..ocssd() });
    for (lbas, status, elements) in [
        (sectors(0, 0, 0, 4..8), 0x2f2, 0xf),
        (sectors(0, 0, 0, 0..3), 0x002, 0x7),
        (sectors(0, 0, 0, 0..4), 0, 0),
        (sectors(0, 0, 0, 0..4), 0x2f2, 0xf),
        (vec![address(0, 0, 0, 5), address(0, 0, 0, 4)], 0x2f2, 1),
        (vec![address(0, 3, 0, 0), address(0, 0, 0, 4)], 0x080, 1),
        (vec![address(0, 0, 0, 4), 1 << 40], 0x080, 2),
    ] {
        let requests = driver.asked.len();
        assert_eq!(run(&mut driver, WRITE, &lbas), (status, elements), "{lbas:x?}");
        assert_eq!(driver.asked.len() - requests, usize::from(status == 0));
    }
    assert_eq!(run(&mut driver, RESET, &[address(0, 0, 0, 0)]), (0x2c1, 1), "open");
    assert_eq!(run(&mut driver, RESET, &[address(0, 0, 1, 0)]), (0x2c1, 1), "free");
    assert_eq!(run(&mut driver, WRITE, &sectors(0, 0, 0, 4..16)), (0, 0));
    assert_eq!(chunk(&mut driver, 0, 0, 0), (CLOSED, 0, 16));
    assert_eq!(run(&mut driver, WRITE, &sectors(0, 0, 0, 12..16)), (0x2f2, 0xf));
    let two = [address(0, 0, 0, 0), address(0, 0, 1, 0)];
    assert_eq!(run(&mut driver, RESET, &two), (0x2c1, 2), "the second");
    assert_eq!(chunk(&mut driver, 0, 0, 0), (CLOSED, 0, 16), "and nothing is done");
    // The new descriptor goes to the metadata pointer.
    driver.asked.clear();
    let reset = Sqe { mptr: TARGETS, ..vector(&driver, RESET, &[address(0, 0, 0, 0)]) };
    assert_eq!(driver.io(reset).status, 0);
    assert_eq!(driver.ram.get(TARGETS, 1), [FREE]);
    let asked = driver.asked[0];
    assert_eq!(asked.operation, Operation::Discard);
    assert_eq!((asked.offset, asked.length), (0, SECTORS * BLOCK));
    assert_eq!(chunk(&mut driver, 0, 0, 0), (FREE, 0, 0));
}

#[test]
fn what_was_not_written_reads_as_zeroes() {
    let mut driver = driver_with(Ocssd { cached: 2, ..ocssd() });
    driver.disk.fill(9);
    driver.ram.set(DATA, &vec![7; 3 * 4096]);
    assert_eq!(run(&mut driver, WRITE, &sectors(0, 0, 0, 0..3)), (0, 0));
    assert_eq!(run(&mut driver, READ, &sectors(0, 0, 0, 0..4)), (0, 0));
    assert_eq!(driver.ram.get(DATA, 4096), [7; 4096]);
    assert_eq!(driver.ram.get(DATA + PAGE, 3 * 4096), [0; 3 * 4096], "still in the cache");
    assert_eq!(run(&mut driver, WRITE, &sectors(0, 0, 0, 3..16)), (0, 0));
    assert_eq!(run(&mut driver, READ, &sectors(0, 0, 0, 1..3)), (0, 0));
    assert_eq!(run(&mut driver, READ, &[address(1, 3, 0, 0)]), (0x080, 1));
}

#[test]
fn open_chunks_are_limited() {
    let limits = Ocssd { max_open: Some(3), max_open_per_unit: Some(2), ..ocssd() };
    let mut driver = driver_with(limits);
    let firsts = |places: &[(u64, u64)]| -> Vec<u64> {
        places.iter().map(|&(unit, chunk)| address(0, unit, chunk, 0)).collect()
    };
    assert_eq!(run(&mut driver, WRITE, &firsts(&[(0, 0), (0, 1), (0, 2)])), (0x2f2, 4));
    assert_eq!(run(&mut driver, WRITE, &firsts(&[(0, 0), (0, 1)])), (0, 0));
    assert_eq!(run(&mut driver, WRITE, &firsts(&[(0, 2)])), (0x2f2, 1));
    assert_eq!(run(&mut driver, WRITE, &firsts(&[(1, 0), (1, 1)])), (0x2f2, 2));
    assert_eq!(run(&mut driver, WRITE, &firsts(&[(1, 0)])), (0, 0));
    assert_eq!(run(&mut driver, WRITE, &sectors(0, 0, 0, 1..16)), (0, 0), "closed");
    assert_eq!(run(&mut driver, WRITE, &firsts(&[(0, 2)])), (0, 0));
}

#[test]
fn copies_stay_in_the_drive() {
    let mut driver = driver_with(ocssd());
    for page in 0..16 {
        driver.ram.set(DATA + page * PAGE, &[page as u8 + 1; 4096]);
    }
    assert_eq!(run(&mut driver, WRITE, &sectors(0, 0, 0, 0..16)), (0, 0));
    driver.asked.clear();
    let mut from = sectors(0, 0, 0, 8..12);
    from.push(address(0, 0, 0, 2));
    let mut to = sectors(1, 0, 0, 0..2);
    to.extend(sectors(1, 1, 0, 0..3));
    let copy = |driver: &mut Driver, from: &[u64], to: &[u64]| {
        let target = list(driver, TARGETS, to);
        let sqe = Sqe {
            cdw14: target as u32,
            cdw15: (target >> 32) as u32,
            ..vector(driver, COPY, from)
        };
        let cqe = driver.io(sqe);
        (cqe.status, cqe.result)
    };
    assert_eq!(copy(&mut driver, &from, &to), (0, 0));
    let asked: Vec<_> =
        driver.asked.iter().map(|at| (at.source, at.offset, at.length / BLOCK)).collect();
    let expected = [
        (linear(0, 0, 0, 8), linear(1, 0, 0, 0), 2),
        (linear(0, 0, 0, 10), linear(1, 1, 0, 0), 2),
        (linear(0, 0, 0, 2), linear(1, 1, 0, 2), 1),
    ];
    assert_eq!(asked, expected);
    assert_eq!(run(&mut driver, READ, &to), (0, 0));
    for (page, value) in [9, 10, 11, 12, 3].into_iter().enumerate() {
        assert_eq!(driver.ram.get(DATA + page as u64 * PAGE, 1), [value]);
    }
    assert_eq!(copy(&mut driver, &from, &to), (0x2f2, 3), "the targets are written");
    // Unwritten sectors are copied as they read: zeroes, and never the medium.
    driver.disk[linear(1, 1, 0, 3) as usize..][..BLOCK as usize].fill(0xee);
    let from = sectors(1, 1, 0, 2..4);
    assert_eq!(copy(&mut driver, &from, &sectors(1, 1, 0, 3..5)), (0, 0));
    assert_eq!(run(&mut driver, READ, &sectors(1, 1, 0, 3..5)), (0, 0));
    assert_eq!([0, PAGE].map(|page| driver.ram.get(DATA + page, 1)[0]), [3, 0]);
}

#[test]
fn scalar_commands_use_the_same_addresses() {
    let mut driver = driver_with(ocssd());
    driver.ram.set(DATA, &[7; 4096]);
    assert_eq!(driver.io(Sqe::io(1, address(1, 0, 1, 0), 16, DATA, SCRATCH)).status, 0);
    assert_eq!(driver.asked.last().unwrap().offset, linear(1, 0, 1, 0));
    assert_eq!(driver.io(Sqe::io(1, address(1, 0, 1, 0), 1, DATA, 0)).status, 0x2f2);
    // Two chunks that follow each other.
    assert_eq!(driver.io(Sqe::io(2, address(1, 0, 0, 15), 2, DATA, DATA + PAGE)).status, 0);
    assert_eq!(driver.ram.get(DATA, 4096), [0; 4096]);
    assert_eq!(driver.ram.get(DATA + PAGE, 1), [7]);
    assert_eq!(driver.io(Sqe::io(2, address(0, 3, 0, 0), 1, DATA, 0)).status, 0x080);
    assert_eq!(driver.io(Sqe::io(2, u64::MAX, 1, DATA, 0)).status, 0x080);
    let mut range = [0; 16];
    for (lba, blocks, status) in [
        (address(1, 0, 1, 0), 15, 0x2c1),
        (address(1, 0, 1, 0), 16, 0),
        (address(1, 0, 1, 0), 16, 0x2c1),
        (address(0, 3, 1, 0), 16, 0x080),
    ] {
        range[4..8].copy_from_slice(&(blocks as u32).to_le_bytes());
        range[8..16].copy_from_slice(&lba.to_le_bytes());
        driver.ram.set(DATA, &range);
        let sqe = Sqe { opcode: 9, nsid: 1, prp1: DATA, cdw11: 4, ..Default::default() };
        assert_eq!(driver.io(sqe).status, status, "{blocks} at {lba:x}");
    }
    assert_eq!(chunk(&mut driver, 1, 0, 1), (FREE, 0, 0));
    for opcode in [4, 5, 8, 0x0c, 0x19, 0x79] {
        assert_eq!(driver.io(Sqe::io(opcode, 0, 1, DATA, 0)).status, 0x001);
    }
    assert_eq!(driver.io(Sqe { opcode: 0, nsid: 1, ..Default::default() }).status, 0, "flush");
    // Vectors are nothing to others.
    let mut plain = Driver::with_queues(config(), 1, 8);
    assert_eq!(plain.io(Sqe::io(READ, 0, 1, DATA, 0)).status, 0x001);
}

#[test]
fn what_the_medium_loses_is_told() {
    let mut driver = driver_with(Ocssd { endurance: Some(2), ..ocssd() });
    let event = Sqe { opcode: 0x0c, ..Default::default() };
    driver.submit(0, event);
    let fail = |driver: &mut Driver, sqe: Sqe, which: usize, status: Status| {
        driver.submit(1, sqe);
        let mut at = 0;
        while let Some(request) = driver.controller.pop_request() {
            let status = if at == which { status } else { Status::Ok };
            driver.controller.complete(&driver.ram, request.tag, status, request.data);
            at += 1;
        }
        let cqe = driver.reap(1)[0];
        (cqe.status, cqe.result)
    };
    let mut lbas = sectors(0, 0, 0, 0..3);
    lbas.extend(sectors(0, 1, 0, 0..3));
    let sqe = vector(&driver, WRITE, &lbas);
    assert_eq!(fail(&mut driver, sqe, 1, Status::WriteError), (0x2f1, 0b11_1000));
    let events = driver.reap(0);
    assert_eq!((events[0].result, events[0].high), (0xd0_0007, 1), "log D0h");
    assert_eq!(chunk(&mut driver, 0, 0, 0), (OPEN, 0, 3));
    assert_eq!(chunk(&mut driver, 0, 1, 0), (CLOSED, 0, 0), "closed early");
    let sqe = vector(&driver, READ, &sectors(0, 0, 0, 1..3));
    assert_eq!(fail(&mut driver, sqe, 0, Status::ReadError), (0x281, 3));
    let sqe = vector(&driver, RESET, &[address(0, 1, 0, 0)]);
    assert_eq!(fail(&mut driver, sqe, 0, Status::WriteError), (0x2c0, 1));
    assert_eq!(chunk(&mut driver, 0, 1, 0).0, OFFLINE);
    for opcode in [READ, RESET] {
        assert_eq!(run(&mut driver, opcode, &[address(0, 1, 0, 0)]), (0x2c0, 1));
    }
    assert_eq!(run(&mut driver, WRITE, &[address(0, 1, 0, 0)]), (0x2f2, 1));
    let log = driver.log(0xd0, 256);
    let entry = |index: usize| {
        let at = index * 64;
        let lba = u64::from_le_bytes(log[at + 8..at + 16].try_into().unwrap());
        (log[at], lba, log[at + 16], log[at + 20], log[at + 22], log[at + 32])
    };
    assert_eq!(entry(0), (1, address(0, 1, 0, 0), 1, 8, 2, 0), "a chunk");
    assert_eq!(entry(1), (2, address(0, 0, 0, 1), 1, 8, 1, 1), "two sectors");
    assert_eq!(entry(2), (3, address(0, 1, 0, 0), 1, 8, 2, 0));
    assert_eq!(entry(3).0, 0);
    list_pages(&driver);
    // Wear: each reset is a half of the endurance.
    for wear in [127, 255] {
        assert_eq!(run(&mut driver, WRITE, &sectors(1, 0, 0, 0..16)), (0, 0));
        assert_eq!(run(&mut driver, RESET, &[address(1, 0, 0, 0)]), (0, 0));
        assert_eq!(chunk(&mut driver, 1, 0, 0), (FREE, wear, 0));
    }
}

#[test]
fn lists_and_data_outside_memory_change_nothing() {
    let mut driver = driver_with(ocssd());
    let lbas = sectors(0, 0, 0, 0..2);
    for (sqe, status) in [
        (Sqe { cdw10: RAM as u32 - 8, ..vector(&driver, WRITE, &lbas) }, 0x004),
        (Sqe { cdw11: u32::MAX, ..vector(&driver, READ, &lbas) }, 0x004),
        (Sqe { prp1: RAM as u64, ..vector(&driver, WRITE, &lbas) }, 0x004),
        (Sqe { prp1: 2, ..vector(&driver, WRITE, &lbas) }, 0x013),
    ] {
        assert_eq!(driver.io(sqe).status, status, "{sqe:x?}");
    }
    assert!(driver.asked.is_empty());
    assert_eq!(chunk(&mut driver, 0, 0, 0), (FREE, 0, 0));
}

/// A bit bucket that covers several chunks' sectors: each part of it is thrown away, and none
/// goes to the beginning of the guest's memory.
#[test]
fn a_bit_bucket_over_several_runs_writes_nothing() {
    let mut driver = driver_with(Ocssd { write_min: 1, ..ocssd() });
    for unit in 0..3 {
        assert_eq!(run(&mut driver, WRITE, &[address(0, unit, 0, 0)]), (0, 0));
    }
    driver.disk.fill(0xee);
    let lbas: Vec<u64> = (0..3).map(|unit| address(0, unit, 0, 0)).collect();
    // PSDT: the data pointer is an SGL, here one descriptor of kind 1 (NVMe 1.4 section 4.4).
    let bucket = u64::from(3 * BLOCK as u32) | 0x10 << 56;
    let sqe = Sqe { flags: 0x40, prp1: u64::MAX, prp2: bucket, ..vector(&driver, READ, &lbas) };
    let before = driver.ram.get(0, LIST as usize);
    assert_eq!(driver.io(sqe).status, 0);
    assert!(driver.ram.get(0, LIST as usize) == before, "memory was written");
}
