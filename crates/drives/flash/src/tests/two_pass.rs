//! Word lines that are programmed in two passes: their rate, what the buffer holds meanwhile, and what
//! a power cut leaves.

use proptest::prelude::*;
use stasis_block::{Command, Fate, Model, Operation};
use stasis_nand::OpKind;

use super::agree::{self, torture};
use super::basics::small;
use super::load::{alone, drain, on, run, shadowed};
use crate::spec::{Blocking, GcSpec, Precondition, SlcCacheSpec, TwoPassSpec};
use crate::{Spec, Ssd};

const MIB: u64 = 1 << 20;
const COARSE: u64 = 2_000_000;
const FINE: u64 = 4_500_000;
const TWO_PASS: TwoPassSpec = TwoPassSpec { coarse: COARSE, fine: FINE };
/// Pages of a word line.
const LINE: u64 = 4;

/// One plane of QLC: pages of 4 KiB, blocks of 16, and a buffer of 64 KiB.
fn plane() -> Spec {
    Spec {
        channels: 1,
        luns: 1,
        cells: "qlc".into(),
        two_pass: Some(TWO_PASS),
        over_provisioning: Some(1.2),
        buffer: 65_536,
        ..small()
    }
}

fn buffered(ssd: &Ssd) -> u64 {
    ssd.report(ssd.now_for_tests()).ftl["buffered_units"].as_u64().unwrap()
}

#[test]
fn writes_in_order_have_the_rate_of_both_passes() {
    // Bandwidth of p planes, w pages of a word line and s bytes of a page: p w s / (coarse + fine +
    // transfers), where a bus of 40 GB/s takes next to nothing.
    for channels in [1, 2] {
        for cells in ["mlc", "tlc", "qlc"] {
            let mut spec = Spec { channels, cells: cells.into(), pages: Some(48), ..plane() };
            spec.timing.bus = Some(serde_json::from_str("\"40GB/s\"").unwrap());
            let mut ssd = Ssd::new(&spec, 16 * MIB, 1).unwrap();
            let units = 16 * MIB / 4096;
            let done = run(&mut ssd, 0, 64, units, |n| on(Operation::Write, n, 1));
            let line = match cells {
                "mlc" => 2,
                "tlc" => 3,
                _ => LINE,
            };
            let took = done.last().unwrap().at as f64;
            let expected =
                units as f64 * (COARSE + FINE) as f64 / (line * u64::from(channels)) as f64;
            assert!((took / expected - 1.0).abs() < 0.02, "{cells}: {took} for {expected}");
        }
    }
}

#[test]
fn the_buffer_holds_a_word_line_until_its_fine_pass() {
    let mut ssd = shadowed(&plane(), 16 * MIB, 1);
    let write = |ssd: &mut Ssd, first: u64, count: u64| {
        run(ssd, ssd.now_for_tests(), 1, count, |n| on(Operation::Write, first + n, 1));
        drain(ssd);
    };
    // The first word line waits for the second one's coarse pass, the second for the third's.
    for (count, held) in [(3, 3), (1, 4), (3, 7), (1, 4), (4, 4), (4, 0)] {
        let before = ssd.context().statistics.host_units;
        write(&mut ssd, before, count);
        assert_eq!(buffered(&ssd), held, "after {count} more");
    }
    // Nothing was padded, and the block is full.
    assert_eq!(ssd.context().statistics.ops(OpKind::Program), 16);
    assert_eq!(ssd.context().statistics.line_padding, 0);
    // Pages that are held are read from the buffer.
    write(&mut ssd, 100, 2);
    let now = ssd.now_for_tests();
    assert_eq!(alone(&mut ssd, now, &on(Operation::Read, 100, 2)).1, 1_000);
}

#[test]
fn a_flush_fills_up_a_word_line_and_needs_no_neighbour() {
    let mut ssd = shadowed(&plane(), 16 * MIB, 1);
    run(&mut ssd, 0, 1, 5, |n| on(Operation::Write, n, 1));
    drain(&mut ssd);
    let now = ssd.now_for_tests();
    let (_, took) = alone(&mut ssd, now, &Command::flush());
    // The first word line's fine pass has to end, the second has both.
    assert!((COARSE + 2 * FINE..COARSE + 2 * FINE + 300_000).contains(&took), "{took}");
    assert_eq!(ssd.context().statistics.line_padding, LINE * 2 - 5);
    assert_eq!(buffered(&ssd), 0);
    // Flushed again, nothing is left to do.
    let now = ssd.now_for_tests();
    assert_eq!(alone(&mut ssd, now, &Command::flush()).1, 1_000);
    assert_eq!(ssd.context().statistics.line_padding, LINE * 2 - 5);
}

