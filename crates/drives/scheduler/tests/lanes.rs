//! One queue of `bfq` with requests of different kinds: a tenant that reads and has
//! its writes written back, a guest with many processes.

use crate::common::{Client, Got, World, DISK};
use stasis_block::clock::{MILLISECOND, SECOND};
use stasis_block::{Command, Operation};
use stasis_scheduler::{Bfq, BfqSpec, QueueSpec, QueuedRequest, Scheduler as _};

/// A reader, the writes of its tenant if `writes`, and another tenant that reads.
fn run(writes: bool) -> World {
    let reader = Client { think: MILLISECOND, ..Client::reader(QueueSpec::default()) };
    let writer = Client {
        writes: true,
        depth: 8,
        through: Some(0),
        begin: if writes { 0 } else { 1000 * SECOND },
        ..Client::random(QueueSpec::default())
    };
    let other = Client { depth: 4, ..Client::reader(QueueSpec::default()) };
    let spec = BfqSpec { low_latency: false, ..BfqSpec::default() };
    let mut world = World::new(Box::new(Bfq::new(spec)), DISK, vec![reader, writer, other]);
    world.run(60 * SECOND);
    world
}

/// It is idled for between its reads although writes wait and come between; the writes have
/// separate turns, and so neither of the two starves.
#[test]
fn a_reader_is_waited_for_beside_its_own_writes() {
    let (alone, beside) = (run(false), run(true));
    let [read, _, other] = alone.got[..] else { panic!("three clients") };
    assert!(read.sectors * 10 > other.sectors * 8, "without writes: {:?}", alone.got);
    let [with, wrote, _] = beside.got[..] else { panic!("three clients") };
    // Turns alternate with those of the writes, no more.
    assert!(with.sectors * 10 > read.sectors * 4, "{:?} {:?}", alone.got, beside.got);
    assert!(wrote.requests > 500, "{:?}", beside.got);
    // Nobody waits for longer than for turns of each.
    assert!(with.longest < SECOND && wrote.longest < 2 * SECOND, "{:?}", beside.got);
}

/// Number of requests that go before one that is behind a stream, which comes ahead of it for ever:
/// a guest's reader and its other processes are one queue here.
fn overtaken(ordered: bool) -> u32 {
    let mut bfq = Bfq::new(BfqSpec::default());
    let queue = bfq.create(0, &QueueSpec { ordered, ..QueueSpec::default() });
    let add = |bfq: &mut Bfq, now, tag: u32, place| {
        let command = Command::new(Operation::Read, place, 131_072);
        bfq.add(now, queue, &QueuedRequest::new(tag, command)).unwrap();
    };
    let place = |tag: u32| (1 << 30) + u64::from(tag) * 131_072;
    (1..=2).for_each(|tag| add(&mut bfq, 0, tag, place(tag)));
    let mut now = 0;
    for sent in 0.. {
        let tag = bfq.dispatch(now).expect("requests wait");
        if sent == 1 {
            add(&mut bfq, now, 0, 0);
        }
        if tag == 0 || sent == 40 {
            return sent;
        }
        now += MILLISECOND;
        bfq.complete(now, tag);
        add(&mut bfq, now, tag + 2, place(tag + 2));
    }
    unreachable!()
}

#[test]
fn a_guests_stream_overtakes_nothing() {
    assert!(overtaken(true) <= 4, "{}", overtaken(true));
    assert_eq!(overtaken(false), 40, "in one sweep");
}

/// A guest in one queue: an application's reads, each 1 ms after the last, and two
/// streams with two requests each. Beside them a stream of another owner. Their service
/// in 20 s, help being asked for after 5 s in which the drive's rate becomes known.
fn guest(streams: bool, urgent: bool) -> Vec<Got> {
    let spec = QueueSpec { ordered: true, ..QueueSpec::default() };
    let app = Client { think: MILLISECOND, urgent, ..Client::random(spec) };
    let stream = Client { depth: 2, through: Some(0), ..Client::reader(spec) };
    let begin = if streams { 0 } else { 1000 * SECOND };
    let other = Client::reader(QueueSpec::default());
    let clients = vec![app, Client { begin, ..stream.clone() }, Client { begin, ..stream }, other];
    let spec = BfqSpec { low_latency: false, ..BfqSpec::default() };
    let mut world = World::new(Box::new(Bfq::new(spec)), DISK, clients);
    world.run(5 * SECOND);
    world.help(0, true);
    world.got.fill(Got::default());
    world.run(25 * SECOND);
    world.got
}

/// The guest's own streams hardly cost an urgent application anything, and do not
/// starve: they have a 31st of the time.
#[test]
fn what_a_guest_prefers_goes_before_its_others() {
    let (alone, beside) = (guest(false, true), guest(true, true));
    let plain = guest(true, false);
    assert!(beside[0].requests * 100 >= alone[0].requests * 95, "{beside:?} {alone:?}");
    assert!(plain[0].requests * 2 < alone[0].requests, "{plain:?} {alone:?}");
    // One of theirs costs 37 ms.
    let others = beside[1].requests + beside[2].requests;
    assert!((14..=24).contains(&others), "{beside:?}");
    assert!(beside[1].longest.max(beside[2].longest) < 5 * SECOND, "{beside:?}");
}

/// It is a matter between the guest's own requests: one that calls everything
/// urgent takes no more from others than it may.
#[test]
fn what_is_urgent_takes_nothing_from_others() {
    let others = |urgent| {
        let reader = Client { urgent, depth: 4, ..Client::reader(QueueSpec::default()) };
        let other = Client { depth: 4, ..Client::reader(QueueSpec::default()) };
        let spec = BfqSpec { low_latency: false, ..BfqSpec::default() };
        let mut world = World::new(Box::new(Bfq::new(spec)), DISK, vec![reader, other]);
        world.run(20 * SECOND);
        world.got[1].sectors
    };
    let (with, without) = (others(true), others(false));
    assert!(with.abs_diff(without) * 100 <= without, "{with} {without}");
}
