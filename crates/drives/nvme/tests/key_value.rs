//! Key-value namespaces: their commands against a map, on a drive that ends requests in any order.

use std::collections::BTreeMap;

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{Command, Operation, Random, Request, Status};
use stasis_nvme::{
    Config, ConfigError, KeptState, KeyValue, KeyValueError, Namespace, StateError, Zones,
};

const STORE: u8 = 0x01;
const RETRIEVE: u8 = 0x02;
const LIST: u8 = 0x06;
const DELETE: u8 = 0x10;
const EXIST: u8 = 0x14;
const MUST_EXIST: u32 = 1 << 8;
const MUST_NOT_EXIST: u32 = 1 << 9;

const INVALID_OPCODE: u16 = 0x001;
const INVALID_FIELD: u16 = 0x002;
const INVALID_NAMESPACE: u16 = 0x00b;
const ABORT_REQUESTED: u16 = 0x007;
const INVALID_COMMAND_SET: u16 = 0x02c;
const CAPACITY_EXCEEDED: u16 = 0x081;
const INVALID_VALUE_SIZE: u16 = 0x085;
const INVALID_KEY_SIZE: u16 = 0x086;
const KEY_DOES_NOT_EXIST: u16 = 0x087;
const UNRECOVERED_ERROR: u16 = 0x088;
const KEY_EXISTS: u16 = 0x089;

const SEGMENT: u64 = 64 << 10;
const SEGMENTS: u64 = 16;
/// Longest value: a fourth of a segment.
const MAX_VALUE: u32 = 16 << 10;
/// The first namespace is of blocks.
const PAIRS: u32 = 2;

fn pairs(max_keys: u32) -> Config {
    let segment = Some(SEGMENT);
    let log = KeyValue { segment, spare_percent: 0, max_keys, ..KeyValue::default() };
    let start = BLOCKS * 512;
    let namespace = Namespace { start, ..Namespace::new(SEGMENTS * SEGMENT / 512, 512) };
    let namespaces =
        vec![Namespace::new(BLOCKS, 512), Namespace { key_value: Some(log), ..namespace }];
    Config { namespaces, ..config() }
}

fn driver() -> Driver {
    Driver::with_queues(pairs(1000), 2, 64)
}

/// The same with memory for one page of the index, of 11.
fn indexed() -> Driver {
    let mut config = pairs(1000);
    let namespace = &mut config.namespaces[PAIRS as usize - 1];
    namespace.key_value =
        namespace.key_value.map(|log| KeyValue { index_cache: Some(4096), ..log });
    Driver::with_queues(config, 2, 64)
}

/// A command on a pair, with its data at [`DATA`].
fn command(opcode: u8, key: &[u8], dword10: u32, options: u32) -> Sqe {
    let mut bytes = [0; 16];
    bytes[..key.len()].copy_from_slice(key);
    let dword = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    Sqe {
        opcode,
        nsid: PAIRS,
        cdw2: dword(0),
        cdw3: dword(4),
        prp1: DATA,
        prp2: SCRATCH,
        cdw10: dword10,
        cdw11: key.len() as u32 | options,
        cdw14: dword(8),
        cdw15: dword(12),
        ..Default::default()
    }
}

/// A list of the pages behind the first, where two are not enough.
fn list_pages(driver: &Driver, at: u64) {
    let pages = (1..8u64).flat_map(|page| (at + page * 4096).to_le_bytes());
    driver.ram.set(SCRATCH, &pages.collect::<Vec<u8>>());
}

fn store(driver: &mut Driver, key: &[u8], value: &[u8], options: u32) -> u16 {
    driver.ram.set(DATA, value);
    list_pages(driver, DATA);
    let mut sqe = command(STORE, key, value.len() as u32, options);
    if value.len() <= 8192 {
        sqe.prp2 = DATA + 4096;
    }
    driver.io(sqe).status
}

/// The value that is read into `room` bytes, and its whole length.
fn retrieve(driver: &mut Driver, key: &[u8], room: u32) -> Result<(Vec<u8>, u32), u16> {
    driver.ram.set(DATA, &vec![0xee; MAX_VALUE as usize + 4096]);
    list_pages(driver, DATA);
    let mut sqe = command(RETRIEVE, key, room, 0);
    let end = driver.io(sqe);
    if end.status != 0 {
        return Err(end.status);
    }
    let found = end.result.min(room);
    // The second pointer of a short transfer is a page.
    if (4097..=8192).contains(&found) {
        sqe.prp2 = DATA + 4096;
        assert_eq!(driver.io(sqe).status, 0);
    }
    let data = driver.ram.get(DATA, found as usize);
    let behind = driver.ram.get(DATA + u64::from(found), 600);
    assert!(behind.iter().all(|&byte| byte == 0xee), "nothing behind the value");
    Ok((data, end.result))
}

fn status(driver: &mut Driver, opcode: u8, key: &[u8]) -> u16 {
    driver.io(command(opcode, key, 0, 0)).status
}

