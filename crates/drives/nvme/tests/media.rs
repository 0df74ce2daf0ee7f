//! I/O commands beyond Read and Write: Copy, Compare, Verify and Write
//! Uncorrectable.

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Namespace};

const WRITE: u8 = 1;
const READ: u8 = 2;
const UNCORRECTABLE: u8 = 4;
const COMPARE: u8 = 5;
const VERIFY: u8 = 0x0c;
const COPY: u8 = 0x19;

/// Copy of ranges of (first block, blocks) to `to`.
fn copy(ram: &Ram, to: u64, ranges: &[(u64, u32)]) -> Sqe {
    for (index, (lba, blocks)) in ranges.iter().enumerate() {
        let at = SCRATCH + index as u64 * 32;
        ram.set(at, &[0; 32]);
        ram.set64(at + 8, *lba);
        ram.set32(at + 16, blocks - 1);
    }
    Sqe { cdw12: ranges.len() as u32 - 1, ..Sqe::io(COPY, to, 1, SCRATCH, 0) }
}

/// Writes bytes that distinguish each block from all others.
fn fill_disk(driver: &mut Driver) {
    for (lba, block) in driver.disk.chunks_exact_mut(512).enumerate() {
        block.fill(lba as u8);
        block[..8].copy_from_slice(&(lba as u64).to_le_bytes());
    }
}

#[test]
fn identify_tells_of_the_commands() {
    let namespaces = vec![
        Namespace::new(BLOCKS, 512),
        Namespace { start: BLOCKS * 512, ..Namespace::new(64, 4096) },
    ];
    let mut driver = Driver::new(Config { namespaces, ..config() });
    let id = driver.identify(1, 0).1;
    assert_eq!(u16::from_le_bytes([id[520], id[521]]), 0x1df, "ONCS");
    assert_eq!(id[534], 1, "copies of format 0");
    for (nsid, most) in [(1, 4096u16), (2, 512)] {
        let id = driver.identify(0, nsid).1;
        assert_eq!(id[74..76], most.to_le_bytes());
        assert_eq!(id[76..80], (u32::from(most) * 128).to_le_bytes());
        assert_eq!(id[80], 127);
    }
    let effects = driver.log(5, 4096);
    let effect = |opcode: u8| effects[1024 + usize::from(opcode) * 4];
    assert_eq!([UNCORRECTABLE, COMPARE, VERIFY, COPY].map(effect), [3, 1, 1, 3]);
}

#[test]
fn a_copy_is_one_request_a_range() {
    let namespaces =
        vec![Namespace::new(64, 512), Namespace { start: 64 * 512, ..Namespace::new(1024, 512) }];
    let mut driver = Driver::with_queues(Config { namespaces, ..config() }, 1, 8);
    fill_disk(&mut driver);
    let of_two = Sqe { nsid: 2, ..copy(&driver.ram, 500, &[(0, 8), (100, 1), (4, 8), (1020, 4)]) };
    let forced = Sqe { cdw12: of_two.cdw12 | 1 << 30, ..of_two };
    let cqe = driver.io(forced);
    assert_eq!((cqe.status, cqe.result), (0, 0));
    let start = 64 * 512;
    let asked: Vec<_> = driver
        .asked
        .iter()
        .map(|c| (c.operation, (c.source - start) / 512, (c.offset - start) / 512, c.length / 512))
        .collect();
    assert_eq!(
        asked,
        [(0, 500, 8), (100, 508, 1), (4, 509, 8), (1020, 517, 4)].map(|(from, to, blocks)| (
            Operation::Copy,
            from,
            to,
            blocks
        ))
    );
    assert!(driver.asked.iter().all(|command| command.fua));
    for (to, from) in [(500, 0), (507, 7), (508, 100), (509, 4), (516, 11), (517, 1020)] {
        let at = |lba: usize| &driver.disk[(64 + lba) * 512..][..512];
        assert_eq!(at(to)[..8], (64 + from as u64).to_le_bytes());
    }
}

#[test]
fn a_copy_that_fails_says_which_range() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    let sqe = copy(&driver.ram, 1000, &[(0, 1), (1, 1), (2, 1), (3, 1)]);
    driver.submit(1, sqe);
    let requests: Vec<_> = std::iter::from_fn(|| driver.controller.pop_request()).collect();
    for (index, request) in requests.into_iter().enumerate().rev() {
        let status = if index % 2 == 1 { Status::ReadError } else { Status::Ok };
        driver.controller.complete(&driver.ram, request.tag, status, request.data);
    }
    let cqe = driver.reap(1)[0];
    assert_eq!((cqe.status, cqe.result), (0x281, 1), "the lowest that failed");
}

