//! Cost of a guest's fsync of an append at the drive below ("Barrier enabled QEMU", 3.1.2: two
//! flushes of the guest, eight of the host).

use crate::common::*;
use stasis_block::clock::{EventQueue, Nanos};
use stasis_block::{Command, Completion, Model, Operation, Status, Tag};
use stasis_drive::{Drive, Layer};
use stasis_qcow2::{Counters, CreateOptions, Durability, Settings};

const FSYNCS: u64 = 100;
const CLUSTER: u64 = 64 << 10;

/// Appends 64 KiB and makes it durable as ext4 does: the data and the journal's
/// descriptor, a flush, the commit, a flush.
fn append(durability: Durability, commits: bool) -> Counters {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    stasis_qcow2::create(
        &path,
        &stasis_qcow2::CreateOptions { size: Some(64 << 20), ..Default::default() },
    )
    .unwrap();
    let mut driver = Driver::new(open(&path, 1, settings(durability)).unwrap());
    // The journal is there already.
    assert_eq!(driver.write(0, vec![1; CLUSTER as usize]), Status::Ok);
    assert_eq!(driver.flush(), Status::Ok);
    while driver.step() {}
    let before = driver.layer.counters();
    for fsync in 1..=FSYNCS {
        assert_eq!(driver.write(fsync * CLUSTER, vec![fsync as u8; CLUSTER as usize]), Status::Ok);
        assert_eq!(driver.write(0, vec![2; 4096]), Status::Ok);
        assert_eq!(driver.flush(), Status::Ok);
        if commits {
            assert_eq!(driver.write(4096, vec![3; 4096]), Status::Ok);
            assert_eq!(driver.flush(), Status::Ok);
        }
    }
    let after = driver.layer.counters();
    drop(driver);
    qemu_agrees(&path);
    Counters {
        guest_flushes: after.guest_flushes - before.guest_flushes,
        host_flushes: after.host_flushes - before.host_flushes,
        host_barriers: after.host_barriers - before.host_barriers,
        lag_flushes: after.lag_flushes - before.lag_flushes,
        ..after
    }
}

#[test]
fn an_appending_fsync_costs_as_few_flushes_as_published_or_fewer() {
    // The first flush orders refcounts before tables and ends with another;
    // the commit's has no tables to write.
    let flush = append(Durability::Flush, true);
    assert_eq!(flush.guest_flushes, 2 * FSYNCS);
    assert_eq!(flush.host_flushes, 3 * FSYNCS, "published: 8 for each");
    assert_eq!(flush.host_barriers, 0);

    let barrier = append(Durability::Barrier, true);
    assert_eq!(barrier.host_flushes, 2 * FSYNCS, "published: 2 for each");
    assert_eq!((barrier.lag_most_flushes, barrier.lag_longest), (0, 0), "nothing is owed");

    let ordered = append(Durability::Ordered, true);
    assert_eq!(ordered.host_flushes - ordered.lag_flushes, 0, "published: 0");
    assert!(ordered.host_barriers >= 2 * FSYNCS, "{ordered:?}");
    // The bound on the loss is itself enforced: once in half of the allowed time.
    assert!(ordered.lag_flushes <= FSYNCS / 50, "{ordered:?}");
}

#[test]
fn a_flush_after_one_append_is_counted_alone() {
    assert_eq!(append(Durability::Flush, false).host_flushes, 2 * FSYNCS);
    assert_eq!(append(Durability::Barrier, false).host_flushes, FSYNCS);
}

#[test]
fn an_order_ends_at_once_and_what_it_owes_is_bounded() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    let options = stasis_qcow2::CreateOptions { size: Some(64 << 20), ..Default::default() };
    stasis_qcow2::create(&path, &options).unwrap();
    // Flushes take 1 ms and more: a lag of 1 ms cannot be kept without waiting.
    let settings = Settings { max_lag: 1_000_000, ..settings(Durability::Ordered) };
    let mut driver = Driver::new(open(&path, 1, settings).unwrap());
    let mut shortest = u64::MAX;
    for index in 0..200 {
        assert_eq!(driver.write(index * 4096, vec![1; 4096]), Status::Ok);
        let start = driver.now;
        assert_eq!(driver.flush(), Status::Ok);
        shortest = shortest.min(driver.now - start);
    }
    let counters = driver.layer.counters();
    assert!(shortest < 1_000, "an order took {shortest} ns");
    assert!(counters.lag_waits > 0 && counters.lag_flushes > 0, "{counters:?}");
    // Maximum at risk: some of the flushes, each with its write.
    assert!((2..200).contains(&counters.lag_most_flushes), "{counters:?}");
    assert!(counters.lag_most_bytes >= 4096 * counters.lag_most_flushes, "{counters:?}");
    assert!((1..5_000_000).contains(&counters.lag_longest), "{counters:?}");
}

