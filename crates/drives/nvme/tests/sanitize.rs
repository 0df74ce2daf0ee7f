//! The sanitize operation.

use crate::support::*;
use stasis_block::{Operation, Request, Status};
use stasis_nvme::{Config, Namespace, Ocssd, Zones};

const SANITIZE: u8 = 0x84;
const EXIT_FAILURE: u32 = 1;
const BLOCK_ERASE: u32 = 2;
const OVERWRITE: u32 = 3;
const CRYPTO_ERASE: u32 = 4;
const UNRESTRICTED: u32 = 1 << 3;
const INVERT: u32 = 1 << 8;
const NO_DEALLOCATE: u32 = 1 << 9;

const FAILED: u16 = 0x1c;
const IN_PROGRESS: u16 = 0x1d;

fn drive() -> Config {
    let second = Namespace { start: 4 << 20, ..Namespace::new(256, 4096) };
    Config { namespaces: vec![Namespace::new(8192, 512), second], ..config() }
}

fn sanitize(driver: &mut Driver, dword10: u32, pattern: u32) -> u16 {
    let sqe = Sqe { opcode: SANITIZE, cdw10: dword10, cdw11: pattern, ..Default::default() };
    driver.admin(sqe).status
}

/// The log: progress, the standing, passes, whether all is erased, and Dword 10.
fn log(driver: &mut Driver) -> (u16, u16, u16, bool, u32) {
    let page = driver.log(0x81, 512);
    let word = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    let status = word(2);
    let dword10 = u32::from_le_bytes(page[4..8].try_into().unwrap());
    (word(0), status & 7, status >> 3 & 31, status & 1 << 8 != 0, dword10)
}

fn next(driver: &mut Driver) -> Request {
    driver.controller.pop_request().expect("a piece")
}

fn end(driver: &mut Driver, mut request: Request, status: Status) {
    if status == Status::Ok {
        driver.perform(&mut request);
    }
    driver.controller.complete(&driver.ram, request.tag, status, request.data);
}

#[test]
fn each_action_leaves_nothing_of_any_namespace() {
    for (dword10, pattern, expected_word) in [
        (BLOCK_ERASE, 0, 0u32),
        (CRYPTO_ERASE, 0, 0),
        (OVERWRITE | 1 << 4, 0xdead_beef, 0xdead_beef),
        (OVERWRITE | 1 << 4 | NO_DEALLOCATE, 0xdead_beef, 0xdead_beef),
        (OVERWRITE | 2 << 4 | INVERT | NO_DEALLOCATE, 0x1234_5678, !0x1234_5678),
        (OVERWRITE | 3 << 4 | INVERT | NO_DEALLOCATE, 0x1234_5678, 0x1234_5678),
    ] {
        let mut driver = Driver::with_queues(drive(), 1, 8);
        driver.disk = vec![7; 6 << 20];
        assert_eq!(log(&mut driver), (0xffff, 0, 0, false, 0), "there was none");
        assert_eq!(sanitize(&mut driver, dword10, pattern), 0);
        assert_eq!(log(&mut driver).1, 2, "under way");
        driver.serve();
        let passes = if dword10 & 7 == OVERWRITE { dword10 as u16 >> 4 & 15 } else { 0 };
        assert_eq!(log(&mut driver), (0xffff, 1, passes, true, dword10));
        let mut words = driver.disk[..5 << 20].chunks_exact(4);
        assert!(words.all(|word| word == expected_word.to_le_bytes()), "{dword10:#x}");
        assert!(driver.disk[5 << 20..].iter().all(|&byte| byte == 7), "beyond the namespaces");
        // Blocks that were overwritten are deallocated, unless they are to stay.
        let discarded =
            driver.asked.iter().filter(|command| command.operation == Operation::Discard);
        let deallocates = dword10 & 7 == OVERWRITE && dword10 & NO_DEALLOCATE == 0;
        let expected = if deallocates { 5 << 20 } else { 0 };
        assert_eq!(discarded.map(|command| command.length).sum::<u64>(), expected);
        // A host writes: not all is erased any more.
        assert_eq!(driver.io(Sqe::io(1, 0, 1, DATA, 0)).status, 0);
        assert!(!log(&mut driver).3);
    }
}

#[test]
fn it_waits_for_commands_under_way_and_says_how_far_it_is() {
    let mut driver = Driver::with_queues(drive(), 1, 8);
    let write = driver.submit(1, Sqe::io(1, 0, 1, DATA, 0));
    let pending = next(&mut driver);
    assert_eq!(sanitize(&mut driver, OVERWRITE, 0), 0, "16 passes");
    assert!(driver.controller.pop_request().is_none(), "the write first");
    end(&mut driver, pending, Status::Ok);
    assert_eq!(driver.reap(1)[0].cid, write);
    assert_eq!(log(&mut driver).0, 0);
    // 5 MiB by 256 KiB, 16 times.
    for piece in 0..20 * 8 {
        let request = next(&mut driver);
        assert_eq!(request.command.operation, Operation::Write, "{piece}");
        end(&mut driver, request, Status::Ok);
        assert!(driver.controller.in_flight() == 1, "one at a time");
    }
    let (progress, standing, passes, ..) = log(&mut driver);
    assert_eq!((progress, standing, passes), (0x8000, 2, 8));
}