/// The keys from one on, or all, as far as `room` bytes go.
fn list(driver: &mut Driver, first: &[u8], room: u32) -> Vec<Vec<u8>> {
    driver.ram.set(DATA, &[0xee; 8192]);
    let sqe = Sqe { prp2: DATA + 4096, ..command(LIST, first, room, 0) };
    assert_eq!(driver.io(sqe).status, 0);
    let raw = driver.ram.get(DATA, 8192);
    let count = u32::from_le_bytes(raw[..4].try_into().unwrap());
    let mut at = 4;
    let keys = (0..count).map(|_| {
        let length = usize::from(u16::from_le_bytes([raw[at], raw[at + 1]]));
        let key = raw[at + 2..at + 2 + length].to_vec();
        let end = (at + 2 + length).next_multiple_of(4);
        assert!(raw[at + 2 + length..end].iter().all(|&byte| byte == 0));
        at = end;
        key
    });
    let keys = keys.collect();
    assert!(at <= room as usize && raw[at..].iter().all(|&byte| byte == 0xee));
    keys
}

#[test]
fn pairs_are_stored_retrieved_deleted_and_listed() {
    let mut driver = driver();
    let long = [7; 10_000];
    for (key, value) in [(&b"one"[..], &b"first"[..]), (b"sixteen bytes...", &long), (b"0", b"")] {
        assert_eq!(status(&mut driver, EXIST, key), KEY_DOES_NOT_EXIST);
        assert_eq!(retrieve(&mut driver, key, 512), Err(KEY_DOES_NOT_EXIST));
        assert_eq!(store(&mut driver, key, value, 0), 0);
        assert_eq!(status(&mut driver, EXIST, key), 0);
        let length = value.len() as u32;
        assert_eq!(retrieve(&mut driver, key, MAX_VALUE), Ok((value.to_vec(), length)));
        // A host with less room gets the first part, and the length of all.
        let part = &value[..value.len().min(700)];
        assert_eq!(retrieve(&mut driver, key, 700), Ok((part.to_vec(), length)));
        assert_eq!(retrieve(&mut driver, key, 0), Ok((Vec::new(), length)));
    }
    assert_eq!(store(&mut driver, b"one", b"second", 0), 0);
    assert_eq!(retrieve(&mut driver, b"one", 512), Ok((b"second".to_vec(), 6)));
    // In the order of their bytes.
    let all = [&b"0"[..], b"one", b"sixteen bytes..."];
    assert_eq!(list(&mut driver, b"", 4096), all);
    assert_eq!(list(&mut driver, b"one", 4096), all[1..]);
    assert_eq!(list(&mut driver, b"a", 4096), all[1..]);
    assert_eq!(list(&mut driver, b"z", 4096), [] as [&[u8]; 0]);
    // As many as have room: 4 bytes of the head, 4 and 8 of the first two.
    assert_eq!(list(&mut driver, b"", 16), all[..2]);
    assert_eq!(list(&mut driver, b"", 15), all[..1]);
    assert_eq!(list(&mut driver, b"", 4), [] as [&[u8]; 0]);
    assert_eq!(driver.io(command(LIST, b"", 3, 0)).status, INVALID_FIELD);

    assert_eq!(status(&mut driver, DELETE, b"one"), 0);
    assert_eq!(retrieve(&mut driver, b"one", 512), Err(KEY_DOES_NOT_EXIST));
    assert_eq!(list(&mut driver, b"", 4096), [all[0], all[2]]);
    assert_eq!(status(&mut driver, DELETE, b"one"), 0, "as the feature says at first");
}

#[test]
fn values_are_written_where_the_log_has_room() {
    let mut driver = driver();
    store(&mut driver, b"k", &[1; 700], 0);
    retrieve(&mut driver, b"k", 100).unwrap();
    let [write, read] = driver.asked[..] else { panic!("{:?}", driver.asked) };
    assert_eq!((write.operation, write.length, write.fua), (Operation::Write, 1024, false));
    assert_eq!((read.operation, read.length), (Operation::Read, 512));
    assert_eq!(write.offset, BLOCKS * 512);
    assert_eq!(read.offset, write.offset);
    assert_eq!(driver.disk[write.offset as usize..][..700], [1; 700]);
    assert_eq!(driver.disk[write.offset as usize..][700..1024], [0; 324]);
    // Durable with a flush, or without the volatile write cache.
    assert_eq!(driver.io(Sqe { nsid: PAIRS, ..Default::default() }).status, 0);
    assert_eq!(driver.asked.last().unwrap().operation, Operation::Flush);
    assert_eq!(driver.set_feature(6, 0).status, 0);
    store(&mut driver, b"l", &[1; 700], 0);
    let last = driver.asked.last().unwrap();
    assert_eq!((last.operation, last.fua), (Operation::Write, true));
}

