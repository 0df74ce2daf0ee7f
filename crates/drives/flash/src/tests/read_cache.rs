//! The read cache: what it holds, how fast that is, and that it never has what was written over.

use std::collections::VecDeque;

use proptest::prelude::*;
use stasis_block::inside::ReadCacheInside;
use stasis_block::{splitmix, Command, Model, Operation};
use stasis_nand::OpKind;

use super::agree;
use super::basics::small;
use super::load::{alone, drain, on, run};
use crate::spec::{CachedWrites, Precondition, Rate, ReadCacheSpec, Replacement};
use crate::{Spec, Ssd};

const CAPACITY: u64 = 16 << 20;
const UNITS: u64 = CAPACITY / 4096;

fn drive(cache: ReadCacheSpec) -> Spec {
    let precondition = Some(Precondition::Sequential);
    Spec { read_cache: Some(cache), precondition, ..small() }
}

fn draw(index: u64) -> u64 {
    splitmix::mix(index.wrapping_mul(splitmix::GAMMA))
}

fn inside(ssd: &Ssd) -> ReadCacheInside {
    ssd.report(ssd.now_for_tests()).read_cache.unwrap()
}

#[test]
fn uniform_reads_hit_as_often_as_the_cache_is_large() {
    for (replacement, share) in
        [(Replacement::Lru, 8), (Replacement::Fifo, 4), (Replacement::Random, 2)]
    {
        let cache = ReadCacheSpec { replacement, ..ReadCacheSpec::of(CAPACITY / share) };
        let mut ssd = Ssd::new(&drive(cache), CAPACITY, 1).unwrap();
        // Until it is full, then what is measured.
        run(&mut ssd, 0, 16, 8 * UNITS, |index| on(Operation::Read, draw(index) % UNITS, 1));
        let before = inside(&ssd);
        let (start, count) = (ssd.now_for_tests(), 40 * UNITS);
        run(&mut ssd, start, 16, count, |index| {
            on(Operation::Read, draw(index + (1 << 32)) % UNITS, 1)
        });
        let after = inside(&ssd);
        let served = |inside: ReadCacheInside| inside.hit_units + inside.waited_units;
        let rate = (served(after) - served(before)) as f64 / count as f64;
        let expected = 1.0 / share as f64;
        assert!((rate / expected - 1.0).abs() < 0.02, "{replacement:?}: {rate} for {expected}");
        assert_eq!(after.held, CAPACITY / share);
        // Each other read is one of the cells.
        let reads = ssd.context().statistics.ops(OpKind::Read);
        assert_eq!(reads, after.missed_units);
        assert_eq!(ssd.context().statistics.read_units, 8 * UNITS + count);
    }
}

