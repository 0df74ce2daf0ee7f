//! Zoned namespaces under a driver that works as Linux's does.

use crate::support::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Namespace, Zones, Zrwa};

const WRITE: u8 = 1;
const READ: u8 = 2;
const SEND: u8 = 0x79;
const RECEIVE: u8 = 0x7a;
const APPEND: u8 = 0x7d;

const CLOSE: u32 = 1;
const FINISH: u32 = 2;
const OPEN: u32 = 3;
const RESET: u32 = 4;
const OFFLINE: u32 = 5;
const SET_EXTENSION: u32 = 0x10;
const FLUSH: u32 = 0x11;
const ALL: u32 = 1 << 8;
const ZRWAA: u32 = 1 << 9;

/// Blocks of a zone, and how many of them can be written.
const SIZE: u64 = 64;
const CAPACITY: u64 = 48;
const ZONES: u64 = 16;
const BLOCK: u64 = 4096;

fn zones() -> Zones {
    Zones { capacity: Some(CAPACITY * BLOCK), ..Zones::new(SIZE * BLOCK) }
}

fn driver_with(zones: Zones) -> Driver {
    let namespace = Namespace { zoned: Some(zones), ..Namespace::new(ZONES * SIZE, BLOCK as u32) };
    let driver = Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1, 64);
    // A page for each block of a transfer.
    let pages: Vec<u8> = (0..64u64).flat_map(|page| (DATA + page * PAGE).to_le_bytes()).collect();
    driver.ram.set(SCRATCH, &pages[8..]);
    driver
}

fn io(opcode: u8, lba: u64, blocks: u32) -> Sqe {
    let prp2 = if blocks > 2 { SCRATCH } else { DATA + PAGE };
    Sqe::io(opcode, lba, blocks, DATA, prp2)
}

fn send(action: u32, lba: u64) -> Sqe {
    Sqe { cdw13: action, ..Sqe::io(SEND, lba, 1, DATA, 0) }
}

/// A zone's entry in a report.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    state: u8,
    attributes: u8,
    pointer: u64,
}

/// The count that a report gives, and its zones.
fn report(driver: &mut Driver, lba: u64, dwords: u32, specific: u32) -> (u64, Vec<Seen>) {
    driver.ram.set(DATA, &[0; 4096]);
    let sqe = Sqe { cdw12: dwords - 1, cdw13: specific, ..Sqe::io(RECEIVE, lba, 1, DATA, 0) };
    assert_eq!(driver.io(sqe).status, 0);
    let raw = driver.ram.get(DATA, 4096);
    let word = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().unwrap());
    let mut listed = Vec::new();
    for at in (64..raw.len() - 63).step_by(64) {
        if raw[at] == 0 {
            break;
        }
        assert_eq!(raw[at], 2);
        listed.push(Seen {
            state: raw[at + 1] >> 4,
            attributes: raw[at + 2],
            pointer: word(at + 24),
        });
    }
    (word(0), listed)
}

/// State and write pointer of one zone.
fn zone(driver: &mut Driver, index: u64) -> (u8, u64) {
    let (_, listed) = report(driver, index * SIZE, 32, 1 << 16);
    (listed[0].state, listed[0].pointer)
}

/// Identify of a structure of a command set: status and data.
fn identify_set(driver: &mut Driver, cns: u32, nsid: u32, set: u32) -> (u16, Vec<u8>) {
    let cdw11 = set << 24;
    let sqe = Sqe { opcode: 6, nsid, prp1: SCRATCH, cdw10: cns, cdw11, ..Default::default() };
    driver.fill_scratch(0);
    let status = driver.admin(sqe).status;
    (status, driver.ram.get(SCRATCH, 4096))
}

/// The structures 1Ah and 1Bh show what 07h and 05h do, and namespaces that the controller has not.
#[test]
fn allocated_namespaces_are_listed_by_command_set() {
    let second = Namespace { start: ZONES * SIZE * BLOCK, ..Namespace::new(BLOCKS, 512) };
    let first = Namespace { zoned: Some(zones()), ..Namespace::new(ZONES * SIZE, BLOCK as u32) };
    let mut driver = Driver::new(Config { namespaces: vec![first, second], ..config() });
    for attached in [true, false] {
        for nsid in [1, 2] {
            driver.controller.set_attached(&driver.ram, nsid, attached).unwrap();
        }
        for (set, nsid) in [(2, 1), (0, 2)] {
            let active = identify_set(&mut driver, 0x07, 0, set);
            let (status, allocated) = identify_set(&mut driver, 0x1a, 0, set);
            assert_eq!((status, &allocated[..8]), (0, &[nsid, 0, 0, 0, 0, 0, 0, 0][..]));
            assert_eq!(active.1 == allocated, attached);
            let of_active = identify_set(&mut driver, 0x05, nsid.into(), set);
            let of_allocated = identify_set(&mut driver, 0x1b, nsid.into(), set);
            assert_eq!(of_allocated.0, 0);
            assert_eq!(of_active == of_allocated, attached, "set {set}");
        }
    }
    let zoned = identify_set(&mut driver, 0x1b, 1, 2).1;
    assert_eq!(zoned[2832..2840], (SIZE).to_le_bytes(), "the size of a zone in 4 KiB blocks");
    assert_eq!(identify_set(&mut driver, 0x1b, 2, 2).0, 0x02c, "not of this set");
    assert_eq!(identify_set(&mut driver, 0x1b, 3, 2), (0, vec![0; 4096]), "there is none");
    assert_eq!(identify_set(&mut driver, 0x1b, 0, 2).0, 0x00b);
    assert_eq!(identify_set(&mut driver, 0x1b, 3, 9).0, 0x002);
    assert_eq!(identify_set(&mut driver, 0x1a, u32::MAX, 2).0, 0x00b);
    assert_eq!(identify_set(&mut driver, 0x1a, 0, 9).0, 0x002);
}