#[test]
fn what_asks_to_be_durable_is_flushed_whatever_the_way() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    let options = stasis_qcow2::CreateOptions { size: Some(1 << 20), ..Default::default() };
    stasis_qcow2::create(&path, &options).unwrap();
    let mut driver = Driver::new(open(&path, 1, settings(Durability::Ordered)).unwrap());
    let mut flushes = 0;
    let mut expect_one = |driver: &Driver<stasis_qcow2::Image>, more: u64| {
        flushes += more;
        assert_eq!(driver.layer.counters().host_flushes, flushes);
    };
    assert_eq!(driver.write(0, vec![1; 512]), Status::Ok);
    expect_one(&driver, 0);
    let mut write = stasis_block::Command::new(stasis_block::Operation::Write, 0, 512);
    write.fua = true;
    assert_eq!(driver.run(write, vec![2; 512]).status, Status::Ok);
    expect_one(&driver, 1);
    let mut urgent = stasis_block::Command::flush();
    urgent.priority = 1 << 13;
    assert_eq!(driver.run(urgent, vec![]).status, Status::Ok);
    expect_one(&driver, 1);
}

/// A flush of the image itself that is under way puts nothing in order yet: a write beside it may
/// be durable before the writes that it covers.
#[test]
fn an_order_beside_a_flush_under_way_is_one_of_its_own() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    let size = CreateOptions { size: Some(1 << 20), ..Default::default() };
    stasis_qcow2::create(&path, &size).unwrap();
    let (opening, medium) = open_files(&path, true, &options()).unwrap();
    let drive = Drive::new(0, "d".into(), Latencies::new(1), medium);
    let (tap, history) = history::tap(Box::new(drive));
    let mut driver =
        Driver::new(opening.open(Box::new(tap), settings(Durability::Ordered)).unwrap());
    assert_eq!(driver.write(0, vec![1; CLUSTER as usize]), Status::Ok);
    assert_eq!(driver.flush(), Status::Ok);
    while driver.layer.counters().lag_flushes == 0 {
        // In place, just before the flush that bounds the loss by a crash.
        assert_eq!(driver.write(0, vec![2; 512]), Status::Ok);
        let next = driver.layer.next_event();
        while driver.layer.next_event() == next && driver.step() {}
    }
    let before = history.lock().unwrap().events().len();
    assert_eq!(driver.flush(), Status::Ok);
    assert_eq!(driver.write(4096, vec![3; 512]), Status::Ok);
    let history = history.lock().unwrap();
    let events = &history.events()[before..];
    let written = events.iter().position(|event| event.command.operation == Operation::Write);
    let end = events[written.unwrap()].submit;
    let flush = history.events().iter().rfind(|event| event.command.operation == Operation::Flush);
    assert!(flush.unwrap().done.is_none_or(|(at, _)| at > end), "the flush is under way");
    let ordered = events[..written.unwrap()].iter();
    let barriers = ordered.filter(|event| event.command.operation == Operation::Barrier).count();
    assert_eq!(barriers, 1, "{:?}", events.iter().map(|e| e.command).collect::<Vec<_>>());
}

/// Everything takes 1 us; a barrier 2 ms.
#[derive(Default)]
struct SlowBarriers(EventQueue<Tag>);

impl Model for SlowBarriers {
    fn submit(&mut self, now: Nanos, tag: Tag, _: &Command) {
        self.0.push(now + 1_000, tag);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.next_at()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, tag)) = self.0.pop_due(now) {
            done.push(Completion::done(tag, at));
        }
    }

    fn barrier(&self) -> Option<Nanos> {
        Some(2_000_000)
    }
}

/// The second order has the turn at the tables, and ends no earlier than the lag allows; the durable
/// flush waits for the turn. Only a flush that bounds the lag meanwhile lets both end.
#[test]
fn a_durable_flush_behind_an_order_that_waits_for_the_lag_ends() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    let size = CreateOptions { size: Some(1 << 20), ..Default::default() };
    stasis_qcow2::create(&path, &size).unwrap();
    let (opening, medium) = open_files(&path, true, &options()).unwrap();
    let drive = Drive::new(0, "d".into(), Box::new(SlowBarriers::default()), medium);
    // Shorter than a barrier: when the second order ends, the first is too old.
    let settings = Settings { max_lag: 1_000_000, ..settings(Durability::Ordered) };
    let mut driver = Driver::new(opening.open(Box::new(drive), settings).unwrap());
    assert_eq!(driver.write(0, vec![1; 4096]), Status::Ok);
    assert_eq!(driver.flush(), Status::Ok);
    assert_eq!(driver.write(4096, vec![2; 4096]), Status::Ok);
    let order = driver.submit(Command::flush(), vec![]);
    let durable = driver.submit(Command { priority: 1 << 13, ..Command::flush() }, vec![]);
    assert_eq!(driver.layer.counters().lag_flushes, 0, "nothing bounds the lag yet");
    assert_eq!(driver.wait(order).status, Status::Ok);
    assert_eq!(driver.wait(durable).status, Status::Ok);
    assert_eq!(driver.layer.counters().lag_flushes, 1, "one flush bounds it");
}
