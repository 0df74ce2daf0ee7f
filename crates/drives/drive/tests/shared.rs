//! Disks and workloads on one shared drive.

use crate::history;
use std::path::Path;
use std::time::Duration;

use crate::common::Latencies;
use serde_json::Value;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::{Drive, Layer, LoadSpec, Region, SharedDrive, VirtualDisk};
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_scheduler::{LimitSpec, QueueSpec, SchedulerSpec, KINDS};
use stasis_workload::JobFile;

const PART: u64 = 64 * 4096;
const MILLISECOND: u64 = 1_000_000;

fn drive() -> Box<dyn Layer> {
    let (execution, delay) = (Execution::Synchronous, Duration::ZERO);
    let options = OpenOptions { execution, delay, base: Path::new(".") };
    let medium = MediumSpec::Ram { size: 4 * PART }.open(&options).unwrap();
    Box::new(Drive::new(3, "shared".into(), Latencies::new(1, 50_000), medium))
}

fn spec(kind: &str) -> SchedulerSpec {
    SchedulerSpec::parse(kind).unwrap()
}

fn load(jobs: &str, weight: u32) -> LoadSpec {
    LoadSpec {
        name: "load".into(),
        jobs: JobFile::parse(jobs, &|_| None).unwrap(),
        region: Region { offset: 2 * PART, length: 2 * PART },
        queue: QueueSpec::weighted(weight),
        group: None,
        seed: 1,
    }
}

const READERS: &str =
    "[r]\nrw=read\nbs=4k\nnumjobs=2\nsize=128k\noffset_increment=128k\ntime_based=1\nruntime=100d\n";

fn report(shared: &SharedDrive, now: u64) -> Value {
    serde_json::to_value(shared.report(now)).unwrap()
}

/// Reads and writes of one disk, one after the other, each at a multiple of
/// `step`, up to `end`.
fn work(disk: &mut VirtualDisk, end: u64, step: u64, late: u64) -> Vec<(u64, Status)> {
    let (mut now, mut tag, mut done, mut times) = (0, 0, Vec::new(), Vec::new());
    while now < end {
        let operation = if tag % 3 == 0 { Operation::Write } else { Operation::Read };
        let command = Command::new(operation, u64::from(tag * 7 % 64) * 4096, 4096);
        disk.submit(now, Request::new(tag, command, vec![tag as u8; 4096]));
        while done.is_empty() {
            now = now.max(disk.next_event().unwrap()) + late;
            disk.advance(now, &mut done);
        }
        for done in done.drain(..) {
            assert_eq!((done.tag, done.command, done.order), (tag, command, u64::from(tag)));
            times.push((done.at - done.submit, done.status));
        }
        now = now / step * step + step;
        tag += 1;
    }
    times
}

/// A disk keeps to its place, and sees its own offsets.
#[test]
fn a_disk_is_a_place_of_its_own() {
    let shared = SharedDrive::new(&spec("bfq"), drive());
    let region = |number: u64| Region { offset: number * PART, length: PART };
    let mut disks: Vec<VirtualDisk> = (0..2)
        .map(|number| {
            let name = format!("disk{number}");
            shared.disk(number as u16, name, region(number), &QueueSpec::default())
        })
        .collect();
    for (number, disk) in disks.iter_mut().enumerate() {
        assert_eq!((disk.properties().capacity, disk.properties().index), (PART, number as u16));
        let write = Command::new(Operation::Write, PART - 4096, 4096);
        assert_eq!(disk.instant(write, vec![number as u8 + 1; 4096]).0, Status::Ok);
        let past = Command::new(Operation::Read, PART - 2048, 4096);
        assert_eq!(disk.instant(past, vec![0; 4096]).0, Status::ReadError);
    }
    let mut all =
        shared.disk(9, "all".into(), Region { offset: 0, length: 2 * PART }, &QueueSpec::default());
    for number in 0..2u8 {
        let read = Command::new(Operation::Read, u64::from(number + 1) * PART - 4096, 4096);
        assert_eq!(all.instant(read, vec![0; 4096]), (Status::Ok, vec![number + 1; 4096]));
    }
}