#[test]
fn command_sets_are_offered_and_described() {
    let zoned = Zones {
        max_open: Some(3),
        max_active: Some(5),
        extension_size: 128,
        zrwa: Some(Zrwa { size: 8 * BLOCK, granularity: 2 * BLOCK, count: 2 }),
        reads_cross_zones: true,
        ..zones()
    };
    let first = Namespace { zoned: Some(zoned), ..Namespace::new(ZONES * SIZE, BLOCK as u32) };
    let second = Namespace { start: ZONES * SIZE * BLOCK, ..Namespace::new(BLOCKS, 512) };
    let mut driver = Driver::new(Config { namespaces: vec![first, second], ..config() });
    assert_eq!(driver.read32(4) >> 5 & 0x41, 0x41, "NVM, and all");
    let mut identify = |cns: u32, nsid: u32, set: u32| identify_set(&mut driver, cns, nsid, set);
    let (status, id) = identify(5, 1, 2);
    let dword = |at: usize| u32::from_le_bytes(id[at..at + 4].try_into().unwrap());
    assert_eq!(status, 0);
    assert_eq!((id[0], id[2]), (0, 3), "no characteristics; reads cross, ZRWA");
    assert_eq!((dword(4), dword(8), dword(44)), (4, 2, 1), "limits, 0's based");
    assert_eq!((dword(48), id[52]), (8 << 16 | 2, 1), "ZRWA size and granularity; explicit");
    // LBA formats of 512 and 4096 bytes.
    assert_eq!((dword(2816), dword(2820), id[2824]), (8 * SIZE as u32, 0, 2));
    assert_eq!((dword(2832), dword(2836), id[2840]), (SIZE as u32, 0, 2));
    let (status, id) = identify(6, 0, 2);
    assert_eq!((status, id[0]), (0, 7), "ZASL: 512 KiB in pages");
    assert_eq!(identify(5, 1, 0).0, 0);
    assert_eq!(identify(5, 2, 2).0, 0x02c, "not of this set");
    assert_eq!(identify(5, 3, 2).0, 0x00b);
    assert_eq!(identify(5, 1, 9).0, 0x002);
    assert_eq!(identify(6, 0, 1).0, 0x002);
    assert_eq!(identify(7, 0, 2).1[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify(7, 0, 0).1[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify(7, 1, 2).1[..4], [0; 4]);
    assert_eq!(identify(8, 1, 0).1[14], 1, "ready");
    assert_eq!(identify(0x1c, 0, 0).1[..8], [5, 0, 0, 0, 0, 0, 0, 0]);
    let descriptors = identify(3, 1, 0).1;
    // After EUI64, NGUID and UUID, 4 bytes before each.
    assert_eq!(descriptors[52..57], [4, 1, 0, 0, 2]);
    assert_eq!(identify(3, 2, 0).1[52..57], [4, 1, 0, 0, 0]);
    assert_eq!(identify(1, 0, 0).1[95], 8, "OAES: zone descriptors change");
    let effects = |driver: &mut Driver, set: u32| {
        let sqe = Sqe {
            opcode: 2,
            prp1: SCRATCH,
            cdw10: 1023 << 16 | 5,
            cdw14: set << 24,
            ..Default::default()
        };
        assert_eq!(driver.admin(sqe).status, 0);
        driver.ram.get(SCRATCH + 1024 + u64::from(APPEND) * 4, 4)[0]
    };
    assert_eq!((effects(&mut driver, 0), effects(&mut driver, 2)), (0, 3));
    // The profile can only be the one there is.
    assert_eq!(driver.get_feature(0x19, 0).status, 0);
    assert_eq!(driver.set_feature(0x19, 0).status, 0);
    assert_eq!(driver.set_feature(0x19, 1).status, 0x12b);
    // Without zones none of it is there.
    let mut plain = Driver::new(config());
    assert_eq!(plain.read32(4) >> 11 & 1, 0);
    assert_eq!(plain.get_feature(0x19, 0).status, 0x002);
}

#[test]
fn without_its_command_set_a_zoned_namespace_cannot_be_used() {
    let mut driver = driver_with(zones());
    assert_eq!(driver.io(io(READ, 0, 1)).status, 0);
    driver.write32(0x14, 0);
    driver.write32(0x14, 4 << 20 | 6 << 16 | 1);
    assert_eq!(driver.read32(0x1c), 1);
    driver.pairs.truncate(1);
    let admin = &mut driver.pairs[0];
    (admin.tail, admin.head, admin.phase) = (0, 0, true);
    driver.ram.set(ADMIN_CQ, &[0; 4096]);
    driver.create_pair(1, 8, 8, 1);
    assert_eq!(driver.io(io(READ, 0, 1)).status, 0x00b);
}

#[test]
fn writes_go_to_the_write_pointer_only() {
    let mut driver = driver_with(zones());
    driver.ram.set(DATA, &[7; 4096]);
    assert_eq!(zone(&mut driver, 0), (1, 0));
    for (lba, blocks, status) in [
        (1, 1, 0x1bc),
        (0, 4, 0),
        (0, 1, 0x1bc),
        (5, 1, 0x1bc),
        (4, 45, 0x1b8),
        (4, 64, 0x1b8),
        (4, 43, 0),
        (47, 2, 0x1b8),
        (48, 1, 0x1b8),
        (47, 1, 0),
        (47, 1, 0x1b9),
        (48, 1, 0x1b9),
        (ZONES * SIZE - 1, 1, 0x1b8),
        (ZONES * SIZE, 1, 0x080),
    ] {
        let writes = driver.asked.len();
        let cqe = driver.io(io(WRITE, lba, blocks));
        assert_eq!(cqe.status, status, "{blocks} at {lba}");
        assert_eq!(driver.asked.len() - writes, usize::from(status == 0), "nothing else is asked");
    }
    assert_eq!(zone(&mut driver, 0), (0xe, u64::MAX));
    // Each refusal is reported for records of I/Os.
    let mut refused = Vec::new();
    while let Some(one) = driver.controller.pop_refused() {
        assert_eq!((one.queue, one.command.operation), (1, Operation::Write));
        refused.push((one.command.offset / BLOCK, one.command.length / BLOCK, one.code));
    }
    assert_eq!(refused.len(), 11);
    assert_eq!(refused[..4], [(1, 1, 0x1bc), (0, 1, 0x1bc), (5, 1, 0x1bc), (4, 45, 0x1b8)]);
    assert_eq!(refused[10], (ZONES * SIZE, 1, 0x080));
    // Write Zeroes too, and Write Uncorrectable.
    assert_eq!(driver.io(io(8, SIZE + 1, 3)).status, 0x1bc);
    assert_eq!(driver.io(io(8, SIZE, 3)).status, 0);
    assert_eq!(driver.io(io(4, SIZE, 1)).status, 0x1bc);
    assert_eq!(driver.io(io(4, SIZE + 3, 1)).status, 0);
    assert_eq!(zone(&mut driver, 1), (2, SIZE + 4));
    assert_eq!(driver.io(io(READ, SIZE + 3, 1)).status, 0x281);
    // A write that cannot be fetched leaves the pointer alone.
    let lost = Sqe { prp1: RAM as u64, ..io(WRITE, SIZE + 4, 1) };
    assert_eq!(driver.io(lost).status, 0x004);
    assert_eq!(zone(&mut driver, 1), (2, SIZE + 4));
}

#[test]
fn reads_give_zeroes_where_nothing_was_written() {
    let mut driver = driver_with(zones());
    // The medium has something everywhere.
    driver.disk.fill(9);
    driver.ram.set(DATA, &[7; 4096]);
    assert_eq!(driver.io(io(WRITE, 0, 1)).status, 0);
    assert_eq!(driver.io(io(READ, 0, 2)).status, 0);
    assert_eq!(driver.ram.get(DATA, 4096), [7; 4096]);
    assert_eq!(driver.ram.get(DATA + PAGE, 4096), [0; 4096]);
    assert_eq!(driver.io(io(READ, SIZE - 1, 2)).status, 0x1b8, "across zones");
    assert_eq!(driver.io(io(READ, SIZE - 2, 2)).status, 0, "beyond the capacity");
    assert_eq!(driver.io(send(FINISH, 0)).status, 0);
    assert_eq!(driver.io(io(READ, 0, 2)).status, 0);
    assert_eq!(driver.ram.get(DATA + PAGE, 4096), [0; 4096]);
    assert_eq!(driver.io(send(RESET, 0)).status, 0);
    assert_eq!(driver.io(io(READ, 0, 1)).status, 0);
    assert_eq!(driver.ram.get(DATA, 4096), [0; 4096]);
    let mut driver = driver_with(Zones { reads_cross_zones: true, ..zones() });
    driver.disk.fill(9);
    driver.ram.set(DATA, &[7; 4096]);
    assert_eq!(driver.io(io(WRITE, SIZE, 1)).status, 0);
    assert_eq!(driver.io(io(READ, SIZE - 1, 2)).status, 0);
    assert_eq!(driver.ram.get(DATA, 4096), [0; 4096]);
    assert_eq!(driver.ram.get(DATA + PAGE, 4096), [7; 4096]);
}

#[test]
fn appends_tell_where_they_went() {
    let mut driver = driver_with(zones());
    for (blocks, lba) in [(4, 64), (1, 68), (40, 69)] {
        let cqe = driver.io(io(APPEND, SIZE, blocks));
        assert_eq!((cqe.status, cqe.result, cqe.high), (0, lba, 0));
        assert_eq!(driver.asked.last().unwrap().offset, u64::from(lba) * BLOCK);
    }
    assert_eq!(driver.io(io(APPEND, SIZE, 4)).status, 0x1b8);
    assert_eq!(driver.io(io(APPEND, SIZE, 3)).result, 109);
    assert_eq!(driver.io(io(APPEND, SIZE, 1)).status, 0x1b9);
    assert_eq!(driver.io(io(APPEND, 3 * SIZE + 1, 1)).status, 0x002, "not a zone's first block");
    assert_eq!(driver.io(io(APPEND, ZONES * SIZE, 1)).status, 0x080);
    // Several in flight, completed in any order, report their own addresses.
    let cids: Vec<u16> = (0..3).map(|_| driver.submit(1, io(APPEND, 0, 2))).collect();
    let mut requests: Vec<_> = std::iter::from_fn(|| driver.controller.pop_request()).collect();
    requests.reverse();
    for (index, request) in requests.into_iter().enumerate() {
        let status = if index == 0 { Status::WriteError } else { Status::Ok };
        driver.controller.complete(&driver.ram, request.tag, status, request.data);
    }
    let completions: Vec<_> =
        driver.reap(1).iter().map(|cqe| (cqe.cid, cqe.status, cqe.result)).collect();
    assert_eq!(completions, [(cids[2], 0x280, 0), (cids[1], 0, 2), (cids[0], 0, 0)]);
}

#[test]
fn an_address_beyond_32_bits_is_told_whole() {
    let blocks = 1 << 34;
    let namespace = Namespace { zoned: Some(Zones::new(1 << 40)), ..Namespace::new(blocks, 512) };
    let mut driver = Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1, 8);
    driver.submit(1, Sqe::io(APPEND, 3 << 31, 1, DATA, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    let cqe = driver.reap(1)[0];
    assert_eq!((cqe.status, cqe.result, cqe.high), (0, 1 << 31, 1));
}

#[test]
fn resets_ask_the_drive_to_forget() {
    let mut driver = driver_with(zones());
    for zone in [0, 1, 2, 5] {
        assert_eq!(driver.io(io(WRITE, zone * SIZE, 2)).status, 0);
    }
    driver.asked.clear();
    // It completes when the drive has done it.
    driver.submit(1, send(RESET, SIZE));
    assert!(driver.next(1).is_none());
    driver.serve();
    assert_eq!(driver.reap(1)[0].status, 0);
    let discard = driver.asked.pop().unwrap();
    assert_eq!(discard.operation, Operation::Discard);
    assert_eq!((discard.offset, discard.length), (SIZE * BLOCK, SIZE * BLOCK));
    assert_eq!(zone(&mut driver, 1), (1, SIZE));
    // An empty zone asks for nothing, a finish neither.
    assert_eq!(driver.io(send(RESET, SIZE)).status, 0);
    assert_eq!(driver.io(send(FINISH, 2 * SIZE)).status, 0);
    assert!(driver.asked.is_empty());
    // All: neighbours together.
    assert_eq!(driver.io(io(WRITE, SIZE, 2)).status, 0);
    driver.asked.clear();
    assert_eq!(driver.io(send(RESET | ALL, 0)).status, 0);
    let asked: Vec<_> = driver.asked.iter().map(|at| (at.offset, at.length)).collect();
    assert_eq!(asked, [(0, 3 * SIZE * BLOCK), (5 * SIZE * BLOCK, SIZE * BLOCK)]);
    let (count, _) = report(&mut driver, 0, 16, 1 << 8);
    assert_eq!(count, ZONES, "all empty");
    assert_eq!(driver.io(send(RESET | ALL, 0)).status, 0, "nothing to do");
}

#[test]
fn a_finish_fills_the_zone_where_the_drive_programs_zones() {
    const FULL: u8 = 0xe;
    let mut driver = driver_with(Zones { fills: true, ..zones() });
    for (zone, blocks) in [(0, 2), (1, CAPACITY as u32), (3, 7)] {
        assert_eq!(driver.io(io(WRITE, zone * SIZE, blocks)).status, 0);
    }
    driver.asked.clear();
    let asked = |driver: &mut Driver| -> Vec<_> {
        let asked = driver.asked.drain(..);
        asked.map(|at| (at.operation, at.offset / BLOCK, at.length / BLOCK)).collect()
    };
    driver.submit(1, send(FINISH, 0));
    assert!(driver.next(1).is_none(), "it completes when the drive has done it");
    driver.serve();
    assert_eq!(driver.reap(1)[0].status, 0);
    assert_eq!(asked(&mut driver), [(Operation::WriteZeroes, 2, CAPACITY - 2)]);
    assert_eq!(zone(&mut driver, 0).0, FULL);
    // One that is full asks for nothing, an empty one for all of it.
    for (zone, expected) in [(0, 0), (1, 0), (2, 1)] {
        assert_eq!(driver.io(send(FINISH, zone * SIZE)).status, 0);
        assert_eq!(asked(&mut driver).len(), expected, "{zone}");
    }
    assert_eq!(driver.io(io(WRITE, 4 * SIZE, 1)).status, 0);
    driver.asked.clear();
    assert_eq!(driver.io(send(FINISH | ALL, 0)).status, 0);
    let rests = [(3 * SIZE + 7, CAPACITY - 7), (4 * SIZE + 1, CAPACITY - 1)];
    assert_eq!(asked(&mut driver), rests.map(|(at, blocks)| (Operation::WriteZeroes, at, blocks)));
    // Not where a random write area is open: its blocks are in no order.
    let zrwa = Some(Zrwa { size: 8 * BLOCK, granularity: BLOCK, count: 1 });
    let mut driver = driver_with(Zones { fills: true, zrwa, ..zones() });
    assert_eq!(driver.io(send(OPEN | ZRWAA, 0)).status, 0);
    assert_eq!(driver.io(send(FINISH, 0)).status, 0);
    assert!(driver.asked.is_empty());
}

#[test]
fn states_change_as_the_state_machine_says() {
    // From each state, the outcome of each action: the state, or an error.
    const EMPTY: u8 = 1;
    const IMPLICIT: u8 = 2;
    const EXPLICIT: u8 = 3;
    const CLOSED: u8 = 4;
    const FULL: u8 = 0xe;
    const READ_ONLY: u8 = 0xd;
    const DEAD: u8 = 0xf;
    const NO: u8 = 0;
    for (from, expected) in [
        (EMPTY, [NO, FULL, EXPLICIT, EMPTY, NO]),
        (IMPLICIT, [CLOSED, FULL, EXPLICIT, EMPTY, NO]),
        (EXPLICIT, [CLOSED, FULL, EXPLICIT, EMPTY, NO]),
        (CLOSED, [CLOSED, FULL, EXPLICIT, EMPTY, NO]),
        (FULL, [NO, FULL, NO, EMPTY, NO]),
        (READ_ONLY, [NO, NO, NO, NO, DEAD]),
        (DEAD, [NO, NO, NO, NO, DEAD]),
    ] {
        for (action, expected) in [CLOSE, FINISH, OPEN, RESET, OFFLINE].into_iter().zip(expected) {
            let mut driver = driver_with(zones());
            match from {
                EMPTY => {}
                IMPLICIT => assert_eq!(driver.io(io(WRITE, SIZE, 1)).status, 0),
                EXPLICIT => assert_eq!(driver.io(send(OPEN, SIZE)).status, 0),
                CLOSED => {
                    assert_eq!(driver.io(send(OPEN, SIZE)).status, 0);
                    assert_eq!(driver.io(send(CLOSE, SIZE)).status, 0);
                }
                FULL => assert_eq!(driver.io(send(FINISH, SIZE)).status, 0),
                _ => break_zone(&mut driver, SIZE),
            }
            if from == DEAD {
                assert_eq!(driver.io(send(OFFLINE, SIZE)).status, 0);
            }
            assert_eq!(zone(&mut driver, 1).0, from);
            let status = driver.io(send(action, SIZE)).status;
            assert_eq!(status, if expected == NO { 0x1bf } else { 0 }, "{action} from {from}");
            let to = if expected == NO { from } else { expected };
            assert_eq!(zone(&mut driver, 1).0, to, "{action} from {from}");
        }
    }
    let mut driver = driver_with(zones());
    for (sqe, status) in [
        (send(OPEN, 1), 0x002),
        (send(OPEN, ZONES * SIZE), 0x080),
        (send(6, 0), 0x002),
        (send(SET_EXTENSION, 0), 0x002),
        (send(SET_EXTENSION | ALL, 0), 0x002),
        (send(FLUSH | ALL, 0), 0x002),
        (send(FLUSH, 0), 0x1b6),
        (send(OPEN | ZRWAA, 0), 0x1b6),
        (send(OPEN | ZRWAA | ALL, 0), 0x002),
        (Sqe { nsid: 2, ..send(OPEN, 0) }, 0x002),
    ] {
        assert_eq!(driver.io(sqe).status, status, "{sqe:x?}");
    }
    // Not of the NVM command set.
    let mut plain = Driver::with_queues(config(), 1, 8);
    for sqe in [send(OPEN, 0), Sqe::io(RECEIVE, 0, 1, DATA, 0), Sqe::io(APPEND, 0, 1, DATA, 0)] {
        assert_eq!(plain.io(sqe).status, 0x001);
    }
}

/// Makes a zone read only: the drive cannot write to it.
fn break_zone(driver: &mut Driver, lba: u64) {
    driver.submit(1, io(WRITE, lba, 1));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::WriteError, request.data);
    assert_eq!(driver.reap(1)[0].status, 0x280);
}

#[test]
fn actions_on_all_zones_concern_those_they_can() {
    let mut driver = driver_with(zones());
    let prepare = |driver: &mut Driver| {
        assert_eq!(driver.io(io(WRITE, 0, 1)).status, 0);
        assert_eq!(driver.io(send(OPEN, SIZE)).status, 0);
        assert_eq!(driver.io(io(WRITE, 2 * SIZE, 1)).status, 0);
        assert_eq!(driver.io(send(CLOSE, 2 * SIZE)).status, 0);
    };
    let states = |driver: &mut Driver| -> Vec<u8> {
        let (_, listed) = report(driver, 0, 1024, 0);
        listed[..4].iter().map(|zone| zone.state).collect()
    };
    break_zone(&mut driver, 3 * SIZE);
    prepare(&mut driver);
    assert_eq!(states(&mut driver), [2, 3, 4, 0xd]);
    assert_eq!(driver.io(send(OPEN | ALL, 0)).status, 0);
    assert_eq!(states(&mut driver), [2, 3, 3, 0xd]);
    assert_eq!(driver.io(send(CLOSE | ALL, 0)).status, 0);
    assert_eq!(states(&mut driver), [4, 4, 4, 0xd]);
    assert_eq!(driver.io(send(FINISH | ALL, 0)).status, 0);
    assert_eq!(states(&mut driver), [0xe, 0xe, 0xe, 0xd]);
    assert_eq!(driver.io(send(RESET | ALL, 0)).status, 0);
    assert_eq!(states(&mut driver), [1, 1, 1, 0xd]);
    assert_eq!(driver.io(send(OFFLINE | ALL, 0)).status, 0);
    assert_eq!(states(&mut driver), [1, 1, 1, 0xf]);
    for opcode in [READ, WRITE, APPEND] {
        assert_eq!(driver.io(io(opcode, 3 * SIZE, 1)).status, 0x1bb);
    }
}

#[test]
fn reports_are_partial_or_count_all() {
    let mut driver = driver_with(zones());
    for zone in [1, 3, 5] {
        assert_eq!(driver.io(send(OPEN, zone * SIZE)).status, 0);
    }
    let header = 16;
    let (count, listed) = report(&mut driver, 0, header + 2 * 16, 0);
    assert_eq!((count, listed.len()), (ZONES, 2));
    let (count, listed) = report(&mut driver, 0, header + 2 * 16, 1 << 16);
    assert_eq!((count, listed.len()), (2, 2));
    let (count, listed) = report(&mut driver, 2 * SIZE + 1, 1024, 3 << 8);
    assert_eq!((count, listed.len()), (2, 2), "explicitly open, from the zone of the address on");
    assert_eq!(listed[0].pointer, 3 * SIZE);
    let (count, listed) = report(&mut driver, 0, 1, 0);
    assert!(listed.is_empty() && count & 0xffff_ffff == ZONES, "half of the header");
    for (sqe, status) in [
        (Sqe { cdw12: 15, cdw13: 8 << 8, ..Sqe::io(RECEIVE, 0, 1, DATA, 0) }, 0x002),
        (Sqe { cdw12: 15, cdw13: 2, ..Sqe::io(RECEIVE, 0, 1, DATA, 0) }, 0x002),
        (Sqe { cdw12: 15, cdw13: 1, ..Sqe::io(RECEIVE, 0, 1, DATA, 0) }, 0x002),
        (Sqe { cdw12: u32::MAX, ..Sqe::io(RECEIVE, 0, 1, DATA, 0) }, 0x002),
        (Sqe { cdw12: 15, ..Sqe::io(RECEIVE, ZONES * SIZE, 1, DATA, 0) }, 0x080),
        (Sqe { cdw12: 15, ..Sqe::io(RECEIVE, 0, 1, RAM as u64, 0) }, 0x004),
    ] {
        assert_eq!(driver.io(sqe).status, status, "{sqe:x?}");
    }
}

#[test]
fn open_and_active_zones_are_limited() {
    let limits = Zones { max_open: Some(2), max_active: Some(3), ..zones() };
    let mut driver = driver_with(limits);
    let states = |driver: &mut Driver| -> Vec<u8> {
        let (_, listed) = report(driver, 0, 1024, 0);
        listed[..5].iter().map(|zone| zone.state).collect()
    };
    for zone in 0..3 {
        assert_eq!(driver.io(io(WRITE, zone * SIZE, 1)).status, 0);
    }
    assert_eq!(states(&mut driver), [4, 2, 2, 1, 1], "the longest open was closed");
    assert_eq!(driver.io(io(WRITE, 3 * SIZE, 1)).status, 0x1bd);
    assert_eq!(driver.io(io(APPEND, 3 * SIZE, 1)).status, 0x1bd);
    assert_eq!(driver.io(send(OPEN, 3 * SIZE)).status, 0x1bd);
    assert_eq!(driver.io(io(WRITE, 1, 1)).status, 0);
    assert_eq!(states(&mut driver), [2, 4, 2, 1, 1]);
    for zone in [0, 2] {
        assert_eq!(driver.io(send(OPEN, zone * SIZE)).status, 0);
    }
    assert_eq!(driver.io(io(WRITE, SIZE + 1, 1)).status, 0x1be, "explicitly open ones stay");
    assert_eq!(driver.io(send(OPEN, SIZE)).status, 0x1be);
    assert_eq!(driver.io(send(OPEN | ALL, 0)).status, 0x1be);
    assert_eq!(states(&mut driver), [3, 4, 3, 1, 1]);
    assert_eq!(driver.io(send(CLOSE, 0)).status, 0);
    assert_eq!(driver.io(send(OPEN, SIZE)).status, 0);
    assert_eq!(driver.io(send(RESET, 0)).status, 0);
    assert_eq!(driver.io(send(CLOSE, SIZE)).status, 0);
    assert_eq!(driver.io(io(WRITE, 4 * SIZE, 48)).status, 0, "full at once");
    assert_eq!(driver.io(io(WRITE, 3 * SIZE, 1)).status, 0);
    assert_eq!(states(&mut driver), [1, 4, 3, 2, 0xe]);
    // A reset of the controller leaves the zones alone.
    driver.disable();
    driver.enable();
    driver.pairs.truncate(1);
    driver.create_pair(1, 64, 64, 1);
    assert_eq!(states(&mut driver), [1, 4, 3, 2, 0xe]);
}

#[test]
fn extensions_stay_until_the_reset() {
    let mut driver = driver_with(Zones { extension_size: 64, max_active: Some(1), ..zones() });
    driver.ram.set(DATA, &[0xab; 64]);
    assert_eq!(driver.io(send(SET_EXTENSION, SIZE)).status, 0);
    assert_eq!(driver.io(send(SET_EXTENSION, SIZE)).status, 0x1bf, "no longer empty");
    assert_eq!(driver.io(send(SET_EXTENSION, 0)).status, 0x1bd);
    assert_eq!(zone(&mut driver, 1), (4, SIZE));
    let extended = Sqe { cdw12: 1023, cdw13: 1, ..Sqe::io(RECEIVE, 0, 1, DATA, 0) };
    assert_eq!(driver.io(extended).status, 0);
    let raw = driver.ram.get(DATA, 4096);
    assert_eq!((raw[64 + 2], raw[192 + 2]), (0, 0x80));
    assert_eq!(raw[128..192], [0; 64]);
    assert_eq!(raw[256..320], [0xab; 64]);
    assert_eq!(driver.io(send(RESET, SIZE)).status, 0);
    let (_, listed) = report(&mut driver, SIZE, 32, 1 << 16);
    assert_eq!(listed[0], Seen { state: 1, attributes: 0, pointer: SIZE });
}

#[test]
fn random_write_areas_move_with_what_is_written() {
    let zrwa = Zrwa { size: 8 * BLOCK, granularity: 2 * BLOCK, count: 1 };
    let mut driver = driver_with(Zones { zrwa: Some(zrwa), ..zones() });
    assert_eq!(driver.io(send(OPEN | ZRWAA, 0)).status, 0);
    assert_eq!(driver.io(send(OPEN | ZRWAA, 0)).status, 0, "it has one already");
    assert_eq!(driver.io(send(OPEN | ZRWAA, SIZE)).status, 0x1b7, "there is one only");
    assert_eq!(driver.io(io(WRITE, 2 * SIZE, 1)).status, 0);
    assert_eq!(driver.io(send(OPEN | ZRWAA, 2 * SIZE)).status, 0x1b6, "not empty");
    let (_, listed) = report(&mut driver, 0, 32, 1 << 16);
    assert_eq!(listed[0], Seen { state: 3, attributes: 8, pointer: 0 });
    let pointer = |driver: &mut Driver| zone(driver, 0).1;
    for (lba, blocks, status, after) in [
        (5, 3, 0, 0),
        (0, 1, 0, 0),
        (0, 1, 0, 0),
        // One beyond the area: the pointer moves a step.
        (8, 1, 0, 2),
        (1, 1, 0x1bc, 2),
        (2, 8, 0, 2),
        (9, 4, 0, 6),
        (6, 17, 0x1bc, 6),
        (21, 1, 0, 14),
        (29, 2, 0x1bc, 14),
    ] {
        assert_eq!(driver.io(io(WRITE, lba, blocks)).status, status, "{blocks} at {lba}");
        assert_eq!(pointer(&mut driver), after, "{blocks} at {lba}");
    }
    assert_eq!(driver.io(io(APPEND, 0, 1)).status, 0x1b6);
    for (lba, status, after) in
        [(14, 0x002, 14), (13, 0x1b8, 14), (22, 0x1b8, 14), (15, 0, 16), (23, 0, 24)]
    {
        assert_eq!(driver.io(send(FLUSH, lba)).status, status, "flush to {lba}");
        assert_eq!(pointer(&mut driver), after, "flush to {lba}");
    }
    assert_eq!(driver.io(send(CLOSE, 0)).status, 0);
    assert_eq!(driver.io(send(OPEN | ZRWAA, SIZE)).status, 0x1b7, "a closed zone keeps it");
    assert_eq!(driver.io(send(FLUSH, 31)).status, 0);
    assert_eq!(zone(&mut driver, 0), (2, 32));
    assert_eq!(driver.io(io(WRITE, 40, 8)).status, 0);
    assert_eq!(zone(&mut driver, 0), (2, 40));
    assert_eq!(driver.io(send(FLUSH, 47)).status, 0);
    assert_eq!(zone(&mut driver, 0), (0xe, u64::MAX));
    assert_eq!(driver.io(send(OPEN | ZRWAA, SIZE)).status, 0, "a full zone gives it back");
    assert_eq!(driver.io(send(FLUSH, 2 * SIZE + 1)).status, 0x1b6, "without an area");
}

#[test]
fn zones_that_change_by_themselves_are_told() {
    let mut driver = driver_with(zones());
    let event = Sqe { opcode: 0x0c, ..Default::default() };
    driver.submit(0, event);
    break_zone(&mut driver, SIZE);
    assert!(driver.reap(0).is_empty(), "nobody asked");
    assert_eq!(driver.set_feature(0x0b, 1 << 27).status, 0);
    assert_eq!(driver.get_feature(0x0b, 0).result, 1 << 27);
    break_zone(&mut driver, 3 * SIZE);
    let events = driver.reap(0);
    assert_eq!((events[0].result, events[0].high), (0xbf_ef02, 1), "log BFh of namespace 1");
    let log = |driver: &mut Driver, nsid| {
        let sqe =
            Sqe { opcode: 2, nsid, prp1: SCRATCH, cdw10: 1023 << 16 | 0xbf, ..Default::default() };
        (driver.admin(sqe).status, driver.ram.get(SCRATCH, 4096))
    };
    // Until the log is read, nothing is reported again.
    driver.submit(0, event);
    break_zone(&mut driver, 5 * SIZE);
    assert!(driver.reap(0).is_empty());
    let (status, page) = log(&mut driver, 1);
    assert_eq!((status, page[0], page[8], page[16]), (0, 3, SIZE as u8, 3 * SIZE as u8));
    assert_eq!(page[24..26], (5 * SIZE as u16).to_le_bytes());
    assert_eq!(log(&mut driver, 1).1, [0; 4096], "read once");
    assert_eq!(log(&mut driver, u32::MAX).0, 0x00b);
    driver.ram.set(SCRATCH, &(DATA + PAGE).to_le_bytes());
    // A zone that cannot be erased is lost.
    assert_eq!(driver.io(io(WRITE, 7 * SIZE, 1)).status, 0);
    driver.submit(1, send(RESET, 7 * SIZE));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::WriteError, request.data);
    assert_eq!(driver.reap(1)[0].status, 0x280);
    assert_eq!(zone(&mut driver, 7).0, 0xf);
    assert_eq!(driver.reap(0)[0].result, 0xbf_ef02);
    assert_eq!(driver.io(io(READ, SIZE, 1)).status, 0, "read only can be read");
    assert_eq!(driver.io(io(WRITE, SIZE, 1)).status, 0x1ba);
}

#[test]
fn formatting_empties_the_zones() {
    let small = Zones { capacity: Some(48 * BLOCK - 512), ..zones() };
    for (zones, blocks_of_512) in [(zones(), true), (small, false)] {
        let namespace = Namespace { zoned: Some(zones), ..Namespace::new(ZONES * SIZE * 8, 512) };
        let mut driver =
            Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1, 64);
        assert_eq!(driver.io(Sqe::io(WRITE, 0, 1, DATA, 0)).status, 0);
        assert_eq!(zone(&mut driver, 0).0, 2);
        let format = Sqe { opcode: 0x80, nsid: 1, cdw10: 1, ..Default::default() };
        driver.submit(0, format);
        driver.serve();
        let status = driver.reap(0)[0].status;
        assert_eq!(status, if blocks_of_512 { 0 } else { 0x10a });
        if blocks_of_512 {
            assert_eq!(zone(&mut driver, 0).0, 1);
            assert_eq!(driver.io(io(WRITE, SIZE, 1)).status, 0, "blocks are larger now");
        }
    }
}

