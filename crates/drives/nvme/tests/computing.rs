//! Computational programs: memory and compute namespaces, and the model of their device.

use crate::support::*;
use stasis_block::clock::Nanos;
use stasis_block::Rate;
use stasis_nvme::{Config, Programs};

const MEMORY: u32 = 2;
const COMPUTE: u32 = 3;
const SIZE: u64 = 64 << 10;
/// Address of what the tests send and get.
const OUT: u64 = DATA;
const IN: u64 = DATA + 0x10_0000;

const INVALID_FIELD: u16 = 0x002;
const INTERNAL_ERROR: u16 = 0x006;
const INVALID_NAMESPACE: u16 = 0x00b;
const INCOMPATIBLE_NAMESPACE: u16 = 0x185;
const TOO_LONG: u16 = 0x183;
const FAST_COPY: u16 = 0x186;
const OVERLAPPING_RANGE: u16 = 0x187;
const INVALID_MEMORY_NAMESPACE: u16 = 0x18b;
const INVALID_SET: u16 = 0x18c;
const INVALID_SET_ID: u16 = 0x18d;
const INVALID_PROGRAM_DATA: u16 = 0x18e;
const INVALID_PROGRAM_INDEX: u16 = 0x18f;
const INVALID_PROGRAM_TYPE: u16 = 0x190;
const RANGES_EXCEEDED: u16 = 0x191;
const SETS_EXCEEDED: u16 = 0x192;
const BYTES_EXCEEDED: u16 = 0x194;
const SET_IN_USE: u16 = 0x195;
const NO_PROGRAM: u16 = 0x196;
const OVERLAPPING_RANGES: u16 = 0x197;
const NOT_ACTIVATED: u16 = 0x198;
const PROGRAM_IN_USE: u16 = 0x199;
const TOO_BIG: u16 = 0x19b;

fn programs() -> Programs {
    Programs {
        processors: 2,
        instructions_per_second: 1_000_000,
        memory: SIZE,
        memory_rate: Rate::per_second(1_000_000_000),
        max_instructions: 100_000,
    }
}

fn driver() -> Driver {
    Driver::with_queues(Config { programs: Some(programs()), ..config() }, 1, 32)
}

/// Time passes until nothing is under way; the completions, and when each came.
fn settle(driver: &mut Driver) -> Vec<(Nanos, Cqe)> {
    let mut all = Vec::new();
    let mut now = 0;
    loop {
        driver.serve();
        all.extend(driver.reap(1).into_iter().map(|cqe| (now, cqe)));
        let Some(next) = driver.controller.next_deadline() else { return all };
        // Not before.
        driver.controller.set_time(next - 1);
        driver.controller.end_work(&driver.ram);
        assert_eq!(driver.reap(1), []);
        driver.controller.set_time(next);
        driver.controller.end_work(&driver.ram);
        now = next;
    }
}

/// A command of queue 1 by itself.
fn one(driver: &mut Driver, sqe: Sqe) -> Cqe {
    driver.submit(1, sqe);
    let mut all = settle(driver);
    assert_eq!(all.len(), 1, "{sqe:?}");
    all.remove(0).1
}

/// PRPs of up to two pages at an address.
fn prps(address: u64, length: u64) -> (u64, u64) {
    (address, if length > 4096 { address + 4096 } else { 0 })
}

fn access(opcode: u8, start: u64, length: u32, address: u64) -> Sqe {
    let (prp1, prp2) = prps(address, length.into());
    Sqe {
        opcode,
        nsid: MEMORY,
        prp1,
        prp2,
        cdw10: start as u32,
        cdw11: (start >> 32) as u32,
        cdw12: length,
        ..Default::default()
    }
}

fn write_memory(driver: &mut Driver, start: u64, data: &[u8]) {
    driver.ram.set(OUT, data);
    assert_eq!(one(driver, access(5, start, data.len() as u32, OUT)).status, 0);
}

fn read_memory(driver: &mut Driver, start: u64, length: u32) -> Vec<u8> {
    driver.ram.set(IN, &vec![0xee; length as usize]);
    assert_eq!(one(driver, access(2, start, length, IN)).status, 0);
    driver.ram.get(IN, length as usize)
}

/// A Memory Copy with these descriptors.
fn copy(driver: &mut Driver, format: u32, to: u64, length: u64, entries: &[[u8; 32]]) -> u16 {
    driver.ram.set(OUT, &entries.concat());
    let sqe = Sqe {
        opcode: 1,
        nsid: MEMORY,
        prp1: OUT,
        cdw2: length as u32,
        cdw10: to as u32,
        cdw12: format << 8 | (entries.len() as u32 - 1),
        ..Default::default()
    };
    one(driver, sqe).status
}