#[test]
fn copies_are_checked_before_they_begin() {
    let namespaces = vec![
        Namespace::new(BLOCKS, 512),
        Namespace { start: BLOCKS * 512, read_only: true, ..Namespace::new(64, 4096) },
    ];
    let mut driver = Driver::with_queues(Config { namespaces, ..config() }, 1, 8);
    let many = [(0, 1); 129];
    for (to, ranges, status) in [
        (0, &[(20, 8), (BLOCKS, 1)][..], 0x080),
        (0, &[(20, 8), (u64::MAX, 1)], 0x080),
        (BLOCKS - 8, &[(8, 8), (8, 1)], 0x080),
        (u64::MAX - 3, &[(8, 8)], 0x080),
        (0, &[(10, 4097)], 0x183),
        (1000, &many, 0x183),
        (8, &[(100, 4), (8, 1)], 0x187),
        (8, &[(15, 8)], 0x187),
        (8, &[(1, 8)], 0x187),
        (8, &[(0, 8), (16, 8)], 0x187),
        (8, &[(0, 8), (24, 8)], 0),
        // Sources may overlap each other.
        (100, &[(0, 8), (4, 8)], 0),
        (4096, &[(0, 4096)], 0),
    ] {
        driver.asked.clear();
        let sqe = copy(&driver.ram, to, ranges);
        assert_eq!(driver.io(sqe).status, status, "{to} {ranges:?}");
        assert_eq!(driver.asked.is_empty(), status != 0);
    }
    let good = copy(&driver.ram, 100, &[(0, 8)]);
    driver.asked.clear();
    for (sqe, status) in [
        (Sqe { cdw12: 1 << 8, ..good }, 0x002),
        (Sqe { nsid: 2, ..good }, 0x020),
        (Sqe { nsid: 3, ..good }, 0x002),
        (Sqe { prp1: RAM as u64, ..good }, 0x004),
        (Sqe { prp1: SCRATCH + 1, ..good }, 0x013),
    ] {
        assert_eq!(driver.io(sqe).status, status, "{sqe:x?}");
    }
    assert!(driver.asked.is_empty());
}

#[test]
fn compare_tells_equal_from_different() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    fill_disk(&mut driver);
    driver.ram.set(DATA, &driver.disk[512 * 8..512 * 24]);
    let compare = Sqe::io(COMPARE, 8, 16, DATA, DATA + PAGE);
    assert_eq!(driver.io(compare).status, 0);
    assert_eq!(driver.asked[0].operation, Operation::Read);
    assert_eq!(driver.controller.statistics().read_commands, 1, "a Compare counts as a Read");
    for at in [0, 4095, 4096, 8191] {
        let was = driver.ram.get(DATA + at, 1)[0];
        driver.ram.set(DATA + at, &[was ^ 1]);
        let cqe = driver.io(compare);
        assert_eq!((cqe.status, cqe.dnr), (0x285, true), "byte {at}");
        driver.ram.set(DATA + at, &[was]);
    }
    assert_eq!(driver.io(compare).status, 0);
    assert_eq!(driver.io(Sqe { cdw10: 9, ..compare }).status, 0x285);
    // Nothing is written to the guest, whatever comes.
    let writes = driver.ram.writes.get();
    driver.submit(1, compare);
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::ReadError, request.data);
    // Its phase is stored last.
    assert_eq!(driver.ram.writes.get(), writes + 2, "the completion only");
    assert_eq!(driver.reap(1)[0].status, 0x281);
    assert_eq!(driver.io(Sqe { prp1: RAM as u64, ..compare }).status, 0x004);
    assert_eq!(driver.io(Sqe { cdw10: BLOCKS as u32 - 1, ..compare }).status, 0x080);
}

#[test]
fn verify_asks_the_drive() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    assert_eq!(driver.io(Sqe::io(VERIFY, 5, 1 << 10, 0, 0)).status, 0);
    let asked = driver.asked[0];
    assert_eq!(
        (asked.operation, asked.offset, asked.length, asked.fua),
        (Operation::Verify, 5 * 512, 512 << 10, false)
    );
    driver.submit(1, Sqe::io(VERIFY, 5, 1, 0, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::ReadError, request.data);
    assert_eq!(driver.reap(1)[0].status, 0x281);
    assert_eq!(driver.controller.statistics().media_errors, 1);
    assert_eq!(driver.io(Sqe::io(VERIFY, BLOCKS, 1, 0, 0)).status, 0x080);
}

