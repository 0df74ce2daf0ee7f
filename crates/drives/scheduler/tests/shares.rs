//! `bfq` gives each queue its weight's share of the sectors.

use crate::common;
use crate::common::{Client, Serial, World, DISK, FLASH};
use proptest::prelude::*;
use stasis_block::clock::{MILLISECOND, SECOND};
use stasis_scheduler::{Bfq, BfqSpec, QueueSpec};

const WEIGHTS: [u32; 4] = [1, 2, 5, 10];

/// Shares hold but for about a budget (`tests/lag.rs`), so 2 % of the least of
/// them must be more than that: with 256 KiB, from 14 MB on, that is a drive
/// that moves 24 MB/s.
fn fine() -> BfqSpec {
    BfqSpec { max_budget: 256 << 10, ..BfqSpec::default() }
}

/// The largest deviation from the shares, as a part of each share.
fn deviation(spec: BfqSpec, drive: Serial, clients: Vec<Client>, weights: &[u32]) -> f64 {
    let mut world = World::new(Box::new(Bfq::new(spec)), drive, clients);
    world.run(10 * SECOND);
    let total: u64 = world.got.iter().map(|got| got.sectors).sum();
    let weight: u32 = weights.iter().sum();
    let off = |(got, weight_of): (&common::Got, &u32)| {
        let share = f64::from(*weight_of) / f64::from(weight);
        (got.sectors as f64 / total as f64 / share - 1.0).abs()
    };
    world.got.iter().zip(weights).map(off).fold(0.0, f64::max)
}

fn clients(sizes: [Vec<u64>; 4], depth: u32, random: bool) -> Vec<Client> {
    let client = |(weight, sizes): (u32, Vec<u64>)| {
        let spec = QueueSpec::weighted(weight * 10);
        Client { depth, sizes, random, ..Client::reader(spec) }
    };
    WEIGHTS.into_iter().zip(sizes).map(client).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any mix of request sizes, one request at a time or several, all else as
    /// it is by default.
    #[test]
    fn weights_are_shares_whatever_the_sizes(
        sizes in prop::array::uniform4(prop::collection::vec(1u64..=256, 1..4)),
        depth in 1u32..8,
    ) {
        let sizes = sizes.map(|sizes| sizes.iter().map(|size| size * 4096).collect());
        let off = deviation(fine(), FLASH, clients(sizes, depth, false), &WEIGHTS);
        prop_assert!(off <= 0.02, "{off}");
    }

    /// The same at random places, where a share of the sectors and not of the
    /// time is asked for.
    #[test]
    fn weights_are_shares_at_random_places(
        sizes in prop::array::uniform4(prop::collection::vec(1u64..=64, 1..4)),
        depth in 1u32..8,
    ) {
        let sizes = sizes.map(|sizes| sizes.iter().map(|size| size * 4096).collect());
        let spec = BfqSpec { charge_time: false, ..fine() };
        let off = deviation(spec, FLASH, clients(sizes, depth, true), &WEIGHTS);
        prop_assert!(off <= 0.02, "{off}");
    }
}

/// On a disk of 10 MB/s, ten seconds' least share is 5.5 MB: budgets of 64 KiB.
#[test]
fn weights_are_shares_on_a_slow_disk() {
    let spec = BfqSpec { max_budget: 64 << 10, ..BfqSpec::default() };
    let sizes = [vec![4096], vec![65_536], vec![16_384, 4096], vec![32_768]];
    let off = deviation(spec, Serial { seek: 0, ..DISK }, clients(sizes, 2, false), &WEIGHTS);
    assert!(off <= 0.02, "{off}");
}

/// A group's share is its weight's, independent of its queues' weights. Without the
/// heuristics, which raise a queue against those it stands beside.
#[test]
fn groups_share_and_their_queues_share_within() {
    let mut scheduler = Bfq::new(BfqSpec { low_latency: false, ..fine() });
    use stasis_scheduler::Scheduler as _;
    let groups = [scheduler.create_group(100), scheduler.create_group(300)];
    let within = |group, weight| QueueSpec { group: Some(group), ..QueueSpec::weighted(weight) };
    let specs = [
        within(groups[0], 100),
        within(groups[0], 200),
        within(groups[1], 50),
        within(groups[1], 50),
        within(groups[1], 100),
        QueueSpec::weighted(200),
    ];
    // Weights of 600: a group of 100 in three, one of 300 in four, and one of 200.
    let parts = [1.0 / 18.0, 2.0 / 18.0, 1.0 / 8.0, 1.0 / 8.0, 2.0 / 8.0, 1.0 / 3.0];
    let clients = specs.map(Client::reader).to_vec();
    let mut world = World::new(Box::new(scheduler), FLASH, clients);
    world.run(10 * SECOND);
    let total: u64 = world.got.iter().map(|got| got.sectors).sum();
    for (got, part) in world.got.iter().zip(parts) {
        let off = got.sectors as f64 / total as f64 / part - 1.0;
        assert!(off.abs() <= 0.02, "{off} of {part}");
    }
}

/// A queue whose owner thinks for a moment keeps its share because the drive
/// idles for it; without idling it has less.
#[test]
fn idling_keeps_the_share_of_one_that_waits() {
    let run = |idle| {
        let spec = BfqSpec { low_latency: false, idle, max_budget: 2 << 20, ..BfqSpec::default() };
        let thinks = Client { think: MILLISECOND / 10, ..Client::reader(QueueSpec::default()) };
        let greedy = Client { depth: 8, ..Client::reader(QueueSpec::default()) };
        let mut world = World::new(Box::new(Bfq::new(spec)), FLASH, vec![thinks, greedy]);
        world.run(10 * SECOND);
        world.got[0].sectors as f64 / (world.got[0].sectors + world.got[1].sectors) as f64
    };
    let (with, without) = (run(8 * MILLISECOND), run(0));
    assert!((with - 0.5).abs() < 0.01, "{with}");
    assert!(without < 0.3, "{without}");
}

/// Charging for time keeps the rate of a disk up where one seeks and one does
/// not; charging sectors brings it down to that of the one that seeks.
#[test]
fn a_queue_that_seeks_pays_for_its_time() {
    let run = |charge_time| {
        let spec = BfqSpec { low_latency: false, charge_time, ..BfqSpec::default() };
        let clients =
            vec![Client::random(QueueSpec::default()), Client::reader(QueueSpec::default())];
        let mut world = World::new(Box::new(Bfq::new(spec)), DISK, clients);
        world.run(20 * SECOND);
        world.got[1].sectors * 512 / 20
    };
    let (by_time, by_sectors) = (run(true), run(false));
    assert!(by_time > 4_000_000, "{by_time}");
    assert!(by_sectors < 1_000_000, "{by_sectors}");
}