#[test]
fn conditions_and_sizes_are_checked() {
    let mut driver = driver();
    assert_eq!(store(&mut driver, b"k", b"v", MUST_EXIST), KEY_DOES_NOT_EXIST);
    assert_eq!(store(&mut driver, b"k", b"v", MUST_NOT_EXIST), 0);
    assert_eq!(store(&mut driver, b"k", b"w", MUST_NOT_EXIST), KEY_EXISTS);
    assert_eq!(store(&mut driver, b"k", b"x", MUST_EXIST), 0);
    assert_eq!(retrieve(&mut driver, b"k", 9), Ok((b"x".to_vec(), 1)));
    assert_eq!(store(&mut driver, b"k", b"w", MUST_EXIST | MUST_NOT_EXIST), INVALID_FIELD);
    // The third option, that the value be not compressed, is always true.
    assert_eq!(store(&mut driver, b"k", b"y", 1 << 10), 0);

    for opcode in [STORE, RETRIEVE, DELETE, EXIST] {
        for length in [0, 17, 255] {
            let sqe = Sqe { cdw11: length, ..command(opcode, b"", 4, 0) };
            assert_eq!(driver.io(sqe).status, INVALID_KEY_SIZE, "{opcode} {length}");
        }
    }
    let sqe = Sqe { cdw11: 17, ..command(LIST, b"", 4, 0) };
    assert_eq!(driver.io(sqe).status, INVALID_KEY_SIZE);
    assert_eq!(driver.io(command(STORE, b"l", MAX_VALUE + 1, 0)).status, INVALID_VALUE_SIZE);
    assert_eq!(driver.io(command(STORE, b"l", u32::MAX, 0)).status, INVALID_VALUE_SIZE);
    assert_eq!(driver.io(command(RETRIEVE, b"k", u32::MAX, 0)).status, INVALID_FIELD);
    let nowhere = Sqe { prp1: 1 << 60, ..command(STORE, b"k", 512, 0) };
    assert_ne!(driver.io(nowhere).status, 0);
    assert_eq!(retrieve(&mut driver, b"k", 9), Ok((b"y".to_vec(), 1)), "as before");
}

/// Two hosts that store a key that must not be there: one does.
#[test]
fn a_condition_holds_when_the_store_takes_effect() {
    let mut driver = driver();
    driver.ram.set(DATA, &[5; 512]);
    let both: Vec<u16> =
        (0..2).map(|_| driver.submit(1, command(STORE, b"k", 512, MUST_NOT_EXIST))).collect();
    driver.serve();
    let ends = driver.reap(1);
    let status = |cid: u16| ends.iter().find(|end| end.cid == cid).unwrap().status;
    assert_eq!((status(both[0]), status(both[1])), (0, KEY_EXISTS));
}

#[test]
fn a_full_namespace_refuses_and_has_room_again() {
    let mut driver = Driver::with_queues(pairs(70), 2, 64);
    let page = {
        let sqe = Sqe {
            opcode: 6,
            nsid: PAIRS,
            prp1: SCRATCH,
            cdw10: 5,
            cdw11: 1 << 24,
            ..Default::default()
        };
        assert_eq!(driver.admin(sqe).status, 0);
        driver.ram.get(SCRATCH, 4096)
    };
    let long = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
    let capacity = long(0);
    // Twelve of sixteen segments, of which a value leaves a fourth empty at most.
    assert_eq!(capacity, 12 * (SEGMENT - u64::from(MAX_VALUE)));
    let value = vec![3; MAX_VALUE as usize];
    let count = capacity / u64::from(MAX_VALUE);
    for number in 0..count as u8 {
        assert_eq!(store(&mut driver, &[number], &value, 0), 0);
    }
    assert_eq!(store(&mut driver, b"more", &[1], 0), CAPACITY_EXCEEDED);
    assert_eq!(store(&mut driver, &[0], &value, 0), 0, "in the place of another");
    // Again and again, though nothing else is free.
    for round in 0..200u64 {
        let key = [(round % count) as u8];
        assert_eq!(store(&mut driver, &key, &vec![round as u8; MAX_VALUE as usize], 0), 0);
    }
    for number in 0..count as u8 {
        let last = (0..200u64).rfind(|round| round % count == u64::from(number));
        let expected = vec![last.map_or(3, |round| round as u8); MAX_VALUE as usize];
        assert_eq!(retrieve(&mut driver, &[number], MAX_VALUE).unwrap().0, expected);
    }
    assert_eq!(status(&mut driver, DELETE, &[1]), 0);
    assert_eq!(store(&mut driver, b"more", &[1], 0), 0);
    // Empty values take no room, and keys are counted.
    for number in count as u8..70 {
        assert_eq!(store(&mut driver, &[number, 0], b"", 0), 0);
    }
    assert_eq!(store(&mut driver, b"last", b"", 0), CAPACITY_EXCEEDED);
}