/// A flush of a covering disk goes to the drive once earlier writes are there, whatever the
/// scheduler does with others; nothing later waits for it.
#[test]
fn a_covering_disks_flush_waits_for_what_was_written_before() {
    let mut alone = 0;
    for kind in KINDS.iter().map(|kind| kind.name) {
        let run = |covering: bool| {
            let (tap, history) = history::tap(drive());
            let spec = SchedulerSpec { depth: 2, ..spec(kind) };
            let shared = SharedDrive::new(&spec, Box::new(tap));
            let region = Region { offset: 0, length: 2 * PART };
            let mut disk = shared.disk(0, "disk".into(), region, &QueueSpec::default());
            if covering {
                disk = disk.covering();
            }
            shared.add_load(&load(READERS, 100)).unwrap();
            shared.start(0);
            let mut tag = 0;
            let mut submit = |disk: &mut VirtualDisk, command: Command| {
                let data = vec![1; if command.length > 0 { 4096 } else { 0 }];
                disk.submit(0, Request::new(tag, command, data));
                tag += 1;
            };
            let write = |place: u64| Command::new(Operation::Write, place * 4096, 4096);
            (0..16).for_each(|place| submit(&mut disk, write(place * 5 % 16)));
            submit(&mut disk, Command::flush());
            submit(&mut disk, write(50));
            submit(&mut disk, Command::flush());
            assert_eq!(disk.in_flight(), 19);
            let mut done = Vec::new();
            while disk.in_flight() > 0 {
                let next = disk.next_event().unwrap();
                disk.advance(next, &mut done);
            }
            assert!(done.iter().all(|done| done.status == Status::Ok));
            let mut tags: Vec<_> = done.iter().map(|done| done.tag).collect();
            tags.sort_unstable();
            assert_eq!(tags, (0..19).collect::<Vec<_>>(), "{kind}");

            let history = history.lock().unwrap();
            let events_of = |operation| {
                let events = history.events().iter();
                events.filter(move |event| event.command.operation == operation)
            };
            let flushes: Vec<_> = events_of(Operation::Flush).map(|flush| flush.submit).collect();
            let ended = |places: std::ops::Range<u64>| {
                let within = |offset: u64| places.contains(&(offset / 4096));
                let writes =
                    events_of(Operation::Write).filter(|event| within(event.command.offset));
                writes.filter_map(|event| Some(event.done?.0)).max().unwrap()
            };
            (ended(0..16) <= flushes[0], ended(0..51) <= flushes[1])
        };
        assert_eq!(run(true), (true, true), "{kind}");
        alone += usize::from(!run(false).0);
    }
    // Otherwise a flush goes when its turn comes, as the block layer's do.
    assert!(alone > 0, "no scheduler changes the order");
}

/// A caller that waits for an event longer than necessary changes nobody's times, and the service
/// of a workload is counted.
#[test]
fn workloads_go_on_beside_a_disk_whoever_looks_when() {
    for kind in KINDS.iter().map(|kind| kind.name) {
        let run = |late: u64| {
            let shared = SharedDrive::new(&spec(kind), drive());
            let region = Region { offset: 0, length: PART };
            let mut disk = shared.disk(0, "disk".into(), region, &QueueSpec::default());
            shared.add_load(&load(READERS, 100)).unwrap();
            assert_eq!(report(&shared, 0)["workloads"][0]["ios"], 0, "not before the start");
            shared.start(0);
            let times = work(&mut disk, 200 * MILLISECOND, MILLISECOND, late);
            assert!(times.iter().all(|(_, status)| *status == Status::Ok));
            let report = report(&shared, 200 * MILLISECOND);
            let load = &report["workloads"][0];
            assert!(load["ios"].as_u64() > Some(1000), "{kind}: {load}");
            assert_eq!(load["errors"], 0);
            assert_eq!(load["bytes"].as_u64(), load["ios"].as_u64().map(|ios| ios * 4096));
            assert_eq!(report["tenants"][0]["requests"].as_u64(), Some(times.len() as u64));
            times
        };
        assert_eq!(run(0), run(7_000), "{kind}: times depend on who looks when");
    }
}