fn of_blocks(nsid: u32, lba: u64, blocks: u16) -> [u8; 32] {
    let mut raw = [0; 32];
    raw[..4].copy_from_slice(&nsid.to_le_bytes());
    raw[8..16].copy_from_slice(&lba.to_le_bytes());
    raw[16..18].copy_from_slice(&(blocks - 1).to_le_bytes());
    raw
}

fn of_bytes(nsid: u32, start: u64, bytes: u32) -> [u8; 32] {
    let mut raw = [0; 32];
    raw[..4].copy_from_slice(&nsid.to_le_bytes());
    raw[8..16].copy_from_slice(&start.to_le_bytes());
    raw[16..20].copy_from_slice(&bytes.to_le_bytes());
    raw
}

fn instruction(opcode: u8, dst: u8, src: u8, offset: i16, imm: i32) -> [u8; 8] {
    let mut raw = [opcode, src << 4 | dst, 0, 0, 0, 0, 0, 0];
    raw[2..4].copy_from_slice(&offset.to_le_bytes());
    raw[4..8].copy_from_slice(&imm.to_le_bytes());
    raw
}

const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

/// Load Program of a piece.
fn load(index: u32, size: u32, offset: u32, piece: u32) -> Sqe {
    Sqe {
        opcode: 0x85,
        nsid: COMPUTE,
        prp1: OUT,
        cdw10: 1 << 25 | 0xc0 << 16 | index,
        cdw11: size,
        cdw12: 0x1234,
        cdw14: piece,
        cdw15: offset,
        ..Default::default()
    }
}

fn activation(index: u32, active: u32) -> Sqe {
    Sqe { opcode: 0x88, nsid: COMPUTE, cdw10: active << 16 | index, ..Default::default() }
}

fn unload(index: u32) -> Sqe {
    Sqe { opcode: 0x85, nsid: COMPUTE, cdw10: 1 << 24 | index, ..Default::default() }
}

/// A program, loaded and active.
fn install(driver: &mut Driver, index: u32, code: &[[u8; 8]]) {
    let bytes = code.concat();
    driver.ram.set(OUT, &bytes);
    let size = bytes.len() as u32;
    assert_eq!(driver.admin(load(index, size, 0, size)).status, 0);
    assert_eq!(driver.admin(activation(index, 1)).status, 0);
}

fn set_of(driver: &mut Driver, ranges: &[(u32, u64, u32)]) -> Cqe {
    let mut raw = Vec::new();
    for &(nsid, start, length) in ranges {
        raw.extend(nsid.to_le_bytes());
        raw.extend(length.to_le_bytes());
        raw.extend(start.to_le_bytes());
        raw.extend([0; 16]);
    }
    driver.ram.set(OUT, &raw);
    driver.admin(Sqe {
        opcode: 0x89,
        nsid: COMPUTE,
        prp1: OUT,
        cdw11: ranges.len() as u32,
        ..Default::default()
    })
}

fn delete_set(id: u32) -> Sqe {
    Sqe { opcode: 0x89, nsid: COMPUTE, cdw10: id << 16 | 1, ..Default::default() }
}

fn execute(index: u32, set: u32, parameters: [u64; 2]) -> Sqe {
    let [one, other] = parameters;
    Sqe {
        opcode: 1,
        nsid: COMPUTE,
        cdw2: set << 16 | index,
        cdw10: one as u32,
        cdw11: (one >> 32) as u32,
        cdw12: other as u32,
        cdw13: (other >> 32) as u32,
        ..Default::default()
    }
}

fn result(cqe: Cqe) -> u64 {
    assert_eq!(cqe.status, 0);
    u64::from(cqe.result) | u64::from(cqe.high) << 32
}

/// Sums the 64-bit numbers of the first range: r1 is the context.
fn sum() -> Vec<[u8; 8]> {
    vec![
        instruction(0x79, 2, 1, 40, 0), // r2 = its address
        instruction(0x79, 3, 1, 48, 0), // r3 = its length
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x15, 3, 0, 5, 0),
        instruction(0x79, 4, 2, 0, 0),
        instruction(0x0f, 0, 4, 0, 0),
        instruction(0x07, 2, 0, 0, 8),
        instruction(0x07, 3, 0, 0, -8),
        instruction(0x05, 0, 0, -6, 0),
        EXIT,
    ]
}

