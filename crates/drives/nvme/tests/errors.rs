//! The reports of each kind of failure: its completion, its entry in the error log, and the counts
//! of the SMART log (NVMe 1.4 sections 4.6.1, 5.14.1.1 and 5.14.1.2).

use crate::support::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Ended, Namespace, Zones};

const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
const WRITE_UNCORRECTABLE: u8 = 4;
const COMPARE: u8 = 5;
const WRITE_ZEROES: u8 = 8;
const VERIFY: u8 = 0xc;
const COPY: u8 = 0x19;
/// Parameter Error Location where there is none.
const NONE: u16 = 0xffff;

/// A command that fails.
struct Case {
    name: &'static str,
    sqe: Sqe,
    /// Status by which the drive ends its request, where it gets one.
    drive: Status,
    /// The first byte of the request that the error concerns.
    failed_at: u64,
    /// The completion and log entry: status, whether a repetition helps, the place in the command,
    /// the block.
    status: u16,
    retry: bool,
    location: u16,
    lba: u64,
    /// Increments of the counts of the SMART log: blocks read, blocks written, reads, writes,
    /// media errors.
    counts: [u64; 5],
}

fn io(opcode: u8, lba: u64, blocks: u32) -> Sqe {
    Sqe::io(opcode, lba, blocks, DATA, DATA + PAGE)
}

fn copy(source: u64, to: u64, blocks: u8) -> (Sqe, [u8; 32]) {
    let mut range = [0; 32];
    range[8..16].copy_from_slice(&source.to_le_bytes());
    range[16] = blocks - 1;
    (Sqe { cdw12: 0, prp1: SCRATCH, ..Sqe::io(COPY, to, 1, 0, 0) }, range)
}

fn cases() -> Vec<Case> {
    let case = |name, sqe, drive, status, lba| Case {
        name,
        sqe,
        drive,
        failed_at: 0,
        status,
        retry: false,
        location: NONE,
        lba,
        counts: [0; 5],
    };
    let read_error = |name, sqe: Sqe, lba| Case {
        retry: true,
        counts: [0, 0, 0, 0, 1],
        ..case(name, sqe, Status::ReadError, 0x281, lba)
    };
    let write_error =
        |name, sqe, lba| Case { retry: true, ..case(name, sqe, Status::WriteError, 0x280, lba) };
    let out_of_range =
        |name, sqe, lba| Case { location: 40, ..case(name, sqe, Status::Ok, 0x80, lba) };
    vec![
        read_error("read", io(READ, 77, 4), 77),
        read_error("verify", io(VERIFY, 77, 4), 77),
        read_error("compare", io(COMPARE, 77, 4), 77),
        read_error("copy from", copy(77, 200, 4).0, 77),
        Case { failed_at: 1024, ..read_error("read within", io(READ, 77, 4), 79) },
        Case { failed_at: 1535, ..read_error("verify within", io(VERIFY, 77, 4), 79) },
        Case { failed_at: 1536, ..read_error("compare within", io(COMPARE, 77, 4), 80) },
        Case { failed_at: 512, ..read_error("copy from within", copy(77, 200, 4).0, 78) },
        write_error("write", io(WRITE, 78, 4), 78),
        write_error("write zeroes", io(WRITE_ZEROES, 78, 4), 78),
        write_error("copy to", copy(77, 200, 4).0, 200),
        Case { failed_at: 512, ..write_error("write within", io(WRITE, 78, 4), 79) },
        Case { failed_at: 512, ..write_error("copy to within", copy(77, 200, 4).0, 201) },
        Case {
            counts: [4, 0, 1, 0, 0],
            ..case("miscompare", io(COMPARE, 10, 4), Status::Ok, 0x285, 12)
        },
        // Block 32 is marked. The medium has lost nothing.
        Case { retry: true, ..case("marked", io(READ, 30, 4), Status::Ok, 0x281, 32) },
        Case { retry: true, ..case("verify marked", io(VERIFY, 32, 1), Status::Ok, 0x281, 32) },
        out_of_range("beyond the end", io(READ, BLOCKS - 1, 4), BLOCKS),
        out_of_range("far beyond the end", io(WRITE, BLOCKS + 9, 4), BLOCKS + 9),
        Case {
            location: 4,
            ..case("no namespace", Sqe { nsid: 9, ..io(READ, 1, 1) }, Status::Ok, 0x002, 0)
        },
        Case { location: 0, ..case("no such command", io(0x7f, 1, 1), Status::Ok, 0x001, 0) },
        Case {
            location: 1,
            ..case("fused", Sqe { flags: 1, ..io(READ, 1, 1) }, Status::Ok, 0x002, 0)
        },
        Case {
            retry: true,
            ..case("no memory", Sqe { prp1: RAM as u64, ..io(READ, 1, 1) }, Status::Ok, 0x004, 1)
        },
    ]
}