#[test]
fn a_power_cut_between_the_passes_takes_the_word_line() {
    let lost = |ssd: &mut Ssd, spec: &Spec| {
        let now = ssd.now_for_tests();
        let lost = ssd.power_cut(now);
        drain(ssd);
        let held = if spec.plp { Vec::new() } else { lost.clone() };
        assert_eq!(lost, held);
        ssd.ftl().check();
        lost
    };
    // Nine units: the first word line has had both passes, the second one, the third is begun.
    let mut ssd = shadowed(&plane(), 16 * MIB, 1);
    run(&mut ssd, 0, 1, 9, |n| on(Operation::Write, n, 1));
    drain(&mut ssd);
    assert_eq!(lost(&mut ssd, &plane()), std::slice::from_ref(&(LINE * 4096..9 * 4096)));
    let now = ssd.now_for_tests();
    assert_eq!(alone(&mut ssd, now, &on(Operation::Read, 4, 5)).1, 1_000, "they are in no cell");
    assert!(alone(&mut ssd, now + 1_000_000, &on(Operation::Read, 0, 4)).1 > 50_000);
    // The third word line takes no more pages: the next is the fourth, the block's last.
    run(&mut ssd, now + 2_000_000, 1, 4, |n| on(Operation::Write, 20 + n, 1));
    drain(&mut ssd);
    assert_eq!(buffered(&ssd), 0, "the block is full");
    let description = ssd.entry(20 * 4096).unwrap();
    assert!(description.contains("page 12, part 1 of 1"), "{description}");

    // With protection against the loss of power they are written again.
    let spec = Spec { plp: true, ..plane() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    run(&mut ssd, 0, 1, 9, |n| on(Operation::Write, n, 1));
    drain(&mut ssd);
    assert_eq!(lost(&mut ssd, &spec), []);
    // Five units: the fourth word line is the block's last, and one is in the next block.
    assert_eq!(buffered(&ssd), 1);
    // After a flush a cut takes nothing.
    let mut ssd = shadowed(&plane(), 16 * MIB, 1);
    run(&mut ssd, 0, 1, 9, |n| on(Operation::Write, n, 1));
    let now = ssd.now_for_tests();
    alone(&mut ssd, now, &Command::flush());
    assert_eq!(lost(&mut ssd, &plane()), []);
}

#[test]
fn a_write_through_and_a_small_buffer_go_on() {
    for (buffer, fua) in [(0, false), (4096, false), (65_536, true)] {
        let spec = Spec { buffer, ..plane() };
        let mut ssd = shadowed(&spec, 16 * MIB, 1);
        let done = run(&mut ssd, 0, 4, 2_000, |n| Command {
            fua,
            ..on(Operation::Write, n * 7 % 1_000, 1)
        });
        assert!(done.iter().all(|completion| completion.fate == Fate::Done));
        ssd.ftl().check();
    }
}

#[test]
fn a_preconditioned_drive_collects() {
    for state in [Precondition::Sequential, Precondition::Steady] {
        let spec = Spec { channels: 2, precondition: Some(state), ..plane() };
        let mut ssd = Ssd::new(&spec, 16 * MIB, 3).unwrap();
        let units = 16 * MIB / 4096;
        run(&mut ssd, 0, 8, 3 * units, |n| {
            on(Operation::Write, n.wrapping_mul(2_654_435_761) % units, 1)
        });
        ssd.ftl().check();
        assert!(ssd.context().statistics.collections > 100);
    }
}

#[test]
fn drives_that_cannot_have_two_passes_are_refused() {
    let text = |spec: Spec| spec.check(16 * MIB).unwrap_err().to_string();
    for (spec, expected) in [
        (Spec { cells: "slc".into(), ..plane() }, "`mlc`, `tlc`, `qlc`"),
        (Spec { ftl: "zoned".into(), ..plane() }, "page mapping"),
        (Spec { pages: Some(12), ..plane() }, "4 word lines of 4"),
        (
            Spec { gc: GcSpec { copyback: Some(true), ..GcSpec::default() }, ..plane() },
            "controller",
        ),
        (
            Spec { gc: GcSpec { blocking: Blocking::Plane, ..GcSpec::default() }, ..plane() },
            "controller",
        ),
    ] {
        let message = text(spec);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

/// A drive of the other property tests, with two passes.
pub fn spec(choices: u64) -> Spec {
    let mut spec = agree::spec(choices);
    spec.cells = ["mlc", "tlc", "qlc"][(choices >> 52) as usize % 3].into();
    spec.two_pass = Some(TWO_PASS);
    spec.gc.copyback = Some(false);
    spec.pages = Some([16, 24][(choices >> 54) as usize % 2]);
    spec.over_provisioning = Some(1.6);
    if let Some(scrub) = &mut spec.scrub {
        // Else the moves alone would fill the time where they block the controller.
        scrub.period *= 10;
    }
    if choices >> 55 & 1 == 1 {
        spec.slc_cache = serde_json::from_str::<SlcCacheSpec>(r#"{"dynamic": 0.1}"#).ok();
    }
    spec
}

/// The same, with the map in memory or in flash.
fn layered(choices: u64, cached_map: bool) -> Spec {
    let spec = spec(choices);
    match cached_map {
        true => Spec { ftl: "dftl".into(), mapping_cache: 1024, pairs: false, ..spec },
        false => spec,
    }
}

proptest! {
    #![proptest_config(agree::cases(48))]

    #[test]
    fn mapping_and_data_agree_with_two_passes(
        choices: u64, seed: u64, cuts: bool, cached_map: bool,
    ) {
        let rack = torture(&layered(choices, cached_map), seed, 400, cuts);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
    }

    #[test]
    fn mapping_and_data_agree_with_two_passes_whatever_breaks(
        choices: u64, seed: u64, often in 1u32..30, cached_map: bool,
    ) {
        let spec = agree::faulty(layered(choices, cached_map), f64::from(often) * 1e-3);
        torture(&spec, seed, 400, seed % 2 == 0);
    }
}

/// The drive once stopped here: it became read-only while half a word line of a forced write was
/// programmed, and nothing came any more to fill the line up.
#[test]
fn mapping_and_data_agree_in_two_passes_once_the_drive_is_read_only() {
    let spec = agree::faulty(spec(9_662_561_495_342_279_937), 25e-3);
    torture(&spec, 6_512_120_204_076_028_215, 400, false);
}