#[test]
fn the_memory_holds_what_is_written_and_copied() {
    let mut driver = driver();
    let data: Vec<u8> = (0..8192u32).map(|at| (at * 7) as u8).collect();
    write_memory(&mut driver, 4096, &data);
    assert_eq!(read_memory(&mut driver, 4096, 8192), data);
    assert_eq!(read_memory(&mut driver, 4092, 8), [0, 0, 0, 0, 0, 7, 14, 21]);
    // Zeroes, of whole dwords.
    assert_eq!(one(&mut driver, access(4, 4100, 8, 0)).status, 0);
    assert_eq!(read_memory(&mut driver, 4096, 16)[4..12], [0; 8]);
    // From blocks, in several ranges.
    for (at, byte) in driver.disk.iter_mut().enumerate() {
        *byte = (at / 512 + at) as u8;
    }
    let sources = [of_blocks(1, 3, 2), of_blocks(1, 100, 1)];
    assert_eq!(copy(&mut driver, 2, 512, 1536, &sources), 0);
    let expected = [&driver.disk[1536..2560], &driver.disk[51200..51712]].concat();
    assert_eq!(read_memory(&mut driver, 512, 1536), expected);
    // Within the memory.
    assert_eq!(copy(&mut driver, 4, 32768, 1540, &[of_bytes(2, 508, 1540)]), 0);
    assert_eq!(read_memory(&mut driver, 32772, 1536), expected);
    // The last byte, and no byte behind.
    let most = SIZE as u32;
    assert_eq!(one(&mut driver, access(4, SIZE - 4, 4, 0)).status, 0);
    for (start, length) in [(SIZE, 4), (SIZE - 4, 8), (2, 4), (0, 6), (u64::MAX - 3, 8)] {
        for opcode in [2, 4, 5] {
            let status = one(&mut driver, access(opcode, start, length, OUT)).status;
            assert_eq!(status, INVALID_FIELD, "{opcode} {start} {length}");
        }
    }
    assert_eq!(one(&mut driver, access(4, 0, most, 0)).status, 0);
    assert_eq!(read_memory(&mut driver, 512, 8), [0; 8]);
}

#[test]
fn copies_are_checked_before_any_of_them_begins() {
    let mut driver = driver();
    let mut fast = of_blocks(1, 0, 1);
    fast[22] = 1;
    for (format, to, length, entries, expected) in [
        (0, 0, 512, vec![of_blocks(1, 0, 1)], INVALID_FIELD),
        (3, 0, 512, vec![of_blocks(1, 0, 1)], INVALID_FIELD),
        (2, 0, 1024, vec![of_blocks(1, 0, 1)], INVALID_FIELD),
        (2, 2, 512, vec![of_blocks(1, 0, 1)], INVALID_FIELD),
        (2, SIZE - 508, 512, vec![of_blocks(1, 0, 1)], INVALID_FIELD),
        (2, 0, 512, vec![fast], FAST_COPY),
        (2, 0, 1024, vec![of_blocks(1, 0, 1), of_blocks(1, BLOCKS, 1)], 0x080),
        (2, 0, 512, vec![of_blocks(2, 0, 1)], INCOMPATIBLE_NAMESPACE),
        (2, 0, 512, vec![of_blocks(3, 0, 1)], INCOMPATIBLE_NAMESPACE),
        (2, 0, 512, vec![of_blocks(4, 0, 1)], INVALID_FIELD),
        (2, 0, 512 * 1025, vec![of_blocks(1, 0, 1025)], TOO_LONG),
        (4, 0, 512, vec![of_bytes(1, 0, 512)], INCOMPATIBLE_NAMESPACE),
        (4, 0, 512, vec![of_bytes(2, SIZE - 508, 512)], INVALID_FIELD),
        (4, 0, 512, vec![of_bytes(2, 2, 512)], INVALID_FIELD),
        (4, 0, 512, vec![of_bytes(2, 256, 512)], OVERLAPPING_RANGE),
    ] {
        assert_eq!(copy(&mut driver, format, to, length, &entries), expected, "{format} {to}");
    }
    assert!(driver.asked.is_empty());
    assert_eq!(read_memory(&mut driver, 0, 1024), [0; 1024]);
    // An error of the medium is the copy's, with the source that failed.
    driver.ram.set(OUT, &[of_blocks(1, 0, 1), of_blocks(1, 8, 1)].concat());
    let sqe =
        Sqe { opcode: 1, nsid: MEMORY, prp1: OUT, cdw2: 1024, cdw12: 2 << 8 | 1, ..Sqe::default() };
    driver.submit(1, sqe);
    let first = driver.controller.pop_request().unwrap();
    let second = driver.controller.pop_request().unwrap();
    let status = stasis_block::Status::ReadError;
    driver.controller.complete(&driver.ram, second.tag, status, second.data);
    driver.controller.complete(&driver.ram, first.tag, stasis_block::Status::Ok, first.data);
    let end = settle(&mut driver).remove(0).1;
    assert_eq!((end.status, end.result), (0x281, 1));
}