/// A disk and a workload of two threads go no faster than their limits, and are not in each other's
/// way: the drive could do a hundred times as many.
#[test]
fn limits_bound_a_disk_and_a_workload_as_a_whole() {
    for kind in KINDS.iter().map(|kind| kind.name) {
        let limits = |iops| LimitSpec { iops: Some(iops), ..LimitSpec::default() };
        let queue = |iops| QueueSpec { limits: limits(iops), ..QueueSpec::default() };
        let shared = SharedDrive::new(&spec(kind), drive());
        let region = Region { offset: 0, length: PART };
        let mut disk = shared.disk(0, "disk".into(), region, &queue(500));
        shared.add_load(&LoadSpec { queue: queue(100), ..load(READERS, 100) }).unwrap();
        shared.start(0);
        let end = 2000 * MILLISECOND;
        let times = work(&mut disk, end, 1, 0);
        // These keep the drive for the reader that they expect to continue, which its limit holds.
        let idles = matches!(kind, "bfq" | "cfq");
        let least = if idles { 1 } else { 1000 };
        assert!((least..=1002).contains(&times.len()), "{kind}: {}", times.len());
        let report = report(&shared, end);
        let load = &report["workloads"][0];
        let ios = load["ios"].as_u64().unwrap();
        assert!((if idles { 1 } else { 199 }..=201).contains(&ios), "{kind}: {load}");
        if !idles {
            // One of its two threads always waits for the other's turn, 20 ms in all.
            assert!(load["limited_requests"].as_u64() >= Some(198), "{kind}: {load}");
            let waited = load["limited_seconds"].as_f64().unwrap();
            assert!((3.8..4.0).contains(&waited), "{kind}: {load}");
            assert!(report["tenants"][0]["limited_requests"].as_u64() >= Some(990), "{kind}");
        }
    }
}

/// Service, and waits for limits, are of the requests that are complete, whatever is under way when
/// somebody asks.
#[test]
fn service_and_waits_are_of_completed_requests() {
    for kind in KINDS.iter().map(|kind| kind.name) {
        let limits = LimitSpec { iops: Some(500), ..LimitSpec::default() };
        let queue = QueueSpec { limits, ..QueueSpec::default() };
        let shared = SharedDrive::new(&spec(kind), drive());
        let region = Region { offset: 0, length: PART };
        let mut disk = shared.disk(0, "disk".into(), region, &queue);
        shared.add_load(&LoadSpec { queue, ..load(READERS, 100) }).unwrap();
        shared.start(0);
        let (mut done, mut ios) = (Vec::new(), 0);
        for (tag, now) in (0..).zip((0..20 * MILLISECOND).step_by(5_000)) {
            if disk.in_flight() == 0 {
                let read = Command::new(Operation::Read, 0, 4096);
                disk.submit(now, Request::new(tag, read, vec![0; 4096]));
            }
            disk.advance(now, &mut done);
            let report = shared.report(now);
            let (tenant, load) = (&report.tenants[0], &report.workloads[0]);
            let count = done.len() as u64;
            assert_eq!((tenant.service.requests, tenant.service.bytes), (count, count * 4096));
            let waited = done.iter().filter(|done| done.layers.limited > 0).count() as u64;
            assert_eq!(tenant.limited.limited_requests, waited, "{kind} at {now}");
            let threads = load.threads.iter();
            let (requests, bytes) = threads.fold((0, 0), |(requests, bytes), thread| {
                (requests + thread.requests, bytes + thread.bytes)
            });
            assert_eq!((requests, bytes), (load.ios, load.bytes), "{kind} at {now}");
            // The first goes at once.
            let waited = load.limited.limited_requests;
            assert!(waited <= load.ios.saturating_sub(1), "{kind} at {now}: {waited}");
            ios = count + load.ios;
        }
        // These keep the drive for a reader that its limit holds.
        let least = if matches!(kind, "bfq" | "cfq") { 1 } else { 15 };
        assert!(ios >= least, "{kind}: {ios}");
    }
}