/// SMART counts that failures could change.
fn smart(driver: &mut Driver) -> ([u64; 5], u64, [u64; 2]) {
    let log = driver.log(2, 512);
    let at = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    let statistics = driver.controller.statistics();
    let blocks = |bytes: u128| (bytes / 512) as u64;
    let counts =
        [blocks(statistics.bytes_read), blocks(statistics.bytes_written), at(64), at(80), at(160)];
    (counts, at(176), [at(112), at(144)])
}

#[test]
fn every_failure_says_what_the_specification_wants_of_it() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    assert_eq!(driver.io(io(WRITE_UNCORRECTABLE, 32, 1)).status, 0);
    driver.disk[12 * 512 + 5] = 1;
    for Case { name, sqe, drive, failed_at, status, retry, location, lba, counts } in cases() {
        let (before, logged, power) = smart(&mut driver);
        driver.ram.set(SCRATCH, &copy(77, 200, 4).1);
        let cid = driver.submit(1, sqe);
        while let Some(mut request) = driver.controller.pop_request() {
            driver.perform(&mut request);
            let ended = Ended { failed_at, ..Ended::from(drive) };
            driver.controller.complete(&driver.ram, request.tag, ended, request.data);
        }
        let slot = driver.pairs[1].cq + u64::from(driver.pairs[1].head) * 16;
        let field = driver.ram.get(slot + 14, 2);
        let cqe = driver.reap(1)[0];
        assert_eq!((cqe.cid, cqe.status, !cqe.dnr), (cid, status, retry), "{name}");
        assert_eq!(field[1] >> 6 & 1, 1, "{name}: the log has more");
        assert_eq!(cqe.result, 0, "{name}: nothing else, and of a copy its first range");
        let log = driver.log(1, 128);
        let number = |at: usize, bytes: usize| {
            log[at..at + bytes].iter().rev().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte))
        };
        assert_eq!(number(0, 8), logged + 1, "{name}: Error Count");
        assert_eq!(number(8, 2), 1, "{name}: Submission Queue ID");
        assert_eq!(number(10, 2), u64::from(cid), "{name}: Command ID");
        assert_eq!(log[12..14], field[..], "{name}: Status Field, with its phase");
        assert_eq!(number(14, 2), u64::from(location), "{name}: Parameter Error Location");
        assert_eq!(number(16, 8), lba, "{name}: LBA");
        assert_eq!(number(24, 4), u64::from(sqe.nsid), "{name}: Namespace");
        assert!(log[28..64].iter().all(|&byte| byte == 0), "{name}: PCIe, and nothing specific");
        let (after, entries, still) = smart(&mut driver);
        let changed: Vec<_> = after.iter().zip(before).map(|(now, then)| now - then).collect();
        assert_eq!(changed, counts, "{name}: SMART");
        assert_eq!((entries, still), (logged + 1, power), "{name}: SMART");
    }
}

#[test]
fn a_command_of_several_parts_names_the_block_of_the_part_that_failed() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    let (mut sqe, first) = copy(77, 200, 4);
    sqe.cdw12 = 1;
    driver.ram.set(SCRATCH, &[first, copy(90, 0, 2).1].concat());
    driver.submit(1, sqe);
    let mut parts = Vec::new();
    while let Some(mut request) = driver.controller.pop_request() {
        driver.perform(&mut request);
        parts.push(request);
    }
    // The one that ends last has not failed.
    for (request, status) in parts.into_iter().zip([Status::ReadError, Status::Ok]) {
        let ended = Ended { failed_at: 512, ..Ended::from(status) };
        driver.controller.complete(&driver.ram, request.tag, ended, request.data);
    }
    assert_eq!(driver.reap(1)[0].status, 0x281);
    assert_eq!(driver.log(1, 64)[16..24], 78u64.to_le_bytes());
}