proptest! {
    #![proptest_config(agree::cases(16))]

    /// Against a list of units, the least recent first, one command after the other.
    #[test]
    fn hits_are_those_of_the_simplest_cache(
        room in 1..200usize,
        updates: bool,
        lru: bool,
        seed: u64,
    ) {
        let replacement = if lru { Replacement::Lru } else { Replacement::Fifo };
        let writes = if updates { CachedWrites::Update } else { CachedWrites::Invalidate };
        let cache = ReadCacheSpec { replacement, writes, ..ReadCacheSpec::of(room as u64 * 4096) };
        let mut ssd = Ssd::new(&drive(cache), CAPACITY, 1).unwrap();
        let mut list: VecDeque<u64> = VecDeque::new();
        let (mut hits, mut misses) = (0, 0);
        let insert = |list: &mut VecDeque<u64>, unit| {
            list.push_back(unit);
            if list.len() > room {
                list.pop_front();
            }
        };
        for step in 0..600u64 {
            let bits = draw(seed.wrapping_add(step));
            let (unit, length) = (bits % 300, 1 + (bits >> 20) % 4);
            let units = unit..unit + length;
            let now = ssd.now_for_tests();
            match (bits >> 40) % 8 {
                0 | 1 => {
                    list.retain(|other| !units.contains(other));
                    alone(&mut ssd, now, &on(Operation::Write, unit, length));
                    if updates {
                        units.for_each(|unit| insert(&mut list, unit));
                    }
                }
                2 => {
                    list.retain(|other| !units.contains(other));
                    alone(&mut ssd, now, &on(Operation::Discard, unit, length));
                }
                3 => {
                    // A part: it is read if it is there, and not kept, and leaves when it is written.
                    let write = bits >> 50 & 1 == 1;
                    let operation = if write { Operation::Write } else { Operation::Read };
                    alone(&mut ssd, now, &Command::new(operation, unit * 4096 + 512, 1024));
                    let place = list.iter().position(|other| *other == unit);
                    if let (Some(place), true) = (place, write || lru) {
                        list.remove(place);
                    }
                    if !write {
                        (hits, misses) = (hits + u64::from(place.is_some()),
                            misses + u64::from(place.is_none()));
                        if place.is_some() && lru {
                            list.push_back(unit);
                        }
                    }
                }
                _ => {
                    alone(&mut ssd, now, &on(Operation::Read, unit, length));
                    for unit in units {
                        let place = list.iter().position(|other| *other == unit);
                        (hits, misses) = (hits + u64::from(place.is_some()),
                            misses + u64::from(place.is_none()));
                        match place {
                            Some(place) if lru => {
                                list.remove(place);
                                list.push_back(unit);
                            }
                            Some(_) => {}
                            None => insert(&mut list, unit),
                        }
                    }
                }
            }
            drain(&mut ssd);
            let inside = inside(&ssd);
            prop_assert_eq!((inside.hit_units, inside.missed_units), (hits, misses), "{}", step);
            prop_assert_eq!(inside.held, list.len() as u64 * 4096);
        }
        ssd.ftl().check();
    }

    /// Commands at once: a read that begins after a write has ended never finds what was before it.
    #[test]
    fn what_a_write_replaced_is_never_there_after_it(seed: u64, updates: bool, ahead: bool) {
        let writes = if updates { CachedWrites::Update } else { CachedWrites::Invalidate };
        let read_ahead = if ahead { 65_536 } else { 0 };
        let cache = ReadCacheSpec { writes, read_ahead, ..ReadCacheSpec::of(1 << 20) };
        let mut ssd = Ssd::new(&drive(cache), CAPACITY, 1).unwrap();
        let (units, mut start) = (24, 0);
        for turn in 0..40 {
            let step = |index: u64| {
                let bits = draw(seed.wrapping_add(turn * 1_000 + index));
                let operation = [Operation::Read, Operation::Write, Operation::Discard]
                    [[0, 0, 0, 0, 0, 1, 1, 2][(bits >> 30) as usize % 8]];
                on(operation, bits % units, 1 + (bits >> 10) % 3)
            };
            run(&mut ssd, start, 12, 30, step);
            drain(&mut ssd);
            start = ssd.now_for_tests();
            // All is still, so each unit is there or not, and a write takes it away, or brings it.
            let unit = turn % units;
            alone(&mut ssd, start, &on(Operation::Write, unit, 1));
            let before = inside(&ssd);
            let now = ssd.now_for_tests();
            alone(&mut ssd, now, &on(Operation::Read, unit, 1));
            let hit = inside(&ssd).hit_units - before.hit_units;
            prop_assert_eq!(hit, u64::from(updates), "turn {}", turn);
            drain(&mut ssd);
            start = ssd.now_for_tests();
        }
    }
}

/// A read that begins and ends while a write of its unit is under way: what it kept leaves as the
/// write ends.
#[test]
fn what_is_read_while_a_write_goes_on_leaves_with_its_end() {
    let mut ssd = Ssd::new(&drive(ReadCacheSpec::of(1 << 20)), CAPACITY, 1).unwrap();
    let mut done = Vec::new();
    ssd.submit(0, 1, &on(Operation::Write, 5, 1));
    ssd.submit(10_000, 2, &on(Operation::Read, 5, 1));
    ssd.advance(20_000, &mut done);
    assert_eq!((done.len(), done[0].tag), (1, 2), "the read has ended, and the write has not");
    assert_eq!(inside(&ssd).held, 4096);
    drain(&mut ssd);
    assert_eq!(inside(&ssd).held, 0);
}

