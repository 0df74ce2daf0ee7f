//! Scrubbing: how often data moves, and what that does to late steps of the correction.

use stasis_block::{splitmix, Model, Operation};
use stasis_nand::OpKind;

use super::basics::small;
use super::load::{drain, on, run};
use crate::ftl::Shape;
use crate::spec::{EccSpec, ErrorsSpec, FaultKind, FaultSpec, Precondition, ScrubSpec};
use crate::{Spec, Ssd};

const CAPACITY: u64 = 16 << 20;
const UNITS: u64 = CAPACITY / 4096;
const HOUR: u64 = 3_600 * 1_000_000_000;
const DAY: u64 = 24 * HOUR;

fn drive(scrub: ScrubSpec) -> Spec {
    Spec { scrub: Some(scrub), precondition: Some(Precondition::Sequential), ..small() }
}

fn unit(index: u64) -> u64 {
    splitmix::mix(index.wrapping_mul(splitmix::GAMMA)) % UNITS
}

/// Lets time pass up to `until`, with a command at its end.
fn pass(ssd: &mut Ssd, until: u64) {
    ssd.submit(until, 0, &on(Operation::Flush, 0, 0));
    drain(ssd);
}

/// Blocks that are full of a drive that was written in order.
fn full_blocks(spec: &Spec) -> u64 {
    let shape = Shape::new(spec, CAPACITY);
    u64::from(shape.units / shape.block_slots / shape.planes * shape.planes)
}

#[test]
fn blocks_move_as_often_as_their_data_becomes_old() {
    for (period, age, days) in [(5 * HOUR, 10 * DAY, 105), (HOUR, 3 * DAY, 40)] {
        let spec = drive(ScrubSpec { period, age: Some(age), ..ScrubSpec::default() });
        let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
        pass(&mut ssd, days * DAY);
        let inside = ssd.report(ssd.now_for_tests());
        // It is found at the first visit after that: half a period later on average.
        let moves = (days * DAY / (age + period / 2)) * full_blocks(&spec);
        let error = inside.refreshes as f64 / moves as f64 - 1.0;
        assert!(error.abs() < 0.02, "{} for {moves}", inside.refreshes);
        assert_eq!((inside.collections, inside.scrub_reads), (inside.refreshes, 0));
        // Each is a whole block.
        let units = inside.refreshes * u64::from(Shape::new(&spec, CAPACITY).block_slots);
        assert!((inside.moved_units as f64 / units as f64 - 1.0).abs() < 0.02);
        ssd.ftl().check();
    }
}

#[test]
fn visits_read_a_page_of_each_block_once_in_a_period() {
    let scrub = ScrubSpec { period: HOUR, step: Some(2), ..ScrubSpec::default() };
    let none = ErrorsSpec { base: 0.0, wear: [0.0; 2], retention: [0.0; 3], disturb: [0.0; 3] };
    let ecc = Some(EccSpec { errors: none, ..EccSpec::default() });
    let spec = Spec { ecc, ..drive(scrub) };
    let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
    pass(&mut ssd, 50 * HOUR);
    let inside = ssd.report(ssd.now_for_tests());
    let expected = 50 * full_blocks(&spec);
    assert!((inside.scrub_reads as f64 / expected as f64 - 1.0).abs() < 0.02, "{expected}");
    assert_eq!((inside.refreshes, inside.read_units), (0, 0));
    assert_eq!(ssd.context().statistics.ops(OpKind::Read), inside.scrub_reads);
}