#[test]
fn a_program_runs_on_its_ranges() {
    let mut driver = driver();
    let numbers: Vec<u8> = (1..=64u64).flat_map(u64::to_le_bytes).collect();
    write_memory(&mut driver, 4096, &numbers);
    install(&mut driver, 3, &sum());
    let set = set_of(&mut driver, &[(MEMORY, 4096, 512)]);
    assert_eq!((set.status, set.result), (0, 1));
    assert_eq!(result(one(&mut driver, execute(3, 1, [0, 0]))), 64 * 65 / 2);
    // Parameters, data of the command, and a store to the second range.
    let code = [
        instruction(0x79, 2, 1, 0, 0),
        instruction(0x79, 3, 1, 8, 0),
        instruction(0x0f, 2, 3, 0, 0),
        instruction(0x79, 4, 1, 16, 0), // the data's address
        instruction(0x61, 5, 4, 4, 0),
        instruction(0x0f, 2, 5, 0, 0),
        instruction(0x79, 6, 1, 56, 0), // the second range's address
        instruction(0x7b, 6, 2, 8, 0),
        instruction(0x79, 0, 1, 24, 0),
        instruction(0x79, 7, 1, 32, 0),
        instruction(0x67, 7, 0, 0, 32),
        instruction(0x0f, 0, 7, 0, 0),
        EXIT,
    ];
    install(&mut driver, 0, &code);
    let set = set_of(&mut driver, &[(MEMORY, 4096, 512), (MEMORY, 0, 16)]);
    assert_eq!((set.status, set.result), (0, 2));
    driver.ram.set(OUT, &[0, 0, 0, 0, 7, 0, 0, 0]);
    let call = Sqe { mptr: 8, prp1: OUT, ..execute(0, 2, [1 << 40, 5]) };
    assert_eq!(result(one(&mut driver, call)), 2 << 32 | 8);
    let stored = read_memory(&mut driver, 8, 8);
    assert_eq!(u64::from_le_bytes(stored.try_into().unwrap()), (1 << 40) + 12);
    // Nothing but its ranges, which it may not leave, nor write to its context.
    for (code, why) in [
        (instruction(0x79, 0, 2, 505, 0), "behind the range"),
        (instruction(0x79, 0, 2, -1, 0), "before it"),
        (instruction(0x7b, 1, 2, 0, 0), "the context"),
    ] {
        let code = [instruction(0x79, 2, 1, 40, 0), code, EXIT];
        install(&mut driver, 5, &code);
        assert_eq!(one(&mut driver, execute(5, 1, [0, 0])).status, INTERNAL_ERROR, "{why}");
        assert_eq!(driver.admin(activation(5, 0)).status, 0);
        assert_eq!(driver.admin(unload(5)).status, 0);
    }
    // A program without end has its budget.
    install(&mut driver, 5, &[instruction(0x05, 0, 0, -1, 0)]);
    driver.submit(1, execute(5, 0, [0, 0]));
    let before = driver.controller.next_deadline().unwrap();
    let all = settle(&mut driver);
    assert_eq!(all[0].1.status, INTERNAL_ERROR);
    assert_eq!(all[0].0, before);
}

#[test]
fn programs_are_loaded_in_pieces_and_activated() {
    let mut driver = driver();
    let bytes = sum().concat();
    let size = bytes.len() as u32;
    driver.ram.set(OUT, &bytes);
    for (sqe, expected) in [
        (Sqe { nsid: 1, ..load(0, size, 0, size) }, INVALID_NAMESPACE),
        (Sqe { nsid: MEMORY, ..load(0, size, 0, size) }, INVALID_NAMESPACE),
        (load(16, size, 0, size), INVALID_PROGRAM_INDEX),
        (Sqe { cdw10: 1 << 16, ..load(0, size, 0, size) }, INVALID_PROGRAM_TYPE),
        (load(0, size, 0, 0), INVALID_FIELD),
        (load(0, 4, 0, 8), INVALID_FIELD),
        (load(0, size, 8, 8), NO_PROGRAM),
        (load(0, 2 << 20, 0, 8), TOO_BIG),
        (unload(0), NO_PROGRAM),
        (activation(0, 1), NO_PROGRAM),
        (activation(16, 1), INVALID_PROGRAM_INDEX),
        (Sqe { cdw10: 2 << 16, ..activation(0, 0) }, INVALID_FIELD),
    ] {
        // A program that began by halves is nobody's concern.
        driver.admin(unload(0));
        assert_eq!(driver.admin(sqe).status, expected, "{sqe:?}");
    }
    driver.admin(unload(0));
    assert_eq!(driver.admin(load(0, size, 0, 32)).status, 0);
    assert_eq!(driver.admin(activation(0, 1)).status, INVALID_PROGRAM_DATA, "not whole");
    for (size, offset, piece) in [(size, 40, 8), (size, 24, 8), (size + 8, 32, 8), (size, 32, 56)] {
        let status = driver.admin(load(0, size, offset, piece)).status;
        assert_eq!(status, INVALID_FIELD, "{size} {offset} {piece}");
    }
    driver.ram.set(OUT, &bytes[32..]);
    assert_eq!(driver.admin(load(0, size, 32, size - 32)).status, 0);
    assert_eq!(driver.admin(load(0, size, 0, size)).status, PROGRAM_IN_USE, "it is there");
    assert_eq!(one(&mut driver, execute(0, 0, [0, 0])).status, NOT_ACTIVATED);
    assert_eq!(driver.admin(activation(0, 1)).status, 0);
    assert_eq!(driver.admin(unload(0)).status, PROGRAM_IN_USE);
    assert_eq!(one(&mut driver, execute(1, 0, [0, 0])).status, NO_PROGRAM);
    assert_eq!(one(&mut driver, execute(16, 0, [0, 0])).status, INVALID_PROGRAM_INDEX);
    assert_eq!(one(&mut driver, execute(0, 9, [0, 0])).status, INVALID_SET_ID);
    let inline = Sqe { cdw3: 1, ..execute(0, 0, [0, 0]) };
    assert_eq!(one(&mut driver, inline).status, INVALID_FIELD);
    assert_eq!(driver.admin(activation(0, 0)).status, 0);
    assert_eq!(driver.admin(unload(0)).status, 0);
    // Bytes that are no program are refused when they are whole, and gone.
    driver.ram.set(OUT, &[0xff; 16]);
    assert_eq!(driver.admin(load(0, 16, 0, 16)).status, INVALID_PROGRAM_DATA);
    assert_eq!(driver.admin(unload(0)).status, NO_PROGRAM);
    // All together have a MiB.
    assert_eq!(driver.admin(load(1, 1 << 20, 0, 8)).status, 0);
    assert_eq!(driver.admin(load(2, 8, 0, 8)).status, BYTES_EXCEEDED);
}

