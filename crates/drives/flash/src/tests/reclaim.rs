//! Read reclaim: blocks that are read too often are moved, and what that costs.

use std::collections::BTreeMap;

use stasis_block::{splitmix, Operation};

use super::basics::small;
use super::load::{on, run};
use crate::ftl::Shape;
use crate::spec::Precondition;
use crate::{Spec, Ssd};

const CAPACITY: u64 = 8 << 20;
const MAX_READS: u32 = 500;

fn drive() -> Spec {
    Spec {
        read_reclaim: Some(MAX_READS),
        over_provisioning: None,
        buffer: 0,
        precondition: Some(Precondition::Sequential),
        ..small()
    }
}

/// Units at random.
fn place(index: u64) -> u64 {
    splitmix::mix(index.wrapping_mul(splitmix::GAMMA)) % (CAPACITY / 4096)
}

fn off(measured: u64, expected: f64) -> f64 {
    (measured as f64 - expected).abs() / expected
}

#[test]
fn a_block_of_one_hot_unit_moves_once_in_so_many_reads() {
    for limit in [100, MAX_READS] {
        let spec = Spec { read_reclaim: Some(limit), ..drive() };
        let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
        let reads = u64::from(limit) * 20 + u64::from(limit / 2);
        run(&mut ssd, 0, 1, reads, |_| on(Operation::Read, 7, 1));
        let inside = ssd.report(ssd.now_for_tests());
        let expected = (reads / u64::from(limit)) as f64;
        // While a block moves it is read on.
        assert!(off(inside.read_reclaims, expected) <= 0.05, "{limit}: {}", inside.read_reclaims);
        assert!(inside.collections.abs_diff(inside.read_reclaims) <= 1);
        ssd.ftl().check();
    }
}

/// Uniform reads of a full drive against the simplest reference: a counter for all units that lie in
/// one block, and so always move together.
#[test]
fn reclaims_are_those_of_a_counter_for_each_block() {
    let spec = drive();
    let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
    let shape = Shape::new(&spec, CAPACITY);
    let stripe = u64::from(shape.block_slots) * u64::from(shape.planes);
    let full = u64::from(shape.units) / stripe * stripe;
    let reads = full * 200;
    let unit = |index| place(index) % full;
    run(&mut ssd, 0, 4, reads, |index| on(Operation::Read, unit(index), 1));
    let inside = ssd.report(ssd.now_for_tests());
    // Pages go round the planes, block after block of each.
    let block_of = |unit: u64| {
        let page = unit / u64::from(shape.slots);
        let turn = page / u64::from(shape.planes);
        (page % u64::from(shape.planes), turn / u64::from(shape.geometry.pages))
    };
    let (mut counters, mut expected) = (BTreeMap::new(), 0u64);
    for index in 0..reads {
        let counter = counters.entry(block_of(unit(index))).or_insert(0);
        *counter += 1;
        if *counter == MAX_READS {
            (*counter, expected) = (0, expected + 1);
        }
    }
    assert!(expected > 100, "{expected} reclaims of {} blocks", counters.len());
    assert!(
        off(inside.read_reclaims, expected as f64) <= 0.02,
        "{} of {expected}",
        inside.read_reclaims
    );
    // Each moves a block that is all valid.
    let moved = inside.read_reclaims * u64::from(shape.block_slots);
    assert!(off(inside.moved_units, moved as f64) <= 0.02, "{} and {moved}", inside.moved_units);
    ssd.ftl().check();
}

#[test]
fn a_drive_without_it_and_one_of_few_reads_are_the_same() {
    let load = |spec: &Spec| {
        let mut ssd = Ssd::new(spec, CAPACITY, 1).unwrap();
        let done = run(&mut ssd, 0, 8, 3_000, |index| {
            let operation = if index % 3 == 0 { Operation::Write } else { Operation::Read };
            on(operation, place(index), 1)
        });
        (done, serde_json::to_string(&ssd.report(ssd.now_for_tests())).unwrap())
    };
    let without = Spec { read_reclaim: None, ..drive() };
    let (done, inside) = load(&without);
    // Not printed: there are thousands.
    let few = load(&Spec { read_reclaim: Some(1 << 31), ..drive() });
    assert!(few == (done.clone(), inside), "they differ");
    let many = load(&Spec { read_reclaim: Some(4), ..drive() });
    assert!(many.0 != done, "nothing is moved");
    let wrong = Spec { ftl: "zoned".into(), ..drive() };
    let error = wrong.check(CAPACITY).unwrap_err().to_string();
    assert!(error.contains("`read_reclaim` moves data"), "{error}");
}