#[test]
fn a_deletion_of_what_is_not_there_fails_where_the_host_wants_it() {
    let mut driver = driver();
    let feature =
        |opcode, nsid, value| Sqe { opcode, nsid, cdw10: 0x20, cdw11: value, ..Default::default() };
    assert_eq!(status(&mut driver, DELETE, b"k"), 0);
    assert_eq!(driver.admin(feature(9, PAIRS, 1)).status, 0);
    assert_eq!(driver.admin(feature(10, PAIRS, 0)).result, 1);
    assert_eq!(status(&mut driver, DELETE, b"k"), KEY_DOES_NOT_EXIST);
    assert_eq!(driver.admin(feature(9, 1, 1)).status, INVALID_COMMAND_SET);
    assert_eq!(driver.admin(feature(9, u32::MAX, 0)).status, 0);
    assert_eq!(status(&mut driver, DELETE, b"k"), 0);
}

#[test]
fn kinds_of_namespaces_stand_side_by_side() {
    let mut driver = driver();
    let identify = |driver: &mut Driver, cns: u32, nsid: u32, set: u32| {
        let sqe = Sqe {
            opcode: 6,
            nsid,
            prp1: SCRATCH,
            cdw10: cns,
            cdw11: set << 24,
            ..Default::default()
        };
        driver.fill_scratch(0xee);
        (driver.admin(sqe).status, driver.ram.get(SCRATCH, 4096))
    };
    // CAP.CSS has bit 6; the sets are of blocks and of pairs.
    assert_eq!(driver.read32(4) >> 11 & 1, 1);
    assert_eq!(identify(&mut driver, 0x1c, 0, 0).1[0], 0b011);
    assert_eq!(identify(&mut driver, 7, 0, 0).1[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify(&mut driver, 7, 0, 1).1[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify(&mut driver, 0, PAIRS, 0).0, INVALID_COMMAND_SET);
    assert_eq!(identify(&mut driver, 5, PAIRS, 0).0, INVALID_COMMAND_SET);
    assert_eq!(identify(&mut driver, 5, 1, 1).0, INVALID_COMMAND_SET);
    assert_eq!(identify(&mut driver, 5, PAIRS, 2).0, INVALID_FIELD, "there are no zones");
    assert_eq!(identify(&mut driver, 6, 0, 1), (0, vec![0; 4096]));
    // The descriptors tell the set, behind the three identifiers.
    let (_, descriptors) = identify(&mut driver, 3, PAIRS, 0);
    assert_eq!(descriptors[12 + 20 + 20..][..5], [4, 1, 0, 0, 1]);
    let (status, independent) = identify(&mut driver, 8, PAIRS, 0);
    assert_eq!((status, independent[14]), (0, 1), "ready");
    store(&mut driver, b"k", &[1; 1000], 0);
    let (status, page) = identify(&mut driver, 5, PAIRS, 1);
    let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
    assert_eq!((status, word(16), word(32)), (0, 1024, 512), "NUSE and NOVG");
    assert_eq!((page[25], page[72], page[73]), (0, 16, 0), "one format, keys of 16 bytes");
    assert_eq!((word(76), word(80)), (MAX_VALUE, 1000));

    // Each has the commands of its set.
    for opcode in [4, 5, 8, 9, 0xc, 0x19, 0x79, 0x7d] {
        assert_eq!(driver.io(command(opcode, b"k", 0, 0)).status, INVALID_OPCODE, "{opcode:x}");
    }
    for opcode in [LIST, DELETE, EXIST] {
        let sqe = Sqe { nsid: 1, ..command(opcode, b"k", 0, 0) };
        assert_eq!(driver.io(sqe).status, INVALID_OPCODE, "{opcode:x}");
    }
    driver.ram.set(DATA, &[9; 512]);
    assert_eq!(driver.io(Sqe::io(1, 5, 1, DATA, 0)).status, 0);
    assert_eq!(driver.disk[5 * 512..6 * 512], [9; 512]);
    let known = Sqe { opcode: 0x86, nsid: PAIRS, cdw13: 0x1100_0000, ..Default::default() };
    assert_eq!(driver.admin(known).status, INVALID_COMMAND_SET);

    // Without a choice of all command sets there are blocks only.
    driver.disable();
    driver.write32(0x14, 4 << 20 | 6 << 16 | 1);
    driver.pairs.truncate(1);
    (driver.pairs[0].tail, driver.pairs[0].head, driver.pairs[0].phase) = (0, 0, true);
    driver.ram.set(ADMIN_CQ, &[0; 4096]);
    driver.create_pair(1, 64, 64, 1);
    assert_eq!(driver.io(command(EXIST, b"k", 0, 0)).status, INVALID_NAMESPACE);
    assert_eq!(driver.io(Sqe::io(2, 5, 1, DATA, 0)).status, 0);
}

#[test]
fn what_erases_a_namespace_takes_its_pairs() {
    let formats =
        |index: u32| Sqe { opcode: 0x80, nsid: PAIRS, cdw10: index, ..Default::default() };
    let sanitizes = Sqe { opcode: 0x84, cdw10: 2, ..Default::default() };
    for sqe in [formats(0), sanitizes] {
        let mut driver = driver();
        for number in 0..40u8 {
            assert_eq!(store(&mut driver, &[number], &[number; 10_000], 0), 0);
        }
        driver.submit(0, sqe);
        driver.serve();
        assert_eq!(driver.reap(0)[0].status, 0);
        assert_eq!(list(&mut driver, b"", 4096), [] as [&[u8]; 0], "{sqe:?}");
        assert_eq!(store(&mut driver, b"k", b"v", 0), 0);
        assert_eq!(retrieve(&mut driver, b"k", 9), Ok((b"v".to_vec(), 1)));
    }
    // There is one format.
    assert_eq!(driver().admin(formats(1)).status, 0x10a);
    // A namespace in its place is of blocks, and empty.
    let mut driver = driver();
    store(&mut driver, b"k", b"v", 0);
    let delete = Sqe { opcode: 0x0d, nsid: PAIRS, cdw10: 1, ..Default::default() };
    driver.submit(0, delete);
    driver.serve();
    assert_eq!(driver.reap(0)[0].status, 0);
    assert_eq!(status(&mut driver, RETRIEVE, b"k"), INVALID_FIELD, "there is none");
}

/// Ends all requests, with `fails` for the status of each.
fn serve(driver: &mut Driver, fails: impl Fn(&Request) -> Status) {
    while let Some(mut request) = driver.controller.pop_request() {
        let status = fails(&request);
        if status == Status::Ok {
            driver.perform(&mut request);
        }
        driver.controller.complete(&driver.ram, request.tag, status, request.data);
    }
}

#[test]
fn a_medium_that_fails_loses_no_pair() {
    let mut driver = driver();
    assert_eq!(store(&mut driver, b"k", &[1; 512], 0), 0);
    driver.ram.set(DATA, &[2; 512]);
    driver.submit(1, command(STORE, b"k", 512, 0));
    serve(&mut driver, |_| Status::WriteError);
    assert_eq!(driver.reap(1)[0].status, UNRECOVERED_ERROR);
    assert_eq!(retrieve(&mut driver, b"k", 512), Ok((vec![1; 512], 512)));
    driver.submit(1, command(RETRIEVE, b"k", 512, 0));
    serve(&mut driver, |_| Status::ReadError);
    assert_eq!(driver.reap(1)[0].status, UNRECOVERED_ERROR);

    // No room comes back where nothing can be copied: that is an answer, too.
    let fails = |request: &Request| match request.command.operation {
        Operation::Copy => Status::WriteError,
        _ => Status::Ok,
    };
    let (mut refused, mut stored) = (0, BTreeMap::new());
    for number in 0..400u32 {
        let key = [(number % 20) as u8];
        let value = vec![number as u8; 8192 - (number % 7) as usize];
        driver.ram.set(DATA, &value);
        let sqe = command(STORE, &key, value.len() as u32, 0);
        driver.submit(1, Sqe { prp2: DATA + 4096, ..sqe });
        serve(&mut driver, fails);
        match driver.reap(1)[..] {
            [Cqe { status: 0, .. }] => drop(stored.insert(key, value)),
            [Cqe { status: CAPACITY_EXCEEDED, .. }] => refused += 1,
            ref other => panic!("{other:?}"),
        }
    }
    // All of these keys were overwritten again and again: segments become empty by themselves.
    assert_eq!(refused, 0);
    for (key, value) in &stored {
        assert_eq!(retrieve(&mut driver, key, MAX_VALUE).unwrap().0, *value);
    }
    // Each segment keeps one pair for good.
    for number in 0..300u32 {
        let key = match number % 7 {
            0 => vec![1, (number / 7) as u8],
            _ => vec![2],
        };
        driver.ram.set(DATA, &[number as u8; 8192]);
        let sqe = command(STORE, &key, 8192, 0);
        driver.submit(1, Sqe { prp2: DATA + 4096, ..sqe });
        serve(&mut driver, fails);
        let ends = driver.reap(1);
        assert_eq!(ends.len(), 1, "{number}");
        refused += usize::from(ends[0].status == CAPACITY_EXCEEDED);
    }
    assert!(refused > 0);
}

/// A format that fails has erased some of the values: no pair is left that would have another's.
#[test]
fn a_format_that_fails_leaves_no_pair() {
    let mut driver = driver();
    assert_eq!(store(&mut driver, b"k", &[1; 512], 0), 0);
    driver.submit(0, Sqe { opcode: 0x80, nsid: PAIRS, ..Default::default() });
    serve(&mut driver, |_| Status::WriteError);
    assert_eq!(driver.reap(0)[0].status, 0x280);
    assert_eq!(status(&mut driver, EXIST, b"k"), KEY_DOES_NOT_EXIST);
    assert_eq!(store(&mut driver, b"k", &[2; 512], 0), 0);
    assert_eq!(retrieve(&mut driver, b"k", 512), Ok((vec![2; 512], 512)));
}

/// A segment is not discarded where the drive's cache cannot be flushed, but written over.
#[test]
fn a_segment_is_not_discarded_before_the_cache_is_flushed() {
    for flushes in [true, false] {
        let mut driver = driver();
        for number in 0..200u32 {
            driver.ram.set(DATA, &[number as u8; 8192]);
            let sqe = command(STORE, &[(number % 9) as u8], 8192, 0);
            driver.submit(1, Sqe { prp2: DATA + 4096, ..sqe });
            serve(&mut driver, |request| match request.command.operation {
                Operation::Flush if !flushes => Status::WriteError,
                _ => Status::Ok,
            });
            assert_eq!(driver.reap(1)[0].status, 0, "{number}");
        }
        let discards =
            driver.asked.iter().filter(|command| command.operation == Operation::Discard).count();
        assert_eq!(discards > 3, flushes, "{discards}");
        for number in 191..200u32 {
            let found = retrieve(&mut driver, &[(number % 9) as u8], 8192).unwrap();
            assert_eq!(found.0, vec![number as u8; 8192]);
        }
    }
}

/// A command's page of the index is read before what needs it where memory does not hold the index,
/// and a changed one is written.
#[test]
fn pages_of_the_index_are_read_and_written() {
    let mut driver = indexed();
    let mut map = BTreeMap::new();
    let mut random = Random::new(3);
    for step in 0..600u32 {
        let key = (random.below(50) as u16).to_be_bytes();
        match random.below(4) {
            0 | 1 => {
                let value = vec![step as u8; 1 + random.below(3000) as usize];
                assert_eq!(store(&mut driver, &key, &value, 0), 0);
                map.insert(key, value);
            }
            2 => {
                let expected = match map.remove(&key) {
                    Some(_) => 0,
                    None => KEY_DOES_NOT_EXIST,
                };
                assert_eq!(status(&mut driver, EXIST, &key), expected);
                assert_eq!(status(&mut driver, DELETE, &key), 0);
            }
            _ => {
                let found = retrieve(&mut driver, &key, MAX_VALUE);
                let expected = map.get(&key).map(|value| (value.clone(), value.len() as u32));
                assert_eq!(found, expected.ok_or(KEY_DOES_NOT_EXIST));
            }
        }
    }
    // Values are shorter.
    let pages = |operation| {
        let page_commands = |asked: &&Command| asked.operation == operation && asked.length == 4096;
        driver.asked.iter().filter(page_commands).collect::<Vec<_>>()
    };
    let (read, written) = (pages(Operation::Read), pages(Operation::Write));
    assert!(read.len() > 300 && written.len() > 200, "{}, {}", read.len(), written.len());
    // A value is read behind its page.
    let key = map.keys().next().unwrap().to_owned();
    let other = map.keys().nth(1).unwrap().to_owned();
    retrieve(&mut driver, &other, 512).unwrap();
    driver.asked.clear();
    retrieve(&mut driver, &key, 512).unwrap();
    let [page, value] = driver.asked[..] else { panic!("{:?}", driver.asked) };
    assert_eq!((page.length, value.length), (4096, 512));
    driver.asked.clear();
    retrieve(&mut driver, &key, 512).unwrap();
    assert_eq!(driver.asked.len(), 1, "the page is in memory");
}

/// Commands that wait for a page of the index end with it, whatever becomes of it, and can be aborted.
#[test]
fn commands_wait_for_pages_of_the_index() {
    let mut driver = indexed();
    for number in 0..40u8 {
        assert_eq!(store(&mut driver, &[number], &[number; 512], 0), 0);
    }
    let waiting: Vec<u16> =
        (0..40).map(|number| driver.submit(1, command(RETRIEVE, &[number], 512, 0))).collect();
    let mut held: Vec<Request> = std::iter::from_fn(|| driver.controller.pop_request()).collect();
    let pages = held.iter().filter(|request| request.queue == 0).count();
    assert!(pages > 10, "{pages} of 40 wait for a page");
    assert!(held.len() < 44, "their values are not read yet");
    assert_eq!(driver.reap(1), []);
    let abort = Sqe { opcode: 8, cdw10: u32::from(waiting[39]) << 16 | 1, ..Default::default() };
    assert_eq!(driver.admin(abort).result & 1, 0, "aborted");
    assert_eq!(driver.reap(1)[0].status, ABORT_REQUESTED);
    // Pages that cannot be read: the controller knows what they say.
    for mut request in held.drain(..) {
        let status = if request.queue == 0 { Status::ReadError } else { Status::Ok };
        if status == Status::Ok {
            driver.perform(&mut request);
        }
        driver.controller.complete(&driver.ram, request.tag, status, request.data);
    }
    driver.serve();
    let ends = driver.reap(1);
    assert_eq!(ends.len(), 39);
    assert!(ends.iter().all(|end| (end.status, end.result) == (0, 512)), "{ends:?}");
    // A reset forgets them.
    for number in 0..40 {
        driver.submit(1, command(EXIST, &[number], 0, 0));
    }
    driver.disable();
    driver.serve();
    driver.write32(0x14, 4 << 20 | 6 << 16 | 6 << 4 | 1);
}

/// A store that waits for room can be aborted.
#[test]
fn stores_wait_for_room() {
    let mut driver = driver();
    let value = vec![3; MAX_VALUE as usize];
    for number in 0..36u8 {
        assert_eq!(store(&mut driver, &[number], &value, 0), 0);
    }
    // Overwrites that the drive does not end use up the segments.
    let mut held = Vec::new();
    list_pages(&driver, DATA);
    let mut last = 0;
    for number in 0..30u8 {
        last = driver.submit(1, command(STORE, &[number], MAX_VALUE, 0));
        held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
    }
    let writes =
        held.iter().filter(|request| request.command.operation == Operation::Write).count();
    assert!((1..30).contains(&writes), "{writes} of 30");
    assert_eq!(driver.reap(1), []);
    let abort = Sqe { opcode: 8, cdw10: u32::from(last) << 16 | 1, ..Default::default() };
    assert_eq!(driver.admin(abort).result & 1, 0, "aborted");
    assert_eq!(driver.reap(1)[0].status, ABORT_REQUESTED);
    for mut request in held {
        driver.perform(&mut request);
        driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    }
    driver.serve();
    let ends = driver.reap(1);
    assert_eq!(ends.len(), 29);
    assert!(ends.iter().all(|end| end.status == 0));
    for number in 0..36 {
        assert_eq!(retrieve(&mut driver, &[number], MAX_VALUE).unwrap().0, value);
    }
}

#[test]
fn configurations_and_states_are_checked() {
    let wrong = |change: fn(&mut Namespace)| {
        let mut config = pairs(10);
        change(&mut config.namespaces[1]);
        Controller::new(config).unwrap_err()
    };
    let both = wrong(|namespace| namespace.zoned = Some(Zones::new(64 << 10)));
    assert_eq!(both, ConfigError::Both { nsid: 2 });
    let none = wrong(|namespace| {
        namespace.key_value = Some(KeyValue { max_keys: 0, ..KeyValue::default() })
    });
    assert_eq!(none, ConfigError::KeyValue { nsid: 2, error: KeyValueError::Keys(0) });
    let few = wrong(|namespace| namespace.key_value = Some(KeyValue::default()));
    assert!(few.to_string().contains("are 1 segments of 1048576"), "{few}");

    let kept = KeptState::as_made(&pairs(10));
    assert!(kept.governs_contents());
    assert!(Controller::with_state(pairs(10), &kept).is_ok());
    let mut plain = pairs(10);
    plain.namespaces[1].key_value = None;
    let error = Controller::with_state(plain, &kept).unwrap_err();
    assert!(matches!(error, StateError::Other { .. }), "{error}");
    assert!(error.to_string().contains("pairs of 10 keys in segments of 64KiB"), "{error}");
}

#[test]
fn pairs_outlive_the_controller() {
    let with_index = || {
        let mut config = pairs(1000);
        let namespace = &mut config.namespaces[PAIRS as usize - 1];
        namespace.key_value =
            namespace.key_value.map(|log| KeyValue { index_cache: Some(4096), ..log });
        config
    };
    for config in [pairs(1000), with_index()] {
        let mut driver = Driver::with_queues(config.clone(), 2, 64);
        assert_eq!(driver.controller.kept_state(), KeptState::as_made(&config), "unused");
        let (mut map, mut random) = (BTreeMap::new(), Random::new(4));
        for round in 0..4 {
            for step in 0..300u32 {
                let key = (random.below(90) as u16).to_be_bytes();
                if random.below(5) == 0 {
                    assert_eq!(status(&mut driver, DELETE, &key), 0);
                    map.remove(&key);
                    continue;
                }
                let value = vec![step as u8; random.below(9000) as usize];
                assert_eq!(store(&mut driver, &key, &value, 0), 0);
                map.insert(key, value);
            }
            // One that has not ended is not there.
            driver.submit(1, command(STORE, b"late", 512, 0));
            driver = driver.power_cycle(config.clone());
            assert_eq!(status(&mut driver, EXIST, b"late"), KEY_DOES_NOT_EXIST);
            for (key, value) in &map {
                let found = retrieve(&mut driver, key, MAX_VALUE).unwrap();
                assert!(found == (value.clone(), value.len() as u32), "{round}: {key:?}");
            }
        }
        let state = driver.controller.kept_state();
        let damaged = |change: fn(&mut stasis_nvme::KeptPairs)| {
            let mut state = state.clone();
            change(state.namespaces[PAIRS as usize - 1].pairs.as_mut().unwrap());
            Controller::with_state(config.clone(), &state).unwrap_err().to_string()
        };
        for change in [
            (|kept_pairs| kept_pairs.pairs[1].0 = kept_pairs.pairs[0].0.clone())
                as fn(&mut stasis_nvme::KeptPairs),
            |kept_pairs| kept_pairs.pairs[0].1 = u64::MAX / 512 * 512,
            |kept_pairs| kept_pairs.pairs[0].2 = u32::MAX,
            |kept_pairs| kept_pairs.free.push(99),
            |kept_pairs| kept_pairs.open[0] = Some((0, 1)),
        ] {
            let error = damaged(change);
            assert!(error.starts_with("the state is damaged: namespace 2: "), "{error}");
        }
        // Another description is refused by name.
        let mut other = config.clone();
        let namespace = &mut other.namespaces[PAIRS as usize - 1];
        namespace.key_value =
            namespace.key_value.map(|log| KeyValue { segment: Some(SEGMENT / 2), ..log });
        let error = Controller::with_state(other, &state).unwrap_err().to_string();
        assert!(error.contains("segments of 64KiB") && error.contains("of 32KiB"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// Many commands at a time, of which each key has one, against a map.
    #[test]
    fn commands_in_any_order_are_those_of_a_map(seed in any::<u64>()) {
        let mut driver = driver();
        let mut random = Random::new(seed);
        let mut map: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        let mut held: Vec<Request> = Vec::new();
        // Key of each command under way, and its effect or what it is to read.
        let mut under_way: BTreeMap<u16, (u8, Option<Vec<u8>>, u64)> = BTreeMap::new();
        let mut busy = [false; 40];
        for step in 0..1500u32 {
            let key = random.below(40) as u8;
            let slot = DATA + u64::from(key) * 0x8000;
            if !busy[usize::from(key)] && random.below(3) > 0 {
                list_pages(&driver, slot);
                let sqe = |opcode, dword10| Sqe { prp1: slot, ..command(opcode, &[key], dword10, 0) };
                match random.below(8) {
                    0 => {
                        let deleted = driver.submit(1, sqe(DELETE, 0));
                        map.remove(&key);
                        under_way.insert(deleted, (key, None, 0));
                    }
                    1..=2 => {
                        // In two pages, or by a list.
                        let whole = map.get(&key).map(Vec::len).filter(|length| *length > 8192);
                        let Some(whole) = whole else { continue };
                        let cid = driver.submit(1, sqe(RETRIEVE, MAX_VALUE));
                        assert_eq!(whole, map[&key].len());
                        under_way.insert(cid, (key, Some(map[&key].clone()), RETRIEVE.into()));
                    }
                    _ => {
                        let length = 8193 + random.below(8192) as usize;
                        let value: Vec<u8> = (0..length).map(|at| (at as u32 ^ step) as u8).collect();
                        driver.ram.set(slot, &value);
                        let cid = driver.submit(1, sqe(STORE, length as u32));
                        under_way.insert(cid, (key, Some(value), STORE.into()));
                    }
                }
                busy[usize::from(key)] = true;
            }
            held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
            while held.len() > 12 || !held.is_empty() && random.below(2) == 0 {
                let index = random.below(held.len() as u64) as usize;
                let mut request = held.swap_remove(index);
                driver.perform(&mut request);
                if request.command.operation == Operation::Discard {
                    let range = request.command.offset as usize..;
                    driver.disk[range][..request.command.length as usize].fill(0xdd);
                }
                driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
                held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
            }
            for end in driver.reap(1) {
                let (key, value, opcode) = under_way.remove(&end.cid).unwrap();
                busy[usize::from(key)] = false;
                match (value, opcode as u8, end.status) {
                    (Some(value), STORE, 0) => drop(map.insert(key, value)),
                    (Some(_), STORE, status) => prop_assert_eq!(status, CAPACITY_EXCEEDED),
                    (Some(value), RETRIEVE, 0) => {
                        let place = DATA + u64::from(key) * 0x8000;
                        prop_assert_eq!(end.result as usize, value.len());
                        prop_assert!(driver.ram.get(place, value.len()) == value);
                    }
                    (None, _, 0) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        let copies = driver.asked.iter().filter(|command| command.operation == Operation::Copy).count();
        prop_assert!(copies > 50, "{copies} copies");
        // Everything is durable before a segment goes.
        let of_collection = [Operation::Copy, Operation::Flush, Operation::Discard];
        let asked = driver.asked.iter().map(|command| command.operation);
        let asked: Vec<_> = asked.filter(|command| of_collection.contains(command)).collect();
        let discards = asked.windows(2).filter(|pair| pair[1] == Operation::Discard);
        prop_assert!(discards.clone().all(|pair| pair[0] == Operation::Flush));
        prop_assert!(discards.count() > 5);
    }
}
