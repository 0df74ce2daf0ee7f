//! Log blocks: whatever is asked and whatever breaks, mapping and data agree;
//! and which writes merge how.

use proptest::prelude::*;
use stasis_block::{Command, Fate, Model, Operation};
use stasis_nand::OpKind;

use super::agree::{self, faulty, spec, torture, CAPACITY};
use super::basics::small;
use super::load::{alone, drain, on, run, shadowed};
use crate::spec::{FaultKind, FaultSpec, Precondition};
use crate::{Spec, Ssd};

const MIB: u64 = 1 << 20;

fn hybrid(log_blocks: u32) -> Spec {
    Spec { ftl: "hybrid".into(), log_blocks, ..small() }
}

/// One log block to several, copyback and not, with and without spare blocks.
fn any(choices: u64) -> Spec {
    let page = spec(choices);
    let log_blocks = 1 + ((choices >> 40) % 4) as u32;
    let more = [0.0, 0.3][((choices >> 48) & 1) as usize];
    let mapping_unit = page.page_size;
    let ftl = "hybrid".to_owned();
    Spec { ftl, log_blocks, mapping_unit, over_provisioning: Some(more), scrub: None, ..page }
}

proptest! {
    #![proptest_config(agree::cases(32))]

    #[test]
    fn mapping_and_data_agree(choices: u64, seed: u64) {
        let rack = torture(&any(choices), seed, 500, false);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
    }

    #[test]
    fn mapping_and_data_agree_whenever_the_power_fails(choices: u64, seed: u64) {
        let rack = torture(&any(choices), seed, 500, true);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
    }

    #[test]
    fn mapping_and_data_agree_whatever_breaks(choices: u64, seed: u64, often in 1u32..30) {
        torture(&faulty(any(choices), f64::from(often) * 1e-3), seed, 500, seed % 2 == 0);
    }
}

fn merges(ssd: &Ssd) -> [u64; 3] {
    let report = ssd.report(0).ftl;
    ["switch", "partial", "full"].map(|kind| report["merges"][kind].as_u64().unwrap())
}

fn drawn(units: u64) -> impl FnMut() -> u64 {
    let mut place = 0;
    move || {
        place += 1;
        stasis_nand::hash::bits(7, place) % units
    }
}

#[test]
fn sequential_writes_switch_and_move_nothing() {
    let units = 16 * MIB / 4096;
    let mut ssd = shadowed(&hybrid(4), 16 * MIB, 1);
    let done = run(&mut ssd, 0, 16, 3 * units, |n| on(Operation::Write, n % units, 1));
    assert!(done.iter().all(|completion| completion.fate == Fate::Done));
    drain(&mut ssd);
    ssd.ftl().check();
    // Sixteen pages of a block.
    assert_eq!(merges(&ssd), [3 * units / 16, 0, 0]);
    let statistics = &ssd.context().statistics;
    assert!((ssd.context().write_amplification() - 1.0).abs() < 1e-9);
    assert_eq!(statistics.ops(OpKind::Program), 3 * units);
    assert_eq!(statistics.ops(OpKind::Erase), 2 * units / 16);
}

#[test]
fn a_block_begun_in_order_is_merged_partially_and_any_other_fully() {
    // One log block on each of four planes; blocks 0 and 4 are of one plane.
    let mut ssd = shadowed(&hybrid(1), 16 * MIB, 1);
    run(&mut ssd, 0, 1, 128, |n| on(Operation::Write, n, 1));
    let filled = merges(&ssd);
    assert_eq!(filled, [8, 0, 0]);
    let mut at = 1 << 40;
    let mut write = |ssd: &mut Ssd, unit, units| {
        at += 1 << 30;
        alone(ssd, at, &on(Operation::Write, unit, units));
        drain(ssd);
    };
    write(&mut ssd, 0, 5);
    write(&mut ssd, 64, 1);
    assert_eq!(merges(&ssd), [8, 1, 0]);
    // The eleven that the log block did not have.
    assert_eq!(ssd.context().statistics.moved_units, 11);
    write(&mut ssd, 66, 1);
    write(&mut ssd, 3, 1);
    assert_eq!(merges(&ssd), [8, 1, 1]);
    assert_eq!(ssd.context().statistics.moved_units, 11 + 16);
    ssd.ftl().check();
}

#[test]
fn random_writes_cost_much_more_than_with_page_mapping() {
    let units = 16 * MIB / 4096;
    let amplification = |spec: &Spec| {
        let mut ssd = shadowed(&Spec { blocks: Some(84), ..spec.clone() }, 16 * MIB, 1);
        run(&mut ssd, 0, 16, units, |n| on(Operation::Write, n, 1));
        let mut draw = drawn(units);
        run(&mut ssd, 1 << 50, 16, 2 * units, |_| on(Operation::Write, draw(), 1));
        drain(&mut ssd);
        ssd.ftl().check();
        ssd.context().write_amplification()
    };
    let (page, few) = (amplification(&small()), amplification(&hybrid(2)));
    let more = amplification(&hybrid(16));
    // Two log blocks for 64 logical blocks: nearly each write merges a block of
    // sixteen pages; one of the three rounds was in order.
    assert!(few > 3.0 * page && few > 8.0, "{few} {page}");
    assert!(more < few && more > page, "{more} {few} {page}");
}

