//! The device self-test.

use crate::support::*;
use stasis_block::{Health, Operation, Status};
use stasis_nvme::{Config, Ended, Namespace};

const SELF_TEST: u8 = 0x14;
const SHORT: u32 = 1;
const EXTENDED: u32 = 2;
const ABORT: u32 = 0xf;
const MIB: u64 = 1 << 20;

fn driver() -> Driver {
    let second = Namespace { start: 4 * MIB, ..Namespace::new(2048, 512) };
    let namespaces = vec![Namespace::new(8192, 512), second];
    Driver::with_queues(Config { namespaces, ..config() }, 1, 8)
}

fn test(driver: &mut Driver, nsid: u32, code: u32) -> u16 {
    driver.admin(Sqe { opcode: SELF_TEST, nsid, cdw10: code, ..Default::default() }).status
}

/// The log: what is under way and how far, and the last result.
fn log(driver: &mut Driver) -> (u8, u8, Vec<u8>) {
    let page = driver.log(6, 564);
    (page[0], page[1], page[4..32].to_vec())
}

fn end(driver: &mut Driver, ended: Ended) -> (u64, u64) {
    let request = driver.controller.pop_request().unwrap();
    assert_eq!(request.command.operation, Operation::Verify);
    driver.controller.complete(&driver.ram, request.tag, ended, request.data);
    (request.command.offset, request.command.length)
}

#[test]
fn a_test_verifies_blocks_and_says_how_far_it_is() {
    let mut driver = driver();
    let id = driver.identify(1, 0).1;
    assert_eq!((id[256] & 1 << 4, id[318]), (1 << 4, 1), "OACS, DSTO");
    assert_eq!(log(&mut driver).2[0], 0xf, "no result");
    assert_eq!(test(&mut driver, u32::MAX, SHORT), 0);
    assert_eq!(log(&mut driver).0, 1);
    assert_eq!(test(&mut driver, 1, EXTENDED), 0x11d, "in progress");
    let ok = Ended::from(Status::Ok);
    assert_eq!(end(&mut driver, ok), (0, MIB));
    assert_eq!(log(&mut driver).1, 33, "percent");
    // Hosts' commands go on beside it.
    let write = driver.submit(1, Sqe::io(1, 0, 1, DATA, 0));
    assert_eq!(end(&mut driver, ok), (3 * MIB, MIB), "the last of the first namespace");
    let mut request = driver.controller.pop_request().unwrap();
    driver.perform(&mut request);
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    assert_eq!(driver.reap(1)[0].cid, write);
    assert_eq!(end(&mut driver, ok), (4 * MIB, MIB), "the second namespace");
    let (now, _, result) = log(&mut driver);
    assert_eq!((now, result[0]), (0, 0x10), "a short one, well");
    assert_eq!(test(&mut driver, 1, EXTENDED), 0);
    assert_eq!(end(&mut driver, ok), (0, 4 * MIB));
    assert_eq!(log(&mut driver).2[0], 0x20);
    assert_eq!(test(&mut driver, 0, SHORT), 0, "of the controller only");
    assert_eq!(log(&mut driver).2[0], 0x10);
    assert_eq!(driver.log(6, 564)[4 + 28], 0x20, "the one before");
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut driver = driver();
    assert_eq!(test(&mut driver, 2, EXTENDED), 0);
    end(&mut driver, Ended { failed_at: 5 * 512, ..Ended::from(Status::ReadError) });
    let (_, _, result) = log(&mut driver);
    assert_eq!(result[..3], [0x27, 7, 0xf], "the media check failed");
    assert_eq!((result[12], result[16], result[24], result[25]), (2, 5, 2, 0x81));
    // Write Uncorrectable.
    assert_eq!(driver.io(Sqe { nsid: 2, ..Sqe::io(4, 77, 1, 0, 0) }).status, 0);
    assert_eq!(test(&mut driver, 2, SHORT), 0);
    let (_, _, result) = log(&mut driver);
    assert_eq!((result[0], result[12], result[16]), (0x17, 2, 77));
    let health = Health { read_only: true, ..Health::default() };
    driver.controller.set_health(&driver.ram, health);
    assert_eq!(test(&mut driver, 0, SHORT), 0);
    assert_eq!(log(&mut driver).2[..3], [0x17, 2, 0], "the SMART check failed");
}

#[test]
fn tests_end_by_commands_and_resets() {
    let mut driver = driver();
    let format = Sqe { opcode: 0x80, nsid: 1, ..Default::default() };
    assert_eq!(test(&mut driver, 1, ABORT), 0, "there is none");
    for (code, result) in [(SHORT, 0x11), (EXTENDED, 0x21)] {
        assert_eq!(test(&mut driver, 1, code), 0);
        assert_eq!(test(&mut driver, 1, ABORT), 0);
        assert_eq!(log(&mut driver).2[0], result);
        // The piece that was under way belongs to nobody.
        end(&mut driver, Ended::from(Status::ReadError));
        assert_eq!(log(&mut driver).2[0], result);
    }
    assert_eq!(test(&mut driver, 1, EXTENDED), 0);
    driver.submit(0, format);
    driver.serve();
    assert_eq!(driver.reap(0)[0].status, 0);
    assert_eq!(log(&mut driver).2[0], 0x24, "by a format");
    for (code, now, result) in [(SHORT, 0, 0x12), (EXTENDED, 2, 0x12)] {
        assert_eq!(test(&mut driver, 1, code), 0);
        driver.disable();
        driver.enable();
        let (running, _, last) = log(&mut driver);
        assert_eq!((running, last[0]), (now, result), "an extended one goes on");
    }
    driver.serve();
    assert_eq!(log(&mut driver).2[0], 0x20);
    for (nsid, code, status) in [(1, 3, 0x002), (3, SHORT, 0x002), (129, SHORT, 0x00b)] {
        assert_eq!(test(&mut driver, nsid, code), status);
    }
}