#[test]
fn sets_of_ranges_are_checked_and_limited() {
    let mut driver = driver();
    for (ranges, expected) in [
        (vec![(1, 0, 512)], INVALID_MEMORY_NAMESPACE),
        (vec![(COMPUTE, 0, 512)], INVALID_MEMORY_NAMESPACE),
        (vec![(MEMORY, 0, 0)], INVALID_SET),
        (vec![(MEMORY, 2, 4)], INVALID_SET),
        (vec![(MEMORY, 0, 6)], INVALID_SET),
        (vec![(MEMORY, SIZE - 4, 8)], INVALID_SET),
        (vec![(MEMORY, u64::MAX - 3, 8)], INVALID_SET),
        (vec![(MEMORY, 0, 64), (MEMORY, 60, 8)], OVERLAPPING_RANGES),
        (vec![(MEMORY, 0, 4); 17], RANGES_EXCEEDED),
        (vec![], INVALID_FIELD),
    ] {
        assert_eq!(set_of(&mut driver, &ranges).status, expected, "{ranges:?}");
    }
    for id in 1..=64 {
        assert_eq!(set_of(&mut driver, &[(MEMORY, 0, 64)]).result, id);
    }
    assert_eq!(set_of(&mut driver, &[(MEMORY, 0, 64)]).status, SETS_EXCEEDED);
    assert_eq!(driver.admin(delete_set(7)).status, 0);
    assert_eq!(driver.admin(delete_set(7)).status, INVALID_SET_ID);
    assert_eq!(set_of(&mut driver, &[(MEMORY, 64, 64), (MEMORY, 0, 64)]).result, 7);
}

/// An endless loop of as many instructions, and then the end: 2 * n + 2.
fn busy(n: i32) -> Vec<[u8; 8]> {
    vec![
        instruction(0xb7, 2, 0, 0, n),
        instruction(0x07, 2, 0, 0, -1),
        instruction(0x55, 2, 0, -2, 0),
        EXIT,
    ]
}

#[test]
fn programs_take_the_time_of_their_processors() {
    let mut driver = driver();
    const US: Nanos = 1000;
    // 1000 and 300 instructions, of a microsecond each.
    install(&mut driver, 0, &busy(499));
    install(&mut driver, 1, &busy(149));
    for index in [0, 1, 1, 0] {
        driver.submit(1, execute(index, 0, [0, 0]));
    }
    // Two processors: the third follows the second one, and the last whichever is free first.
    let times: Vec<_> = settle(&mut driver).iter().map(|(at, cqe)| (*at, cqe.cid)).collect();
    assert_eq!(times, [(300 * US, 2), (600 * US, 3), (1000 * US, 1), (1600 * US, 4)]);
    // Used until they end: neither deactivated, nor is their set deleted.
    assert_eq!(set_of(&mut driver, &[(MEMORY, 0, 512)]).result, 1);
    driver.submit(1, execute(0, 1, [0, 0]));
    assert_eq!(driver.admin(activation(0, 0)).status, PROGRAM_IN_USE);
    assert_eq!(driver.admin(delete_set(1)).status, SET_IN_USE);
    assert_eq!(driver.admin(activation(1, 0)).status, 0);
    settle(&mut driver);
    assert_eq!(driver.admin(delete_set(1)).status, 0);
}

