//! Format NVM: contents, block sizes, and other commands under way.

use crate::support::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Namespace};

const FORMAT: u8 = 0x80;
const READ: u8 = 2;

fn format(nsid: u32, cdw10: u32) -> Sqe {
    Sqe { opcode: FORMAT, nsid, cdw10, ..Default::default() }
}

fn two() -> Vec<Namespace> {
    vec![
        Namespace::new(BLOCKS, 512),
        Namespace { start: BLOCKS * 512, ..Namespace::new(1001, 512) },
    ]
}

/// Block size, and blocks.
fn geometry(driver: &mut Driver, nsid: u32) -> (u32, u64) {
    let id = driver.identify(0, nsid).1;
    let format = usize::from(id[26] & 0xf);
    (1 << id[128 + 4 * format + 2], u64::from_le_bytes(id[..8].try_into().unwrap()))
}

/// An admin command that the drive has to do something for.
fn admin(driver: &mut Driver, sqe: Sqe) -> u16 {
    driver.submit(0, sqe);
    driver.serve();
    driver.reap(0)[0].status
}

#[test]
fn a_format_changes_the_size_of_blocks() {
    let mut driver = Driver::with_queues(Config { namespaces: two(), ..config() }, 1, 8);
    let id = driver.identify(1, 0).1;
    assert_eq!((id[256] & 2, id[524]), (2, 4), "OACS and FNA");
    assert_eq!(driver.log(5, 4096)[0x80 * 4..0x80 * 4 + 3], [7, 0, 1], "effects");
    assert_eq!(driver.io(Sqe { nsid: 2, ..Sqe::io(4, 1000, 1, 0, 0) }).status, 0);
    assert_eq!(admin(&mut driver, format(2, 1)), 0);
    let asked: Vec<_> = driver.asked.iter().map(|c| (c.operation, c.offset, c.length)).collect();
    assert_eq!(asked, [(Operation::Discard, BLOCKS * 512, 1001 * 512)], "only the second");
    assert_eq!(geometry(&mut driver, 2), (4096, 125));
    assert_eq!(geometry(&mut driver, 1), (512, BLOCKS));
    let read = |lba, blocks| Sqe { nsid: 2, ..Sqe::io(READ, lba, blocks, DATA, DATA + PAGE) };
    for (sqe, status) in [(read(124, 1), 0), (read(123, 2), 0), (read(125, 1), 0x080)] {
        assert_eq!(driver.io(sqe).status, status);
    }
    assert_eq!(driver.asked.last().unwrap().offset, BLOCKS * 512 + 123 * 4096);
    // Back: no block is lost, nor is the last still uncorrectable.
    assert_eq!(admin(&mut driver, format(2, 0)), 0);
    assert_eq!(geometry(&mut driver, 2), (512, 1001));
    assert_eq!(driver.io(read(1000, 1)).status, 0);
    // It outlives a reset.
    assert_eq!(admin(&mut driver, format(u32::MAX, 1)), 0);
    driver.disable();
    driver.enable();
    assert_eq!(geometry(&mut driver, 1), (4096, BLOCKS / 8));
    assert_eq!(geometry(&mut driver, 2), (4096, 125));
}

#[test]
fn a_secure_erase_leaves_nothing_to_read() {
    for (discard_zeroes, erase, operation, deallocated) in [
        (true, 0, Operation::Discard, 1),
        (true, 1, Operation::Discard, 1),
        (true, 2, Operation::Discard, 1),
        (false, 0, Operation::Discard, 0),
        (false, 1, Operation::WriteZeroes, 0),
        (false, 2, Operation::WriteZeroes, 0),
    ] {
        let mut driver = Driver::new(Config { discard_zeroes, ..config() });
        assert_eq!(driver.identify(0, 1).1[33], deallocated);
        assert_eq!(admin(&mut driver, format(1, erase << 9)), 0);
        assert!(driver.asked.iter().all(|command| command.operation == operation));
        assert_eq!(driver.asked.iter().map(|command| command.length).sum::<u64>(), BLOCKS * 512);
    }
}

#[test]
fn a_large_namespace_is_erased_in_pieces() {
    let namespaces = vec![Namespace::new((5 << 30) / 4096 + 1, 4096)];
    let mut driver = Driver::new(Config { namespaces, ..config() });
    driver.submit(0, format(1, 0));
    let mut at = 0;
    while let Some(request) = driver.controller.pop_request() {
        assert!(driver.controller.pop_request().is_none(), "one after the other");
        assert_eq!(request.command.offset, at);
        assert!(request.command.length <= 1 << 30);
        at += request.command.length;
        assert!(driver.reap(0).is_empty());
        driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    }
    assert_eq!(at, (5 << 30) + 4096);
    assert_eq!(driver.reap(0)[0].status, 0);
}

