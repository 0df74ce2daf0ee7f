//! Fused commands: Compare and Write.

use crate::support::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Namespace};

const WRITE: u8 = 1;
const COMPARE: u8 = 5;
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Units of 4 KiB in two namespaces with blocks of 512 bytes.
fn driver() -> Driver {
    let second = Namespace { start: BLOCKS * 512, ..Namespace::new(1000, 512) };
    let namespaces = vec![Namespace::new(BLOCKS, 512), second];
    Driver::with_queues(Config { namespaces, atomic_unit: 4096, ..config() }, 2, 16)
}

/// Compares blocks with `old`, and writes `new`.
fn pair(driver: &Driver, lba: u64, blocks: u32, old: u8, new: u8) -> [Sqe; 2] {
    driver.ram.set(DATA, &[old; 8192]);
    driver.ram.set(DATA + 8192, &[new; 8192]);
    let list = |at: u64| if blocks > 8 { at + 4096 } else { 0 };
    let command = |opcode, flags, at| Sqe { flags, ..Sqe::io(opcode, lba, blocks, at, list(at)) };
    [command(COMPARE, FIRST, DATA), command(WRITE, SECOND, DATA + 8192)]
}

/// The statuses of commands of queue 1, in their order.
fn carry_out(driver: &mut Driver, all: &[Sqe]) -> Vec<u16> {
    let cids: Vec<u16> = all.iter().map(|sqe| driver.put(1, *sqe)).collect();
    driver.ring(1);
    driver.serve();
    let ends = driver.reap(1);
    assert_eq!(ends.len(), all.len());
    let status = |cid: &u16| ends.iter().find(|end| end.cid == *cid).unwrap().status;
    cids.iter().map(status).collect()
}

#[test]
fn a_write_takes_place_if_the_blocks_are_equal() {
    let mut driver = driver();
    assert_eq!(driver.identify(1, 0).1[522], 1, "FUSES");
    let both = pair(&driver, 8, 8, 0, 7);
    assert_eq!(carry_out(&mut driver, &both), [0, 0]);
    assert_eq!(driver.disk[8 * 512..16 * 512], [7; 4096]);
    assert_eq!(carry_out(&mut driver, &both), [0x285, 0x009], "Compare Failure, and its write");
    let both = pair(&driver, 8, 8, 7, 9);
    let plain = Sqe::io(WRITE, 100, 1, DATA, 0);
    assert_eq!(carry_out(&mut driver, &[both[0], both[1], plain]), [0, 0, 0]);
    assert_eq!(driver.disk[8 * 512..16 * 512], [9; 4096]);
}

#[test]
fn what_is_no_pair_is_refused() {
    let mut driver = driver();
    let [compare, write] = pair(&driver, 8, 8, 0, 7);
    let plain = |sqe: Sqe| Sqe { flags: 0, ..sqe };
    let before = driver.disk.clone();
    for (all, expected, why) in [
        (vec![compare, plain(write)], vec![0x00a, 0], "no second"),
        (vec![write], vec![0x00a], "no first"),
        (vec![compare, compare, write], vec![0x00a, 0x285, 0x009], "two firsts"),
        (vec![compare, Sqe { cdw10: 9, ..write }], vec![0x002, 0x009], "other blocks"),
        (vec![compare, Sqe { nsid: 2, ..write }], vec![0x002, 0x009], "another namespace"),
        (vec![Sqe { opcode: 2, ..compare }, write], vec![0x002, 0x00a], "no comparison"),
        (vec![compare, Sqe { opcode: 8, ..write }], vec![0x009, 0x002], "no write"),
        (vec![Sqe { flags: 3, ..compare }], vec![0x002], "reserved"),
        (pair(&driver, 9, 8, 0, 7).to_vec(), vec![0x014, 0x009], "over a boundary"),
        (pair(&driver, 8, 16, 0, 7).to_vec(), vec![0x014, 0x009], "more than a unit"),
        (pair(&driver, BLOCKS, 1, 0, 7).to_vec(), vec![0x080, 0x009], "beyond the end"),
    ] {
        assert_eq!(carry_out(&mut driver, &all), expected, "{why}");
        if why == "no second" {
            // The write alone has taken place.
            assert_eq!(driver.disk[8 * 512..16 * 512], [7; 4096]);
            continue;
        }
        assert_eq!(driver.disk[16 * 512..], before[16 * 512..], "{why}");
    }
}

#[test]
fn nothing_comes_between() {
    let mut driver = driver();
    // A write of the same block is under way, and another one comes by another queue.
    driver.ram.set(DATA + 65536, &[5; 512]);
    driver.submit(1, Sqe::io(WRITE, 8, 1, DATA + 65536, 0));
    let early = driver.controller.pop_request().unwrap();
    let [compare, write] = pair(&driver, 8, 8, 0, 7);
    driver.put(1, compare);
    driver.put(1, write);
    driver.ring(1);
    driver.submit(2, Sqe { nsid: 2, ..Sqe::io(WRITE, 8, 1, DATA + 65536, 0) });
    driver.submit(2, Sqe::io(WRITE, 9, 1, DATA + 65536, 0));
    assert!(driver.controller.pop_request().is_none(), "the pair waits, and the others for it");
    let mut early = early;
    driver.perform(&mut early);
    driver.controller.complete(&driver.ram, early.tag, Status::Ok, early.data);
    let mut asked = driver.controller.pop_request().unwrap();
    assert_eq!(asked.command.operation, Operation::Read);
    assert!(driver.controller.pop_request().is_none(), "the comparison alone");
    driver.perform(&mut asked);
    driver.controller.complete(&driver.ram, asked.tag, Status::Ok, asked.data);
    driver.serve();
    let statuses: Vec<u16> = driver.reap(1).iter().map(|end| end.status).collect();
    assert_eq!(statuses, [0, 0x285, 0x009], "it sees the write before it");
    assert_eq!(driver.reap(2).len(), 2, "the others go on");
    assert_eq!(driver.disk[8 * 512..10 * 512], [5; 1024]);
}

#[test]
fn an_aborted_or_reset_pair_holds_up_nobody() {
    let mut driver = driver();
    let [compare, write] = pair(&driver, 8, 8, 0, 7);
    let cid = driver.put(1, compare);
    driver.put(1, write);
    driver.ring(1);
    let request = driver.controller.pop_request().unwrap();
    driver.submit(2, Sqe::io(WRITE, 9, 1, DATA, 0));
    assert!(driver.controller.pop_request().is_none());
    let abort = Sqe { opcode: 8, cdw10: u32::from(cid) << 16 | 1, ..Default::default() };
    assert_eq!(driver.admin(abort).result, 0);
    let statuses: Vec<u16> = driver.reap(1).iter().map(|end| end.status).collect();
    assert_eq!(statuses, [0x007, 0x009]);
    driver.serve();
    assert_eq!(driver.reap(2).len(), 1, "the other goes on");
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    assert!(driver.reap(1).is_empty());

    driver.put(1, compare);
    driver.put(1, write);
    driver.ring(1);
    assert!(driver.controller.pop_request().is_some());
    driver.disable();
    driver.enable();
    driver.create_pair(1, 16, 16, 1);
    assert_eq!(driver.io(Sqe::io(WRITE, 9, 1, DATA, 0)).status, 0);
}