#[test]
fn a_hit_takes_the_controller_and_the_memory() {
    let cache =
        ReadCacheSpec { rate: Some(Rate::per_second(4_096_000_000)), ..ReadCacheSpec::of(1 << 20) };
    let mut ssd = Ssd::new(&drive(cache), CAPACITY, 1).unwrap();
    assert_eq!(alone(&mut ssd, 0, &on(Operation::Read, 5, 2)).1, 1_000 + 50_000 + 10_240);
    let now = ssd.now_for_tests();
    assert_eq!(alone(&mut ssd, now, &on(Operation::Read, 5, 2)).1, 1_000 + 2_000);
    // A part of one that is there, and one that is not.
    let now = ssd.now_for_tests();
    let part = Command::new(Operation::Read, 6 * 4096 + 2048, 2048 + 4096);
    assert_eq!(alone(&mut ssd, now, &part).1, 1_000 + 50_000 + 10_240);
    // Sixteen at once: the memory sends one after the other.
    let start = ssd.now_for_tests();
    let done = run(&mut ssd, start, 16, 16, |_| on(Operation::Read, 5, 1));
    assert_eq!(done.last().unwrap().at - start, 1_000 + 16 * 1_000);
    let inside = ssd.report(start);
    assert_eq!(inside.latency["read"].count, 19);
    let parts = inside.latency["read"].parts;
    let sum: f64 = parts.named().iter().map(|(_, part)| part).sum();
    assert!((sum - inside.latency["read"].latency).abs() < 0.1, "{parts:?}");
    assert!(parts.other == 0.0, "{parts:?}");
}

#[test]
fn a_unit_on_its_way_is_read_once() {
    let mut ssd = Ssd::new(&drive(ReadCacheSpec::of(1 << 20)), CAPACITY, 1).unwrap();
    let done = run(&mut ssd, 0, 8, 8, |_| on(Operation::Read, 9, 1));
    assert!(done.iter().all(|done| done.at == 1_000 + 50_000 + 10_240));
    let inside = inside(&ssd);
    assert_eq!((inside.missed_units, inside.waited_units), (1, 7));
    assert_eq!(ssd.context().statistics.ops(OpKind::Read), 1);
}

#[test]
fn sequential_reads_wait_for_no_cells_where_enough_is_read_ahead() {
    let time = |read_ahead| {
        let cache = ReadCacheSpec { read_ahead, ..ReadCacheSpec::of(1 << 20) };
        let mut ssd = Ssd::new(&drive(cache), CAPACITY, 1).unwrap();
        let done = run(&mut ssd, 0, 1, 1_000, |unit| on(Operation::Read, unit, 1));
        let took = done.last().unwrap().at;
        drain(&mut ssd);
        let reads = ssd.context().statistics.ops(OpKind::Read);
        (took, reads, inside(&ssd), ssd.context().statistics.read_units)
    };
    let (alone, _, _, _) = time(0);
    assert_eq!(alone, 1_000 * (1_000 + 50_000 + 10_240));
    let (ahead, reads, inside, units) = time(256 << 10);
    // Four planes, each of which reads its cells while the channel has the page before.
    let expected = 1_000 * 50_000 / 4;
    assert!((ahead as f64 / expected as f64 - 1.0).abs() < 0.05, "{ahead} for {expected}");
    assert_eq!(units, 1_000);
    // Each page once, and at the end those that nobody came for.
    assert!((1_000..=1_064).contains(&reads), "{reads}");
    assert_eq!(inside.missed_units + inside.ahead_units, reads);
    assert_eq!(inside.missed_units, 2);
}

#[test]
fn writes_alone_and_verified_data_know_nothing_of_a_cache() {
    let load = |read_cache| {
        let mut ssd = Ssd::new(&Spec { read_cache, ..small() }, CAPACITY, 1).unwrap();
        run(&mut ssd, 0, 16, 3 * UNITS, |index| {
            let operation = [Operation::Write, Operation::Verify][index as usize % 2];
            on(operation, draw(index) % UNITS, 1)
        })
    };
    let cache = ReadCacheSpec { writes: CachedWrites::Update, ..ReadCacheSpec::of(1 << 20) };
    assert!(load(None) == load(Some(cache)), "they differ");
}

#[test]
fn a_cache_that_cannot_work_is_refused() {
    for (cache, says) in [
        (ReadCacheSpec::of(512), "`read_cache.size` = 512B"),
        (ReadCacheSpec::of(2 * CAPACITY), "the nearest that works is 16MiB"),
        (
            ReadCacheSpec { read_ahead: 1 << 20, ..ReadCacheSpec::of(1 << 20) },
            "`read_cache.read_ahead`",
        ),
    ] {
        let error = drive(cache).check(CAPACITY).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