#[test]
fn a_format_waits_for_io_and_io_does_not_wait() {
    let mut driver = Driver::with_queues(Config { namespaces: two(), ..config() }, 1, 8);
    driver.submit(1, Sqe::io(READ, 0, 1, DATA, 0));
    let stuck = driver.submit(1, Sqe::io(READ, 1, 1, DATA, 0));
    let of_two = driver.submit(1, Sqe { nsid: 2, ..Sqe::io(READ, 1, 1, DATA, 0) });
    let mut requests: Vec<_> = std::iter::from_fn(|| driver.controller.pop_request()).collect();
    driver.submit(0, format(1, 1));
    assert!(driver.controller.pop_request().is_none());
    // Meanwhile the namespace is hidden from others; another one is not.
    for (sqe, status) in [
        (Sqe::io(READ, 2, 1, DATA, 0), 0x084),
        (Sqe { opcode: 0, nsid: 1, ..Default::default() }, 0x084),
        (Sqe { opcode: 0, nsid: u32::MAX, ..Default::default() }, 0x084),
    ] {
        driver.submit(1, sqe);
        let completions = driver.reap(1);
        assert_eq!(
            (completions.len(), completions[0].status, completions[0].dnr),
            (1, status, false)
        );
    }
    assert_eq!(driver.admin(format(2, 0)).status, 0x084, "one at a time");
    let first = requests.remove(0);
    driver.controller.complete(&driver.ram, first.tag, Status::Ok, first.data);
    assert!(driver.controller.pop_request().is_none());
    // A command that never ends can be aborted, and is not waited for then.
    let abort = Sqe { opcode: 8, cdw10: u32::from(stuck) << 16 | 1, ..Default::default() };
    assert_eq!(driver.admin(abort).result, 0);
    let erase = driver.controller.pop_request().unwrap();
    assert_eq!((erase.command.operation, erase.queue), (Operation::Discard, 0));
    driver.controller.complete(&driver.ram, erase.tag, Status::Ok, erase.data);
    assert_eq!(driver.reap(0)[0].status, 0);
    assert_eq!(geometry(&mut driver, 1), (4096, BLOCKS / 8));
    for request in requests {
        driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    }
    assert!(driver.reap(1).iter().any(|cqe| cqe.cid == of_two && cqe.status == 0));
    assert_eq!(driver.controller.in_flight(), 0);
}

#[test]
fn a_format_that_fails_or_is_reset_leaves_the_blocks_as_they_were() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    driver.submit(0, format(1, 1));
    let erase = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, erase.tag, Status::WriteError, erase.data);
    assert_eq!(driver.reap(0)[0].status, 0x280);
    assert_eq!(driver.io(Sqe::io(READ, BLOCKS - 1, 1, DATA, 0)).status, 0);
    driver.submit(0, format(1, 1));
    let erase = driver.controller.pop_request().unwrap();
    driver.disable();
    driver.enable();
    driver.controller.complete(&driver.ram, erase.tag, Status::Ok, erase.data);
    assert!(driver.reap(0).is_empty());
    assert_eq!(geometry(&mut driver, 1), (512, BLOCKS));
    driver.create_pair(1, 8, 8, 1);
    assert_eq!(driver.io(Sqe::io(READ, BLOCKS - 1, 1, DATA, 0)).status, 0);
}

#[test]
fn formats_are_checked() {
    let mut namespaces = two();
    namespaces[1].read_only = true;
    namespaces.push(Namespace { start: 1 << 30, ..Namespace::new(7, 512) });
    let mut driver = Driver::new(Config { namespaces, ..config() });
    for (sqe, status) in [
        (format(0, 0), 0x00b),
        (format(4, 0), 0x002),
        (format(1, 3), 0x10a),
        (format(1, 15), 0x10a),
        (format(1, 1 << 5), 0x10a),
        (format(1, 3 << 9), 0x002),
        (format(1, 7 << 9), 0x002),
        (format(2, 0), 0x020),
        (format(u32::MAX, 0), 0x020),
        (format(3, 1), 0x10a),
    ] {
        assert_eq!(driver.admin(sqe).status, status, "{sqe:x?}");
    }
    assert!(driver.controller.pop_request().is_none(), "no data is touched");
}
