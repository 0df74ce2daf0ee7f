//! DFTL: for all commands, the map in flash and in the cache is the map; and the cost of a cache by
//! its size.

use proptest::prelude::*;
use stasis_block::{Completion, Operation};

use super::agree::{self, faulty, spec, torture};
use super::basics::small;
use super::load::{drain, on, run, shadowed};
use crate::spec::Precondition;
use crate::Spec;

const MIB: u64 = 1 << 20;

/// From a cache of one entry to one that holds the whole map of 512 units.
fn dftl(choices: u64) -> Spec {
    let line = 1 << ((choices >> 40) % 6);
    let lines = 1 + (choices >> 44) % 8;
    let mapping_cache = if choices >> 63 == 1 { 4096 } else { lines * 4 * u64::from(line) };
    let page = spec(choices);
    // A page's worth of room for the map's writes.
    let mapping_unit = if choices >> 62 & 1 == 1 { 512 } else { 4096 };
    let ftl = "dftl".to_owned();
    Spec {
        ftl,
        mapping_line: line,
        mapping_cache,
        mapping_unit,
        over_provisioning: Some(0.3),
        ..page
    }
}

proptest! {
    #![proptest_config(agree::cases(32))]

    #[test]
    fn the_map_agrees_with_data_and_cache(choices: u64, seed: u64) {
        let rack = torture(&dftl(choices), seed, 500, seed % 2 == 0);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
    }

    #[test]
    fn the_map_agrees_whatever_breaks(choices: u64, seed: u64, often in 1u32..30) {
        torture(&faulty(dftl(choices), f64::from(often) * 1e-3), seed, 500, seed % 2 == 0);
    }
}

fn drawn(units: u64) -> impl FnMut() -> u64 {
    let mut state = 1u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % units
    }
}

fn mixed(spec: &Spec) -> (Vec<Completion>, serde_json::Value) {
    let units = 16 * MIB / 4096;
    let mut ssd = shadowed(spec, 16 * MIB, 1);
    let mut draw = drawn(units);
    let done = run(&mut ssd, 0, 16, 4 * units, |n| {
        let operation = if n % 3 == 0 { Operation::Read } else { Operation::Write };
        on(operation, draw(), 1)
    });
    drain(&mut ssd);
    ssd.ftl().check();
    let report = ssd.ftl().report(ssd.context());
    (done, report)
}

#[test]
fn a_cache_as_large_as_the_map_is_page_mapping() {
    let blocks = Some(80);
    let page = Spec { blocks, ..small() };
    let dftl = Spec { ftl: "dftl".into(), mapping_cache: MIB, ..page.clone() };
    let (done, report) = mixed(&dftl);
    assert_eq!(report["mapping"]["reads"], 0);
    assert_eq!(report["mapping"]["programmed_units"], 0);
    assert_eq!(done, mixed(&page).0);
}

#[test]
fn a_smaller_cache_misses_more_and_takes_longer() {
    let with = |mapping_cache| {
        let dftl = Spec { ftl: "dftl".into(), blocks: Some(80), mapping_cache, ..small() };
        let (done, report) = mixed(&dftl);
        let count = |key: &str| report["mapping"][key].as_u64().unwrap();
        let lookups = count("hits") + count("misses");
        let ratio = count("misses") as f64 / lookups as f64;
        (ratio, count("programmed_units"), done.iter().map(|done| done.at).max().unwrap())
    };
    let sizes = [16 << 10, 8 << 10, 4 << 10, 1 << 10].map(with);
    for pair in sizes.windows(2) {
        assert!(
            pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1 && pair[0].2 < pair[1].2,
            "{sizes:?}"
        );
    }
    // Uniform: as much as is not there is missed.
    assert!((sizes[1].0 - 0.5).abs() < 0.05 && (sizes[3].0 - 0.9375).abs() < 0.05, "{sizes:?}");
}

#[test]
fn a_miss_is_a_read_before_the_read() {
    let spec = Spec {
        ftl: "dftl".into(),
        mapping_cache: 1 << 10,
        precondition: Some(Precondition::Sequential),
        ..small()
    };
    let mut ssd = crate::Ssd::new(&spec, 16 * MIB, 1).unwrap();
    let mut latency =
        |unit| super::load::alone(&mut ssd, (unit + 1) * MIB, &on(Operation::Read, unit, 1)).1;
    // Controller, cell and channel, twice and once.
    assert_eq!(latency(0), 1_000 + 2 * 60_240);
    assert_eq!(latency(1), 1_000 + 60_240);
    assert_eq!(latency(16), 1_000 + 2 * 60_240);
    // In order, one read in as many as a line has entries misses; two lines are
    // there.
    let done = run(&mut ssd, 100 * MIB, 1, 4096, |n| on(Operation::Read, n, 1));
    let missed = done.windows(2).filter(|pair| pair[1].at - pair[0].at > 100_000).count();
    assert_eq!(missed, 4096 / 16 - 2);
    let mut draw = drawn(4096);
    let done = run(&mut ssd, 10_000 * MIB, 1, 4096, |_| on(Operation::Read, draw(), 1));
    let missed = done.windows(2).filter(|pair| pair[1].at - pair[0].at > 100_000).count();
    assert!((3_600..4_000).contains(&missed), "{missed}");
}

#[test]
fn what_no_cache_can_be_is_refused() {
    for (spec, wanted) in [
        (
            Spec { mapping_line: 24, ..small() },
            "`mapping_line` = 24 cannot work: it is a power of two; the nearest that works is 32",
        ),
        (Spec { mapping_cache: 10, ..small() }, "nearest that works is 64B"),
    ] {
        let error = spec.check(16 * MIB).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