#[test]
fn what_is_marked_uncorrectable_cannot_be_read_until_it_is_written() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    let mark = Sqe::io(UNCORRECTABLE, 100, 8, 0, 0);
    assert_eq!(driver.io(mark).status, 0);
    assert_eq!(driver.io(Sqe::io(UNCORRECTABLE, BLOCKS, 1, 0, 0)).status, 0x080);
    assert!(driver.asked.is_empty(), "nothing is asked of the drive");
    let read = |lba, blocks| Sqe::io(READ, lba, blocks, DATA, 0);
    for (sqe, status) in [
        (read(99, 1), 0),
        (read(108, 1), 0),
        (read(99, 2), 0x281),
        (read(107, 2), 0x281),
        (Sqe { opcode: COMPARE, ..read(100, 1) }, 0x281),
        (Sqe { opcode: VERIFY, ..read(103, 1) }, 0x281),
        (copy(&driver.ram, 0, &[(90, 1), (104, 1)]), 0x281),
        // Writes, in several ways, clear.
        (Sqe { opcode: WRITE, ..read(101, 1) }, 0),
        (Sqe { opcode: 8, ..read(102, 1) }, 0),
        (copy(&driver.ram, 103, &[(90, 1)]), 0),
        (read(101, 3), 0),
        (read(100, 1), 0x281),
        (read(104, 1), 0x281),
    ] {
        assert_eq!(driver.io(sqe).status, status, "{sqe:x?}");
    }
    // A write that fails does not, and an aborted one that is done does.
    for (status, after) in [(Status::WriteError, 0x281), (Status::Ok, 0)] {
        let cid = driver.submit(1, Sqe { opcode: WRITE, ..read(104, 4) });
        let request = driver.controller.pop_request().unwrap();
        let abort = Sqe { opcode: 8, cdw10: u32::from(cid) << 16 | 1, ..Default::default() };
        assert_eq!(driver.admin(abort).result, 0);
        driver.controller.complete(&driver.ram, request.tag, status, request.data);
        driver.reap(1);
        assert_eq!(driver.io(read(104, 4)).status, after);
    }
    // The marks outlive a reset, as the blocks do.
    driver.disable();
    driver.enable();
    driver.create_pair(1, 8, 8, 1);
    assert_eq!(driver.io(read(100, 1)).status, 0x281);
}

#[test]
fn the_marks_are_bounded() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    // 4096 ranges of one block, and no room for more.
    for lba in 0..4096 {
        assert_eq!(driver.io(Sqe::io(UNCORRECTABLE, 2 * lba, 1, 0, 0)).status, 0);
    }
    assert_eq!(driver.io(Sqe::io(UNCORRECTABLE, 1, 1, 0, 0)).status, 0x006);
    assert_eq!(driver.io(Sqe::io(WRITE, 0, 1, DATA, 0)).status, 0x280, "it would be lost");
    assert_eq!(driver.io(Sqe::io(WRITE, 1, 1, DATA, 0)).status, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Copies, writes and reads against a plain array of blocks.
    #[test]
    fn copies_move_what_a_plain_array_would(
        steps in prop::collection::vec((0..64u64, prop::collection::vec((0..64u64, 1..6u32), 1..4)), 1..30),
    ) {
        let namespaces = vec![Namespace::new(64, 512)];
        let mut driver = Driver::with_queues(Config { namespaces, ..config() }, 1, 8);
        fill_disk(&mut driver);
        let mut reference: Vec<u64> = (0..64).collect();
        for (to, ranges) in steps {
            let total: u64 = ranges.iter().map(|(_, blocks)| u64::from(*blocks)).sum();
            let fits = to + total <= 64 && ranges.iter().all(|(lba, n)| lba + u64::from(*n) <= 64);
            let apart = ranges
                .iter()
                .all(|&(lba, n)| lba + u64::from(n) <= to || to + total <= lba);
            let sqe = copy(&driver.ram, to, &ranges);
            let status = driver.io(sqe).status;
            prop_assert_eq!(status == 0, fits && apart);
            if status == 0 {
                let moved: Vec<u64> = ranges
                    .iter()
                    .flat_map(|&(lba, n)| reference[lba as usize..][..n as usize].to_vec())
                    .collect();
                reference[to as usize..][..moved.len()].copy_from_slice(&moved);
            }
            for (lba, block) in driver.disk.chunks_exact(512).enumerate() {
                prop_assert_eq!(&block[..8], &reference[lba].to_le_bytes());
            }
        }
    }
}