#[test]
fn what_would_see_or_change_data_is_refused_meanwhile() {
    let mut driver = Driver::with_queues(drive(), 1, 8);
    let mark = driver.io(Sqe::io(4, 9, 1, 0, 0));
    assert_eq!((mark.status, driver.io(Sqe::io(2, 9, 1, DATA, 0)).status), (0, 0x281));
    assert_eq!(sanitize(&mut driver, BLOCK_ERASE, 0), 0);
    let first = next(&mut driver);
    for opcode in [1, 2, 4, 5, 8, 9, 0x0c, 0x19] {
        driver.submit(1, Sqe::io(opcode, 0, 1, DATA, 0));
        assert_eq!(driver.reap(1)[0].status, IN_PROGRESS, "{opcode:#x}");
    }
    for opcode in 0..=0x84 {
        let sqe = Sqe { opcode, nsid: 1, prp1: SCRATCH, ..Default::default() };
        // Events wait, and the queues are needed.
        if matches!(opcode, 0x00 | 0x01 | 0x04 | 0x05 | 0x0c) {
            continue;
        }
        let refused = driver.admin(sqe).status == IN_PROGRESS;
        let allowed = matches!(opcode, 0x02 | 0x06 | 0x08 | 0x09 | 0x0a);
        assert_eq!(refused, !allowed, "{opcode:#x}");
    }
    // A reset does not end it.
    driver.disable();
    driver.enable();
    assert_eq!(log(&mut driver).1, 2);
    end(&mut driver, first, Status::Ok);
    driver.serve();
    assert_eq!(log(&mut driver).1, 1);
    driver.create_pair(1, 8, 8, 1);
    assert_eq!(driver.io(Sqe::io(2, 9, 1, DATA, 0)).status, 0, "the mark is gone");
}

#[test]
fn a_failure_is_left_as_its_command_allowed() {
    for dword10 in [BLOCK_ERASE, BLOCK_ERASE | UNRESTRICTED] {
        let mut driver = Driver::with_queues(drive(), 1, 8);
        assert_eq!(sanitize(&mut driver, EXIT_FAILURE, 0), 0, "there is none");
        assert_eq!(sanitize(&mut driver, dword10, 0), 0);
        let request = next(&mut driver);
        end(&mut driver, request, Status::WriteError);
        assert_eq!(log(&mut driver).1, 3);
        driver.submit(1, Sqe::io(2, 0, 1, DATA, 0));
        assert_eq!(driver.reap(1)[0].status, FAILED);
        if dword10 & UNRESTRICTED != 0 {
            assert_eq!(sanitize(&mut driver, EXIT_FAILURE, 0), 0);
        } else {
            assert_eq!(sanitize(&mut driver, EXIT_FAILURE, 0), FAILED);
            assert_eq!(sanitize(&mut driver, BLOCK_ERASE | UNRESTRICTED, 0), FAILED);
            assert_eq!(sanitize(&mut driver, BLOCK_ERASE, 0), 0);
            driver.serve();
            assert_eq!(log(&mut driver).1, 1);
        }
        assert_eq!(driver.io(Sqe::io(2, 0, 1, DATA, 0)).status, 0);
    }
}

#[test]
fn its_end_is_an_event_and_outlasts_the_power() {
    let mut driver = Driver::with_queues(drive(), 1, 8);
    let event = driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
    assert_eq!(sanitize(&mut driver, BLOCK_ERASE, 0), 0);
    let changes = driver.controller.state_changes();
    let state = driver.controller.kept_state();
    driver.serve();
    assert!(driver.controller.state_changes() > changes);
    let ended = driver.reap(0);
    assert_eq!((ended[0].cid, ended[0].result), (event, 0x81 << 16 | 1 << 8 | 6));
    // The power had failed while it was under way: it begins anew.
    let json = serde_json::to_string(&state).unwrap();
    let state = serde_json::from_str(&json).unwrap();
    driver.controller = Controller::with_state(drive(), &state).unwrap();
    driver.enable();
    assert_eq!(log(&mut driver).1, 2);
    driver.serve();
    assert_eq!(log(&mut driver).1, 1);
    let state = driver.controller.kept_state();
    driver.controller = Controller::with_state(drive(), &state).unwrap();
    driver.enable();
    assert_eq!(log(&mut driver), (0xffff, 1, 0, true, BLOCK_ERASE));
}

#[test]
fn zones_are_empty_afterwards_and_commands_that_cannot_be_are_refused() {
    let zoned = Namespace { zoned: Some(Zones::new(64 << 10)), ..Namespace::new(1024, 4096) };
    let mut driver = Driver::with_queues(Config { namespaces: vec![zoned], ..config() }, 1, 8);
    assert_eq!(driver.io(Sqe::io(1, 0, 1, DATA, 0)).status, 0);
    assert_eq!(driver.io(Sqe::io(1, 0, 1, DATA, 0)).status, 0x1bc, "not at the pointer");
    assert_eq!(sanitize(&mut driver, OVERWRITE | 1 << 4, 0), 0);
    driver.serve();
    assert_eq!(driver.io(Sqe::io(1, 0, 1, DATA, 0)).status, 0, "the pointer is back");
    for dword10 in [0, 5, 6, 7] {
        assert_eq!(sanitize(&mut driver, dword10, 0), 0x002, "{dword10}");
    }
    let read_only = Namespace { read_only: true, ..Namespace::new(1024, 512) };
    let mut driver = Driver::new(Config { namespaces: vec![read_only], ..config() });
    assert_eq!(sanitize(&mut driver, BLOCK_ERASE, 0), 0x020);
    let ocssd = Some(Ocssd::new(2, 4, 8, 64));
    let chunks = Namespace { ocssd, ..Namespace::new(2 * 4 * 8 * 64, 4096) };
    let mut driver = Driver::new(Config { namespaces: vec![chunks], ..config() });
    assert_eq!(sanitize(&mut driver, BLOCK_ERASE, 0), 0x001);
    assert_eq!(driver.identify(1, 0).1[328..332], [0; 4]);
}