/// A disk's service, and its waits for its limit, are counted from when its owner's command begins: the
/// boot before has its requests as well.
#[test]
fn a_disk_is_counted_from_its_command_on() {
    let limits = LimitSpec { iops: Some(500), ..LimitSpec::default() };
    let queue = QueueSpec { limits, ..QueueSpec::default() };
    let shared = SharedDrive::new(&spec("none"), drive());
    let region = |number: u64| Region { offset: number * PART, length: PART };
    let mut disks: Vec<_> = ["early", "late"]
        .into_iter()
        .zip(0..)
        .map(|(name, number)| shared.disk(number, name.into(), region(number.into()), &queue))
        .collect();
    let boots = disks.iter_mut().zip([100, 200]);
    let boots = boots.map(|(disk, end)| work(disk, end * MILLISECOND, 1, 0).len());
    let boots: Vec<_> = boots.collect();
    let begun = 300 * MILLISECOND;
    disks[0].control().start(begun);
    shared.start(begun);
    let read = Command::new(Operation::Read, 0, 4096);
    for (tag, disk) in (200..).zip(&mut disks) {
        disk.submit(begun, Request::new(tag, read, vec![0; 4096]));
    }
    disks.iter_mut().for_each(|disk| disk.advance(2 * begun, &mut Vec::new()));
    let tenants = shared.report(2 * begun).tenants;
    let [early, late] = &tenants[..] else { panic!("{tenants:?}") };
    assert_eq!((early.service.requests, early.service.bytes), (1, 4096));
    assert!((1..50_000).contains(&early.service.at_drive_ns), "{early:?}");
    assert_eq!((early.limited.limited_requests, early.limited.limited_seconds), (0, 0.0));
    // Its command has not begun.
    assert_eq!(late.service.requests, boots[1] as u64 + 1);
    assert!(late.limited.limited_requests > 20 && late.limited.limited_seconds > 0.0, "{late:?}");
}

/// Help makes a disk's requests quick beside readers, and ends by itself.
#[test]
fn help_is_given_and_bounded() {
    let run = |readers: bool, help: bool| {
        let table = serde_json::json!({
            "kind": "bfq", "low_latency": false, "help_burst": "100ms", "help_share": 0.0,
            "idle": "1ms", "max_budget": "256KiB",
        });
        let serde_json::Value::Object(table) = table else { unreachable!() };
        let shared = SharedDrive::new(&SchedulerSpec::of_table(table).unwrap(), drive());
        let region = Region { offset: 0, length: PART };
        let mut disk = shared.disk(0, "disk".into(), region, &QueueSpec::default());
        if readers {
            shared.add_load(&load(READERS, 100)).unwrap();
        }
        shared.start(0);
        disk.tenant().help(0, help);
        disk.tenant().help(0, help);
        let times = work(&mut disk, 300 * MILLISECOND, 1000, 0);
        let report = report(&shared, 300 * MILLISECOND);
        let helped = report["tenants"][0]["helped_seconds"].as_f64().unwrap();
        let calls = report["tenants"][0]["help_calls"].as_u64().unwrap();
        (times.len(), helped, calls)
    };
    let (helped, plain, alone) = (run(true, true), run(true, false), run(false, false));
    assert_eq!((helped.2, plain.2), (1, 0));
    assert!((helped.1 - 0.1).abs() < 1e-3 && plain.1 == 0.0, "{helped:?}");
    // A third of the time at seven tenths of the drive or more (a read waits for a
    // reader's that is under way), then as without.
    let during = helped.0 - plain.0 * 2 / 3;
    let whole = alone.0 / 3;
    assert!(during * 10 >= whole * 7 && during <= whole, "{helped:?} {plain:?} {alone:?}");
    // Its third of the drive, and a little that the readers leave.
    assert!(plain.0 * 2 < alone.0, "the readers are in the way: {plain:?} {alone:?}");
}

/// The I/O priority that a command carries, as virtio-blk's header has it, is its
/// disk's at the scheduler: whose requests are real-time goes first, whose are
/// idle goes last.
#[test]
fn priorities_of_commands_order_those_who_share() {
    const REAL_TIME: u16 = 1 << 13;
    const IDLE: u16 = 3 << 13;
    for kind in ["bfq", "cfq", "deadline"] {
        // Number of each disk's 200 reads that are done when the first disk has completed all of
        // its reads.
        let run = |priorities: [u16; 2]| {
            let shared = SharedDrive::new(&spec(kind), drive());
            let mut disks: Vec<VirtualDisk> = (0..2u64)
                .map(|number| {
                    let region = Region { offset: number * PART, length: PART };
                    let name = format!("disk{number}");
                    shared.disk(number as u16, name, region, &QueueSpec::default())
                })
                .collect();
            let (mut now, mut asked, mut got) = (0, [0u32; 2], [0usize; 2]);
            while got[0] < 200 {
                for (number, disk) in disks.iter_mut().enumerate() {
                    while asked[number] < 200 && disk.in_flight() < 4 {
                        let place = u64::from(asked[number] * 7 % 64) * 4096;
                        let mut command = Command::new(Operation::Read, place, 4096);
                        command.priority = priorities[number];
                        let (tag, data) = (asked[number], vec![0; 4096]);
                        disk.submit(now, Request::new(tag, command, data));
                        asked[number] += 1;
                    }
                }
                now = disks.iter().filter_map(Layer::next_event).min().unwrap().max(now);
                for (number, disk) in disks.iter_mut().enumerate() {
                    let mut done = Vec::new();
                    disk.advance(now, &mut done);
                    got[number] += done.len();
                }
            }
            got[1]
        };
        let (first, last) = (run([REAL_TIME, 0]), run([IDLE, 0]));
        assert!(first < 20, "{kind}: {first} of the other's while real-time ones wait");
        assert_eq!(last, 200, "{kind}: idle ones go last");
        assert!(run([0, IDLE]) < 20, "{kind}");
    }
}

