//! A carrier that keeps the drive's state holds completions until that is done.

use crate::support::*;
use stasis_block::Status;
use stasis_nvme::{Config, Namespace, Zones};

const WRITE: u8 = 1;
const SEND: u8 = 0x79;
const RESET: u32 = 4;
const BLOCK: u64 = 4096;
/// Blocks of a zone.
const ZONE: u64 = 16;

fn driver(cq_size: u16) -> Driver {
    let zoned = Some(Zones::new(ZONE * BLOCK));
    let namespace = Namespace { zoned, ..Namespace::new(8 * ZONE, BLOCK as u32) };
    let mut driver = Driver::cold(Config { namespaces: vec![namespace], ..config() });
    driver.enable();
    driver.create_pair(1, 64, cq_size, 1);
    driver.interrupts();
    driver.controller.pcie().hold_completions();
    driver
}

fn send(zone: u64, action: u32) -> Sqe {
    Sqe { cdw13: action, ..Sqe::io(SEND, zone * ZONE, 1, 0, 0) }
}

#[test]
fn a_completion_waits_for_the_state_that_it_depends_on() {
    let mut driver = driver(64);
    let before = driver.controller.state_changes();
    driver.submit(1, Sqe::io(WRITE, 0, 1, DATA, 0));
    assert_ne!(driver.controller.state_changes(), before, "the pointer moves at once");
    assert!(!driver.controller.pcie().is_holding(), "nothing has ended");
    let mut request = driver.controller.pop_request().unwrap();
    driver.perform(&mut request);
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    assert!(driver.controller.pcie().is_holding());
    assert_eq!(driver.next(1), None, "the host sees nothing");
    assert!(driver.interrupts().is_empty(), "and hears nothing");
    driver.controller.pcie().release(&driver.ram);
    assert!(!driver.controller.pcie().is_holding());
    assert_eq!(driver.reap(1).len(), 1);
    assert_eq!(driver.interrupts(), [1]);
}

#[test]
fn commands_that_wait_for_a_held_completion_go_on_after_it() {
    let mut driver = driver(64);
    for zone in 0..5 {
        driver.put(1, Sqe::io(WRITE, zone * ZONE, 1, DATA, 0));
    }
    for zone in 0..5 {
        driver.put(1, send(zone, RESET));
    }
    driver.ring(1);
    let mut done = Vec::new();
    for _ in 0..20 {
        driver.serve();
        let state = driver.controller.kept_state();
        assert_eq!(driver.next(1), None);
        driver.controller.pcie().release(&driver.ram);
        let completions = driver.reap(1);
        assert!(completions.iter().all(|cqe| cqe.status == 0));
        done.extend(completions);
        if done.len() < 5 {
            assert!(!state.namespaces[0].zones.is_empty(), "no zone is reset before it is kept");
        }
    }
    assert_eq!(done.len(), 10);
    assert!(driver.controller.kept_state().namespaces[0].zones.is_empty());
}

#[test]
fn a_full_queue_is_not_waited_for() {
    let mut driver = driver(2);
    for zone in 0..4 {
        driver.put(1, Sqe::io(WRITE, zone * ZONE, 1, DATA, 0));
    }
    driver.ring(1);
    driver.serve();
    assert!(driver.controller.pcie().is_holding());
    driver.controller.pcie().release(&driver.ram);
    assert!(!driver.controller.pcie().is_holding(), "there is no room");
    let mut completions = driver.reap(1).len();
    while driver.controller.pcie().is_holding() {
        driver.controller.pcie().release(&driver.ram);
        driver.serve();
        completions += driver.reap(1).len();
    }
    assert_eq!(completions, 4);
}

#[test]
fn events_and_admin_commands_are_held_too() {
    let mut driver = driver(64);
    let cid = driver.submit(0, Sqe { opcode: 6, prp1: SCRATCH, cdw10: 1, ..Default::default() });
    assert!(driver.controller.pcie().is_holding());
    assert_eq!(driver.next(0), None);
    // A reset drops what is held.
    driver.disable();
    assert!(!driver.controller.pcie().is_holding());
    driver.enable();
    assert_eq!(driver.next(0), None, "{cid}");
}
