//! A drive below a scheduler.

use std::path::Path;
use std::time::Duration;

use crate::common::Latencies;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::{Drive, Layer, Scheduled};
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_scheduler::{QueueSpec, SchedulerSpec, KINDS};

const BLOCKS: u64 = 256;

fn drive() -> Box<dyn Layer> {
    let (execution, delay) = (Execution::Synchronous, Duration::ZERO);
    let options = OpenOptions { execution, delay, base: Path::new(".") };
    let medium = MediumSpec::Ram { size: BLOCKS * 4096 }.open(&options).unwrap();
    Box::new(Drive::new(3, "shared".into(), Latencies::new(1, 50_000), medium))
}

/// Everything that is submitted completes once, with its tenant, tag and data, whatever the
/// scheduler, and however late the caller asks.
#[test]
fn tenants_get_their_own_back() {
    for kind in KINDS.iter().map(|kind| kind.name) {
        for depth in [1, 4] {
            let run = |late: u64| {
                let spec = SchedulerSpec { depth, ..SchedulerSpec::parse(kind).unwrap() };
                let mut shared = Scheduled::new(&spec, drive());
                let second = shared.add_tenant(0, &QueueSpec::weighted(300));
                let tenants = [shared.first(), second];
                let (mut now, mut done, mut times) = (0, Vec::new(), Vec::new());
                for round in 0..200u32 {
                    for (number, tenant) in tenants.into_iter().enumerate() {
                        // The same tags in both: they are their owners'.
                        let block = u64::from(round * 37 + number as u32 * 128) % 128;
                        let place = (number as u64 * 128 + block) * 4096;
                        let fill = (round as u8) ^ (number as u8 * 0x80);
                        let write = Command::new(Operation::Write, place, 4096);
                        let (tag, queue) = (round, number as u16);
                        let data = vec![fill; 4096];
                        let request = Request { queue, ..Request::new(tag, write, data) };
                        shared.submit_from(now, tenant, request);
                    }
                    assert!(shared.in_flight() > 0);
                    while let Some(next) = shared.next_event() {
                        now = now.max(next) + late;
                        shared.advance_tenants(now, &mut done);
                    }
                    assert_eq!((done.len(), shared.in_flight()), (2, 0), "{kind}");
                    done.sort_by_key(|(tenant, _)| *tenant);
                    for ((tenant, done), expected) in done.drain(..).zip(tenants) {
                        assert_eq!((tenant, done.tag, done.status), (expected, round, Status::Ok));
                        assert!(done.at > done.submit);
                        times.push(done.at - done.submit);
                        let read = Command::new(Operation::Read, done.command.offset, 4096);
                        let (status, data) = shared.instant(read, vec![0; 4096]);
                        let fill = (round as u8) ^ (u8::from(tenant == second) * 0x80);
                        assert_eq!((status, data), (Status::Ok, vec![fill; 4096]));
                    }
                }
                let got = shared.tenant_statistics(now, second);
                assert_eq!((got.requests, got.sectors), (200, 1600));
                times
            };
            assert_eq!(run(0), run(7_000), "{kind}: times depend on who asks when");
        }
    }
}

/// The drive has no more at once than the depth, and its order is C-LOOK's.
#[test]
fn the_scheduler_decides_the_order() {
    let mut shared = Scheduled::new(&SchedulerSpec::parse("clook").unwrap(), drive());
    let places = [200, 7, 90, 3, 150];
    for (tag, place) in places.into_iter().enumerate() {
        let command = Command::new(Operation::Read, place * 4096, 4096);
        let request = Request { queue: 1, ..Request::new(tag as u32, command, vec![0; 4096]) };
        shared.submit(0, request);
    }
    let (mut done, mut order) = (Vec::new(), Vec::new());
    while let Some(next) = shared.next_event() {
        shared.advance(next, &mut done);
        assert!(done.len() <= 1, "one at a time");
        order.extend(done.drain(..).map(|done| done.command.offset / 4096));
    }
    // The first found the drive idle.
    assert_eq!(order, [200, 3, 7, 90, 150]);
}