#[test]
fn the_memory_moves_one_thing_after_another() {
    let mut driver = driver();
    // 1 ns a byte.
    driver.submit(1, access(5, 0, 8000, OUT));
    driver.submit(1, access(2, 0, 4000, IN));
    let times: Vec<_> = settle(&mut driver).into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [8000, 12_000]);
    // A program's bytes too: 512 of the 8000 that another command moves first; its instructions
    // take 2 + 64 * 6 + 3 us.
    install(&mut driver, 0, &sum());
    assert_eq!(set_of(&mut driver, &[(MEMORY, 0, 512)]).result, 1);
    let computed = 389_000;
    driver.submit(1, access(4, 0, 8000, 0));
    driver.submit(1, execute(0, 1, [0, 0]));
    let times: Vec<_> = settle(&mut driver).into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [20_000, 12_000 + computed]);
    // A copy of blocks ends when the memory has them, after the drive's time.
    let now = 12_000 + computed;
    driver.ram.set(OUT, &of_blocks(1, 0, 4));
    let sqe =
        Sqe { opcode: 1, nsid: MEMORY, prp1: OUT, cdw2: 2048, cdw12: 2 << 8, ..Default::default() };
    driver.submit(1, sqe);
    let request = driver.controller.pop_request().unwrap();
    assert_eq!(driver.controller.next_deadline(), None);
    driver.controller.set_time(now + 70_000);
    let done = stasis_block::Status::Ok;
    driver.controller.complete(&driver.ram, request.tag, done, request.data);
    assert_eq!(driver.reap(1), []);
    let all = settle(&mut driver);
    assert_eq!((all[0].0, all[0].1.status), (now + 72_048, 0));
}

#[test]
fn aborts_and_resets_leave_programs_to_run_to_their_end() {
    let mut driver = driver();
    install(&mut driver, 0, &busy(499));
    let first = driver.submit(1, execute(0, 0, [0, 0]));
    driver.submit(1, execute(0, 0, [0, 0]));
    let third = driver.submit(1, execute(0, 0, [0, 0]));
    for cid in [first, third] {
        let abort = Sqe { opcode: 8, cdw10: u32::from(cid) << 16 | 1, ..Default::default() };
        assert_eq!(driver.admin(abort).result & 1, 0, "found");
    }
    let aborted: Vec<_> = driver.reap(1).iter().map(|cqe| (cqe.cid, cqe.status)).collect();
    assert_eq!(aborted, [(first, 0x007), (third, 0x007)]);
    assert_eq!(settle(&mut driver).len(), 1);
    // After a reset nothing is completed, and programs and memory are as before.
    write_memory(&mut driver, 0, b"kept");
    driver.submit(1, execute(0, 0, [0, 0]));
    driver.disable();
    driver.enable();
    driver.create_pair(1, 32, 32, 1);
    assert!(driver.controller.next_deadline().is_some(), "it runs");
    assert!(settle(&mut driver).is_empty());
    assert_eq!(read_memory(&mut driver, 0, 4), b"kept");
    one(&mut driver, execute(0, 0, [0, 0]));
}