#[test]
fn an_error_of_no_command_is_logged_as_such() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    driver.write32(0x1000 + 8, 9);
    let log = driver.log(1, 64);
    assert_eq!((log[0], &log[8..12], &log[14..16]), (1, &[0xff; 4][..], &[0xff; 2][..]));
    assert!(log[16..].iter().all(|&byte| byte == 0));
}

#[test]
fn zones_name_the_block_that_cannot_be_written() {
    let zoned = Some(Zones::new(64 * 4096));
    let namespace = Namespace { zoned, ..Namespace::new(1024, 4096) };
    let mut driver = Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1, 8);
    assert_eq!(driver.io(io(WRITE, 70, 1)).status, 0x1bc);
    let log = driver.log(1, 64);
    assert_eq!((log[14], log[16]), (40, 70));
}

#[test]
fn health_is_of_the_controller_only() {
    let mut driver = Driver::new(config());
    let log = Sqe { opcode: 2, nsid: 1, prp1: SCRATCH, cdw10: 127 << 16 | 2, ..Default::default() };
    assert_eq!(driver.admin(log).status, 0x002);
    assert_eq!(driver.admin(Sqe { nsid: 0, ..log }).status, 0);
}

#[test]
fn temperatures_are_counted_by_their_thresholds() {
    const MINUTE: u64 = 60_000_000_000;
    let mut driver = Driver::new(config());
    for (kelvin, minutes) in [(342, 1), (343, 2), (352, 1), (353, 4)] {
        driver.controller.set_temperature(&driver.ram, kelvin);
        let now = driver.controller.statistics().powered_on;
        driver.controller.set_time(now + minutes * MINUTE);
    }
    let log = driver.log(2, 512);
    assert_eq!((log[192], log[196]), (3, 4), "warning, and critical");
}

#[test]
fn a_cache_that_is_off_has_nothing_to_flush() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    let asked = |driver: &mut Driver| {
        let flush = Sqe { opcode: FLUSH, nsid: 1, ..Default::default() };
        driver.asked.clear();
        assert_eq!(driver.io(flush).status, 0);
        driver.asked.len()
    };
    assert_eq!(asked(&mut driver), 1, "the cache is on");
    assert_eq!(driver.io(io(WRITE, 0, 1)).status, 0);
    // It is emptied when it is turned off.
    driver.submit(0, Sqe { opcode: 9, cdw10: 6, cdw11: 0, ..Default::default() });
    assert!(driver.next(0).is_none());
    driver.asked.clear();
    driver.serve();
    assert_eq!(driver.reap(0)[0].status, 0);
    assert_eq!(driver.asked[0].operation, Operation::Flush);
    assert_eq!(asked(&mut driver), 0);
    assert_eq!(driver.io(io(WRITE, 0, 1)).status, 0);
    assert_eq!(asked(&mut driver), 0, "the write was forced");
    let all = Sqe { opcode: FLUSH, nsid: u32::MAX, ..Default::default() };
    assert_eq!(driver.io(all).status, 0);
    assert!(driver.asked.is_empty());
    // A write of before, that is still in flight: the flush behind it has an effect.
    assert_eq!(driver.set_feature(6, 1).status, 0);
    driver.submit(1, io(WRITE, 0, 1));
    let write = driver.controller.pop_request().unwrap();
    driver.submit(0, Sqe { opcode: 9, cdw10: 6, cdw11: 0, ..Default::default() });
    driver.serve();
    assert_eq!(driver.reap(0).len(), 1);
    driver.controller.complete(&driver.ram, write.tag, Status::Ok, write.data);
    assert_eq!(driver.reap(1).len(), 1);
    assert_eq!(asked(&mut driver), 1);
    assert_eq!(asked(&mut driver), 0);
    // A drive without a cache.
    let mut driver = Driver::with_queues(Config { volatile_write_cache: false, ..config() }, 1, 8);
    assert_eq!(asked(&mut driver), 0);
}