/// Returns whether its pieces are zeroes written or contents discarded, and whether a reset comes
/// between.
#[test]
fn a_format_that_fails_leaves_the_zones_as_they_were() {
    for (erase, reset) in [(0, false), (1, false), (1, true)] {
        let mut driver = driver_with(zones());
        assert_eq!(driver.io(io(WRITE, 0, 3)).status, 0);
        let before: Vec<_> = (0..ZONES).map(|index| zone(&mut driver, index)).collect();
        driver
            .submit(0, Sqe { opcode: 0x80, nsid: 1, cdw10: 1 | erase << 9, ..Default::default() });
        let piece = driver.controller.pop_request().unwrap();
        assert_eq!(piece.command.length, ZONES * SIZE * BLOCK);
        if reset {
            driver.disable();
            driver.enable();
            driver.create_pair(1, 64, 64, 1);
        }
        driver.controller.complete(&driver.ram, piece.tag, Status::WriteError, piece.data);
        assert_eq!(driver.reap(0).len(), usize::from(!reset));
        let after: Vec<_> = (0..ZONES).map(|index| zone(&mut driver, index)).collect();
        assert_eq!(after, before);
        assert_eq!(driver.io(io(WRITE, 3, 1)).status, 0);
    }
}

#[test]
fn copies_end_at_the_write_pointer() {
    let mut driver = driver_with(zones());
    driver.ram.set(DATA, &[7; 4096]);
    assert_eq!(driver.io(io(WRITE, 0, 1)).status, 0);
    assert_eq!(driver.io(io(WRITE, 1, 1)).status, 0);
    let copy = |lba: u64| {
        let mut entry = [0; 32];
        entry[8..16].copy_from_slice(&0u64.to_le_bytes());
        entry[16] = 1;
        (entry, Sqe { cdw12: 0, ..Sqe::io(0x19, lba, 1, DATA, 0) })
    };
    for (lba, status) in [(SIZE + 1, 0x1bc), (SIZE, 0)] {
        let (entry, sqe) = copy(lba);
        driver.ram.set(DATA, &entry);
        assert_eq!(driver.io(sqe).status, status);
    }
    assert_eq!(zone(&mut driver, 1), (2, SIZE + 2));
    assert_eq!(driver.disk[(SIZE * BLOCK) as usize], 7);
}
