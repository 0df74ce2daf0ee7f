//! Completions that do not come as they should.

use crate::support::*;
use stasis_block::{Delivery, Status};
use stasis_nvme::Ended;

fn driver() -> Driver {
    let mut driver = Driver::new(config());
    driver.create_pair(1, 8, 8, 1);
    driver.create_pair(2, 8, 8, 2);
    driver.interrupts();
    driver
}

/// Submits a read to queue `queue`, which the drive has done, and the host learns of so.
fn read(driver: &mut Driver, queue: u16, delivery: Delivery) -> u16 {
    let cid = driver.submit(queue, Sqe::io(2, 0, 1, DATA, 0));
    while let Some(mut request) = driver.controller.pop_request() {
        driver.perform(&mut request);
        let ended = Ended { delivery, ..Ended::from(Status::Ok) };
        driver.controller.complete(&driver.ram, request.tag, ended, request.data);
    }
    cid
}

/// Completions of a queue, by their commands.
fn ended(driver: &mut Driver, queue: u16) -> Vec<u16> {
    driver.reap(queue).iter().map(|cqe| cqe.cid).collect()
}

#[test]
fn each_way_is_what_its_name_says() {
    let mut driver = driver();
    let cid = read(&mut driver, 1, Delivery::Once);
    assert_eq!((ended(&mut driver, 1), driver.interrupts()), (vec![cid], vec![1]));
    let cid = read(&mut driver, 1, Delivery::Twice);
    assert_eq!((ended(&mut driver, 1), driver.interrupts()), (vec![cid, cid], vec![1]));
    let cid = read(&mut driver, 1, Delivery::WithoutInterrupt);
    assert_eq!((ended(&mut driver, 1), driver.interrupts()), (vec![cid], vec![]));
    read(&mut driver, 1, Delivery::Never);
    assert_eq!((ended(&mut driver, 1), driver.interrupts()), (vec![], vec![]));
    assert_eq!(driver.controller.in_flight(), 0, "the drive has done it");
    let cid = read(&mut driver, 1, Delivery::Once);
    assert_eq!(ended(&mut driver, 1), [cid], "the next one is as ever");
}

#[test]
fn a_stopped_queue_stands_still_until_it_is_made_anew() {
    let mut driver = driver();
    let before = driver.submit(1, Sqe::io(2, 0, 1, DATA, 0));
    let pending = driver.controller.pop_request().unwrap();
    read(&mut driver, 1, Delivery::StopsQueue);
    driver.controller.complete(&driver.ram, pending.tag, Status::Ok, pending.data);
    assert!(ended(&mut driver, 1).is_empty(), "nor does {before} end");
    driver.submit(1, Sqe::io(2, 0, 1, DATA, 0));
    assert!(driver.controller.pop_request().is_none());
    let cid = read(&mut driver, 2, Delivery::Once);
    assert_eq!(ended(&mut driver, 2), [cid], "another queue goes on");
    driver.disable();
    driver.enable();
    driver.create_pair(1, 8, 8, 1);
    let cid = read(&mut driver, 1, Delivery::Once);
    assert_eq!(ended(&mut driver, 1), [cid]);
}

#[test]
fn a_controller_that_has_failed_needs_a_reset() {
    let mut driver = driver();
    read(&mut driver, 1, Delivery::FailsController);
    assert!(driver.controller.pcie().has_failed());
    assert_eq!(driver.read32(0x1c) & 2, 2, "CSTS.CFS");
    driver.submit(2, Sqe::io(2, 0, 1, DATA, 0));
    assert!(driver.controller.pop_request().is_none());
    driver.disable();
    driver.enable();
    driver.create_pair(1, 8, 8, 1);
    let cid = read(&mut driver, 1, Delivery::Once);
    assert_eq!(ended(&mut driver, 1), [cid]);
}