/// The share of the host's reads that need a step after the first, at the end of 700 days.
fn late(scrub: Option<ScrubSpec>) -> (f64, u64) {
    let errors = ErrorsSpec { disturb: [0.0; 3], ..ErrorsSpec::default() };
    let ecc = Some(EccSpec { errors, erases: 2_000, ..EccSpec::default() });
    let spec = Spec { ecc, scrub, ..drive(ScrubSpec::default()) };
    let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
    pass(&mut ssd, 700 * DAY);
    ssd.start(ssd.now_for_tests());
    let start = ssd.now_for_tests();
    run(&mut ssd, start, 8, 8_000, |index| on(Operation::Read, unit(index), 1));
    let inside = ssd.report(ssd.now_for_tests());
    let ecc = inside.ecc.unwrap();
    let first = ecc.decoded[0] as f64;
    (1.0 - first / 8_000.0, ecc.uncorrectable)
}

#[test]
fn without_scrubbing_late_steps_become_frequent() {
    let (without, lost) = late(None);
    assert!(without > 0.99 && lost == 0, "{without} {lost}");
    let period = 12 * HOUR;
    let (with, lost) = late(Some(ScrubSpec { period, age: Some(5 * DAY), step: None }));
    assert!(with < 0.01 && lost == 0, "{with} {lost}");
    // By what visits read: data moves once its errors are many, and not before.
    let (by_step, lost) = late(Some(ScrubSpec { period, age: None, step: Some(2) }));
    assert!((0.001..0.6).contains(&by_step) && lost == 0, "{by_step} {lost}");
}

#[test]
fn an_idle_drive_is_not_woken_and_makes_up_for_it() {
    let spec = drive(ScrubSpec { period: HOUR, age: Some(DAY), ..ScrubSpec::default() });
    let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
    assert_eq!(ssd.next_event(), None);
    // In one step or in many: the same drive.
    pass(&mut ssd, 20 * DAY);
    let mut often = Ssd::new(&spec, CAPACITY, 1).unwrap();
    for hour in 1..=20 * 24 {
        often.advance(hour * HOUR, &mut Vec::new());
    }
    pass(&mut often, 20 * DAY);
    let words = |ssd: &Ssd| serde_json::to_string(&ssd.report(21 * DAY)).unwrap();
    assert!(words(&ssd) == words(&often), "they differ");
    assert!(ssd.report(21 * DAY).refreshes > 10 * full_blocks(&spec));
    assert_eq!(ssd.next_event(), None);
}

#[test]
fn a_drive_that_never_moves_is_the_drive_without_the_key() {
    let load = |scrub| {
        let mut ssd = Ssd::new(&Spec { scrub, ..small() }, CAPACITY, 1).unwrap();
        run(&mut ssd, 0, 16, 3 * UNITS, |index| {
            let operation = [Operation::Write, Operation::Read][index as usize % 2];
            on(operation, unit(index), 1)
        })
    };
    let never = ScrubSpec { age: Some(1_000 * DAY), ..ScrubSpec::default() };
    assert!(load(None) == load(Some(never)), "they differ");
}

#[test]
fn scrubbing_that_cannot_work_is_refused() {
    let says = |spec: Spec| spec.check(CAPACITY).unwrap_err().to_string();
    let old = ScrubSpec { age: Some(DAY), ..ScrubSpec::default() };
    assert!(says(drive(ScrubSpec::default())).contains("nothing would be moved"));
    let by = |step| ScrubSpec { step: Some(step), ..old.clone() };
    assert!(says(drive(by(2))).contains("`scrub.step` = 2"));
    let ecc = Some(EccSpec::default());
    assert!(says(Spec { ecc: ecc.clone(), ..drive(by(9)) }).contains("`ecc` has 4 steps"));
    assert!(says(Spec { ecc, ..drive(by(1)) }).contains("the first moves nothing"));
    assert!(says(drive(ScrubSpec { period: 5, ..old.clone() })).contains("`scrub.period`"));
    let zoned = Spec { ftl: "zoned".into(), precondition: None, ..drive(old.clone()) };
    assert!(says(zoned).contains("`scrub` moves data"));
    let faults = vec![FaultSpec::new(FaultKind::StuckCommand)];
    assert!(says(Spec { faults, ..drive(old) }).contains("without end"));
}
