//! A tenant that reads and has its writes written back, in one queue of `bfq`.

mod common;

use common::{Client, World, DISK};
use stasis_clock::{MILLISECOND, SECOND};
use stasis_scheduler::{Bfq, BfqSpec, QueueSpec};

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

/// It is idled for between its reads although writes wait and come between; the
/// writes have turns of their own, and so neither of the two starves.
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