/// A workload that does not fit its place is refused.
#[test]
fn a_workload_that_does_not_fit_is_refused() {
    let shared = SharedDrive::new(&spec("none"), drive());
    let spec = load("[r]\nrw=read\nbs=1m\nsize=1m\noffset=1g\n", 100);
    assert!(shared.add_load(&spec).is_err());
}

/// A request that the guest's scheduler prefers goes before earlier ones, once.
#[test]
fn an_urgent_request_goes_first() {
    let order = |urgent: &[u32]| {
        let shared = SharedDrive::new(&spec("bfq"), drive());
        let region = Region { offset: PART, length: PART };
        let mut disk = shared.disk(0, "disk".into(), region, &QueueSpec::default());
        for tag in 0..4u32 {
            let command = Command::new(Operation::Read, u64::from(tag) << 16, 4096);
            let data = vec![0; 4096];
            let urgent = urgent.contains(&tag);
            disk.submit(0, Request { urgent, ..Request::new(tag, command, data) });
        }
        let (mut done, mut order) = (Vec::new(), Vec::new());
        while let Some(at) = disk.next_event() {
            disk.advance(at, &mut done);
            order.extend(done.drain(..).map(|done| done.tag));
        }
        (order, report(&shared, 1000 * MILLISECOND)["tenants"][0]["urgent_requests"].as_u64())
    };
    // The first has the drive already.
    assert_eq!(order(&[]), (vec![0, 1, 2, 3], Some(0)));
    assert_eq!(order(&[3]), (vec![0, 3, 1, 2], Some(1)));
}

/// Each tenant's tail is of its own requests, from the workloads' start on.
#[test]
fn every_tenant_has_its_tail_over_time() {
    let shared = SharedDrive::new(&spec("none"), drive());
    let region = Region { offset: 0, length: PART };
    let mut disk = shared.disk(0, "disk".into(), region, &QueueSpec::default());
    work(&mut disk, MILLISECOND, 1, 0);
    shared.add_load(&load(READERS, 100)).unwrap();
    // Disks come first in the report, whenever they were made.
    let other = shared.disk(1, "other".into(), region, &QueueSpec::default());
    shared.start(MILLISECOND);
    let start = MILLISECOND;
    let mut done = Vec::new();
    let (mut now, mut latencies) = (start, Vec::new());
    while now < start + 100 * MILLISECOND {
        disk.submit(now, Request::new(0, Command::new(Operation::Read, 0, 4096), vec![0; 4096]));
        while done.is_empty() {
            now = disk.next_event().unwrap();
            disk.advance(now, &mut done);
        }
        latencies.extend(done.drain(..).map(|done| done.at - done.submit));
    }
    let report = shared.report(now);
    assert_eq!((report.tails_from_ns, report.tails_step_ns), (start, 1 << 21));
    let [disk, idle, load] = &report.tails[..] else { panic!("{:?}", report.tails) };
    assert_eq!([&*disk.name, &*idle.name, &*load.name], ["disk", "other", "load"]);
    assert!(idle.p99_ns_each_step.iter().all(Option::is_none) && other.in_flight() == 0);
    assert_eq!(disk.requests_each_step.iter().sum::<u64>(), latencies.len() as u64);
    assert_eq!(load.requests_each_step.iter().sum::<u64>(), report.workloads[0].ios);
    let longest = disk.p99_ns_each_step.iter().flatten().max();
    assert!(longest <= latencies.iter().max(), "{longest:?}");
    assert!(*longest.unwrap() >= 50_000, "a read takes 50 us at least: {longest:?}");
}