#[test]
fn both_namespaces_are_told_and_are_no_part_of_the_drive() {
    let mut driver = driver();
    let lists = |driver: &mut Driver, cns, set: u32| {
        let sqe = Sqe { opcode: 6, prp1: SCRATCH, cdw10: cns, cdw11: set << 24, ..Sqe::default() };
        assert_eq!(driver.admin(sqe).status, 0);
        driver.ram.get(SCRATCH, 12)
    };
    assert_eq!(lists(&mut driver, 2, 0), [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(lists(&mut driver, 7, 3), [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(lists(&mut driver, 7, 4), [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // NVM, memory, and compute.
    assert_eq!(lists(&mut driver, 0x1c, 0)[0], 0b11001);
    let identify = |driver: &mut Driver, nsid: u32, set: u32| {
        let sqe =
            Sqe { opcode: 6, nsid, prp1: SCRATCH, cdw10: 5, cdw11: set << 24, ..Sqe::default() };
        (driver.admin(sqe).status, driver.ram.get(SCRATCH, 20))
    };
    let (status, compute) = identify(&mut driver, 3, 4);
    assert_eq!(status, 0);
    assert_eq!(compute, [16, 0, 64, 0, 2, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify(&mut driver, 2, 4).0, 0x02c);
    // The structure of blocks is of neither.
    assert_eq!(driver.identify(0, 2).0, 0x02c);
    // Format and deletion of all leave them alone, and of each are refused.
    let format = |nsid| Sqe { opcode: 0x80, nsid, ..Default::default() };
    for nsid in [2, 3] {
        assert_ne!(driver.admin(format(nsid)).status, 0);
        let delete = Sqe { opcode: 0x0d, nsid, cdw10: 1, ..Default::default() };
        assert_eq!(driver.admin(delete).status, 0x015);
    }
    driver.submit(0, format(u32::MAX));
    driver.serve();
    assert_eq!(driver.reap(0)[0].status, 0);
    // A flush of all is one of the drive's namespaces.
    driver.asked.clear();
    assert_eq!(driver.io(Sqe { opcode: 0, nsid: u32::MAX, ..Default::default() }).status, 0);
    assert_eq!(driver.asked.len(), 1);
    // Sanitize takes what is in the memory.
    write_memory(&mut driver, 0, b"gone");
    assert_eq!(driver.admin(Sqe { opcode: 0x84, cdw10: 2, ..Default::default() }).status, 0);
    driver.serve();
    assert_eq!(read_memory(&mut driver, 0, 4), [0; 4]);
}

/// Commands by their opcodes, as nvme-cli's libnvme names them (enum nvme_admin_opcode), the base
/// specification 2.1 lists those of the admin queue, and a public implementation of both command sets
/// in a copy of SPDK defines the others; the sets are libnvme's NVME_CSI_SLM and NVME_CSI_CP.
const ADMIN: [(&str, u8); 3] = [
    ("Load Program", 0x85),
    ("Program Activation Management", 0x88),
    ("Memory Range Set Management", 0x89),
];
const OF_MEMORY: (u32, [(&str, u8); 4]) = (
    3,
    [("Memory Copy", 0x01), ("Memory Read", 0x02), ("Memory Fill", 0x04), ("Memory Write", 0x05)],
);
const OF_COMPUTE: (u32, [(&str, u8); 1]) = (4, [("Execute Program", 0x01)]);

/// Status codes as the base specification 2.2 names them (figure 104), and xNVMe prints them, with
/// the constants that the other tests expect.
const STATUSES: [(&str, u16, u16); 16] = [
    ("Command Size Limit Exceeded", 0x183, TOO_LONG),
    ("Incompatible Namespace or Format", 0x185, INCOMPATIBLE_NAMESPACE),
    ("Fast Copy Not Possible", 0x186, FAST_COPY),
    ("Overlapping I/O Range", 0x187, OVERLAPPING_RANGE),
    ("Invalid Memory Namespace", 0x18b, INVALID_MEMORY_NAMESPACE),
    ("Invalid Memory Range Set", 0x18c, INVALID_SET),
    ("Invalid Memory Range Set Identifier", 0x18d, INVALID_SET_ID),
    ("Invalid Program Data", 0x18e, INVALID_PROGRAM_DATA),
    ("Invalid Program Index", 0x18f, INVALID_PROGRAM_INDEX),
    ("Invalid Program Type", 0x190, INVALID_PROGRAM_TYPE),
    ("Maximum Memory Ranges Exceeded", 0x191, RANGES_EXCEEDED),
    ("Maximum Memory Range Sets Exceeded", 0x192, SETS_EXCEEDED),
    ("Maximum Program Bytes Exceeded", 0x194, BYTES_EXCEEDED),
    ("Memory Range Set In Use", 0x195, SET_IN_USE),
    ("No Program", 0x196, NO_PROGRAM),
    ("Overlapping Memory Ranges", 0x197, OVERLAPPING_RANGES),
];
const MORE_STATUSES: [(&str, u16, u16); 3] = [
    ("Program Not Activated", 0x198, NOT_ACTIVATED),
    ("Program In Use", 0x199, PROGRAM_IN_USE),
    ("Program Too Big", 0x19b, TOO_BIG),
];

#[test]
fn commands_and_statuses_have_their_public_numbers() {
    let mut driver = driver();
    let mut supported_commands = |set: u32| {
        let cdw10 = 5 | (4096 / 4 - 1) << 16;
        let log = Sqe { opcode: 2, prp1: SCRATCH, cdw10, cdw14: set << 24, ..Default::default() };
        assert_eq!(driver.admin(log).status, 0);
        let log = driver.ram.get(SCRATCH, 4096);
        let supported = |from: usize| -> Vec<u8> {
            let dwords = log[from..from + 1024].chunks_exact(4);
            dwords
                .zip(0..=u8::MAX)
                .filter(|(dword, _)| dword[0] & 1 == 1)
                .map(|(_, code)| code)
                .collect()
        };
        (supported(0), supported(1024))
    };
    let numbers = |table: &[(&str, u8)]| table.iter().map(|(_, code)| *code).collect::<Vec<u8>>();
    let (admin, memory) = supported_commands(OF_MEMORY.0);
    assert_eq!(memory, numbers(&OF_MEMORY.1));
    assert_eq!(supported_commands(OF_COMPUTE.0).1, numbers(&OF_COMPUTE.1));
    for (name, code) in ADMIN {
        assert!(admin.contains(&code), "{name}");
    }
    for (name, code, expected) in STATUSES.into_iter().chain(MORE_STATUSES) {
        assert_eq!(expected, code, "{name}");
    }
}

/// A field of a command: its name, its first bit from the entry's begin, its bits, and a value.
type Field = (&'static str, usize, usize, u64);

/// The entry that fields make, of an opcode for the compute namespace.
fn entry(opcode: u8, fields: &[Field]) -> [u8; 64] {
    let mut raw = Sqe { opcode, nsid: COMPUTE, prp1: OUT, ..Default::default() }.to_bytes();
    for &(name, from, bits, value) in fields {
        assert!(bits == 64 || value >> bits == 0, "{name}");
        for bit in 0..bits {
            let byte = &mut raw[(from + bit) / 8];
            assert_eq!(*byte >> ((from + bit) % 8) & 1, 0, "{name} overlaps another");
            *byte |= ((value >> bit & 1) as u8) << ((from + bit) % 8);
        }
    }
    raw
}

/// The first bit of a field: its dword, and its bit there.
const fn bit(dword: usize, bit: usize) -> usize {
    dword * 32 + bit
}

/// The places of fields as the named implementation has them, with the figures of the Computational
/// Programs command set 1.1 that it cites: the commands of the other tests are made so.
#[test]
fn fields_have_their_public_places() {
    let with_data = |sqe: Sqe| Sqe { prp1: OUT, ..sqe }.to_bytes();
    // Figures 39 to 44.
    let fields = |unload, size, piece, offset| {
        [
            ("program index", bit(10, 0), 16, 7),
            ("program type", bit(10, 16), 8, if unload == 1 { 0 } else { 0xc0 }),
            ("select: unload", bit(10, 24), 1, unload),
            ("program identifier type", bit(10, 25), 3, 1 - unload),
            ("program size", bit(11, 0), 32, size),
            ("program identifier", bit(12, 0), 64, if unload == 1 { 0 } else { 0x1234 }),
            ("number of bytes", bit(14, 0), 32, piece),
            ("load offset", bit(15, 0), 32, offset),
        ]
    };
    assert_eq!(with_data(load(7, 4096, 512, 256)), entry(0x85, &fields(0, 4096, 256, 512)));
    assert_eq!(with_data(unload(7)), entry(0x85, &fields(1, 0, 0, 0)));
    // Figure 52: deactivation is 0.
    for active in [0, 1] {
        let fields =
            [("program index", bit(10, 0), 16, 7), ("select", bit(10, 16), 4, u64::from(active))];
        assert_eq!(with_data(activation(7, active)), entry(0x88, &fields));
    }
    // Figures 46 to 48: creation is 0.
    let fields = [("select: delete", bit(10, 0), 4, 1), ("memory range set", bit(10, 16), 16, 9)];
    assert_eq!(with_data(delete_set(9)), entry(0x89, &fields));
    // Figures 16 to 22.
    let fields = [
        ("program index", bit(2, 0), 16, 7),
        ("memory range set", bit(2, 16), 16, 9),
        ("number of memory ranges", bit(3, 0), 32, 0),
        ("data length", bit(4, 0), 32, 0),
        ("parameter 1", bit(10, 0), 64, 1 << 40 | 5),
        ("parameter 2", bit(12, 0), 64, 1 << 50 | 6),
    ];
    assert_eq!(with_data(execute(7, 9, [1 << 40 | 5, 1 << 50 | 6])), entry(0x01, &fields));

    // The descriptor of a range (figure 34): what it names is read and written by a program.
    let mut driver = driver();
    let mut raw = [0; 32];
    raw[0..4].copy_from_slice(&MEMORY.to_le_bytes());
    raw[4..8].copy_from_slice(&16u32.to_le_bytes());
    raw[8..16].copy_from_slice(&64u64.to_le_bytes());
    driver.ram.set(OUT, &raw);
    let create = [("number of memory ranges", bit(11, 0), 8, 1)];
    let create = Sqe { opcode: 0x89, nsid: COMPUTE, prp1: OUT, cdw11: 1, ..Default::default() }
        .to_bytes()
        == entry(0x89, &create);
    assert!(create);
    let set = set_of(&mut driver, &[(MEMORY, 64, 16)]);
    assert_eq!(driver.ram.get(OUT, 32), raw, "as the other tests make it");
    write_memory(&mut driver, 64, &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    install(&mut driver, 0, &sum());
    assert_eq!(result(one(&mut driver, execute(0, set.result, [0, 0]))), 3);
}