#[test]
fn a_failed_program_costs_a_block_and_no_data() {
    for copyback in [false, true] {
        let rate = 0.01;
        let fault = FaultSpec { count: Some(3), rate, ..FaultSpec::new(FaultKind::FailedProgram) };
        let mut spec = Spec { faults: vec![fault], ..hybrid(2) };
        spec.gc.copyback = Some(copyback);
        let mut ssd = shadowed(&spec, 16 * MIB, 1);
        let done = run(&mut ssd, 0, 8, 4096, |n| on(Operation::Write, n * 7 % 4096, 1));
        assert!(done.iter().all(|completion| completion.fate == Fate::Done));
        drain(&mut ssd);
        let report = ssd.report(0);
        assert_eq!(report.ftl["retired_blocks"], 3);
        assert!(!report.health.read_only);
        let done = run(&mut ssd, 1 << 50, 8, 4096, |n| on(Operation::Read, n, 1));
        assert!(done.iter().all(|completion| completion.fate == Fate::Done));
        ssd.ftl().check();
    }
}

#[test]
fn a_drive_without_spare_can_only_be_read() {
    let fault = FaultSpec { from: 1_000_000_000, ..FaultSpec::new(FaultKind::FailedErase) };
    let mut ssd = shadowed(&Spec { faults: vec![fault], ..hybrid(2) }, 4 * MIB, 1);
    let units = 4 * MIB / 4096;
    run(&mut ssd, 0, 8, units, |n| on(Operation::Write, n, 1));
    let mut draw = drawn(units);
    let done = run(&mut ssd, 2_000_000_000, 8, 20 * units, |_| on(Operation::Write, draw(), 1));
    assert!(done.iter().any(|completion| matches!(completion.fate, Fate::Failed { .. })));
    drain(&mut ssd);
    assert!(ssd.health().read_only && ssd.health().available_spare == 0);
    let done = run(&mut ssd, 1 << 50, 8, units, |n| on(Operation::Read, n, 1));
    assert!(done.iter().all(|completion| completion.fate == Fate::Done));
    ssd.ftl().check();
}

#[test]
fn preconditioned_drives_hold_together_and_go_on() {
    for precondition in [Precondition::Sequential, Precondition::Steady] {
        let mut ssd =
            Ssd::new(&Spec { precondition: Some(precondition), ..hybrid(4) }, 16 * MIB, 3).unwrap();
        ssd.ftl().check();
        let steady = precondition == Precondition::Steady;
        assert_eq!(ssd.report(0).ftl["log_blocks"], if steady { 16 } else { 0 });
        let read = alone(&mut ssd, 0, &on(Operation::Read, 77, 1));
        assert_eq!(read.1, 1_000 + 50_000 + 10_240);
        let mut draw = drawn(4096);
        run(&mut ssd, MIB, 16, 2_000, |_| on(Operation::Write, draw(), 1));
        drain(&mut ssd);
        ssd.ftl().check();
    }
}

#[test]
fn a_part_of_a_unit_is_read_before_and_a_trimmed_unit_is_not() {
    let mut ssd = shadowed(&hybrid(2), 16 * MIB, 1);
    let part = Command::new(Operation::Write, 512, 512);
    assert_eq!(alone(&mut ssd, 0, &part).1, 1_000 + 10_240 + 500_000);
    assert_eq!(alone(&mut ssd, MIB, &part).1, 1_000 + 50_000 + 10_240 + 10_240 + 500_000);
    assert_eq!(alone(&mut ssd, 2 * MIB, &on(Operation::Discard, 0, 1)).1, 1_000);
    assert_eq!(alone(&mut ssd, 3 * MIB, &on(Operation::Read, 0, 1)).1, 1_000);
    assert_eq!(alone(&mut ssd, 4 * MIB, &part).1, 1_000 + 10_240 + 500_000);
}

#[test]
fn what_cannot_work_is_refused_with_the_nearest_that_does() {
    let blocks = |blocks, log_blocks| Spec {
        blocks: Some(blocks),
        over_provisioning: None,
        ..hybrid(log_blocks)
    };
    for (spec, key, nearest) in [
        (hybrid(0), "log_blocks", "1"),
        (hybrid(2_000), "log_blocks", "1024"),
        // 8 blocks of each plane hold the data, and 2 are to work with.
        (blocks(14, 8), "log_blocks", "4"),
        (blocks(9, 1), "blocks", "11"),
        (Spec { mapping_unit: 2048, ..hybrid(4) }, "mapping_unit", "4KiB"),
    ] {
        let error = spec.check(CAPACITY).unwrap_err();
        let crate::SpecError::Value { key: found, nearest: other, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*found, other.as_str()), (key, nearest), "{error}");
    }
    blocks(14, 4).check(CAPACITY).unwrap();
    blocks(11, 1).check(CAPACITY).unwrap();
}
