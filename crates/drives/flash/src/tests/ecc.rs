//! Bit errors and their correction: how long reads take, and what they lose.

use stasis_block::inside::EccInside;
use stasis_block::{splitmix, Fate, Operation, Status};

use super::basics::small;
use super::load::{alone, drain, on, run};
use crate::spec::{
    CacheSize, EccSpec, EccStepSpec, ErrorsSpec, Precondition, RetrySpec, SlcCacheSpec,
    VariationSpec,
};
use crate::{Spec, Ssd};

const CAPACITY: u64 = 16 << 20;
const UNITS: u64 = CAPACITY / 4096;
const DAY: u64 = 24 * 3_600 * 1_000_000_000;
const READ: f64 = 50_000.0;

fn step(bits: u32, errors: f64, reads: u32, latency: u64) -> EccStepSpec {
    EccStepSpec { bits, errors, reads, latency }
}

fn drive(ecc: EccSpec) -> Spec {
    Spec { ecc: Some(ecc), precondition: Some(Precondition::Sequential), ..small() }
}

fn unit(index: u64) -> u64 {
    splitmix::mix(index.wrapping_mul(splitmix::GAMMA)) % UNITS
}

/// The probability that four codewords of 1 KiB have at most so many wrong bits each.
fn corrects(limit: u32, rate: f64) -> f64 {
    let (bits, mut term, mut sum) = (8_192.0, (8_192.0 * (1.0 - rate).ln()).exp(), 0.0);
    for wrong in 0..=limit {
        sum += term;
        term *= (bits - f64::from(wrong)) / f64::from(wrong + 1) * rate / (1.0 - rate);
    }
    f64::powi(sum, 4)
}

/// The time that the steps are expected to add to a read (ns), and the share that they lose.
fn expected(steps: &[EccStepSpec], rate: f64) -> (f64, f64) {
    let (mut added, mut wrong) = (0.0, 1.0f64);
    for step in steps {
        added += wrong * (f64::from(step.reads) * READ + step.latency as f64);
        wrong = wrong.min(1.0 - corrects(step.bits, rate * step.errors));
    }
    (added, wrong)
}

fn rate(errors: &ErrorsSpec, erases: f64, days: f64, reads: f64) -> f64 {
    let ErrorsSpec { base, wear: [a, k], retention: [b, m, n], disturb: [c, p, q] } = *errors;
    base + a * erases.powf(k)
        + b * erases.powf(m) * days.powf(n)
        + c * erases.powf(p) * reads.powf(q)
}

fn inside(ssd: &Ssd) -> EccInside {
    ssd.report(ssd.now_for_tests()).ecc.unwrap()
}

fn near(value: f64, expected: f64, subject: &str) {
    assert!((value / expected - 1.0).abs() < 0.02, "{subject}: {value} for {expected}");
}

#[test]
fn reads_take_the_expected_time_at_each_wear_and_age() {
    // Nothing is disturbed here: the rate stays as it is.
    let errors = ErrorsSpec { disturb: [0.0; 3], ..ErrorsSpec::default() };
    let mut reached = 0;
    for (erases, days) in [(3_000, 90), (3_000, 365), (4_000, 365), (5_000, 700)] {
        let ecc = EccSpec { errors, erases, age: days * DAY, ..EccSpec::default() };
        let spec = drive(ecc.clone());
        let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
        let count = 40_000;
        let done = run(&mut ssd, 0, 1, count, |index| on(Operation::Read, unit(index), 1));
        let rate = rate(&errors, f64::from(erases), days as f64, 0.0);
        let (added, lost) = expected(&ecc.steps, rate);
        let mean = done.last().unwrap().at as f64 / count as f64;
        near(mean, 1_000.0 + READ + added + 10_240.0, "mean");
        let failed = done.iter().filter(|done| done.fate != Fate::Done).count() as f64;
        assert!((failed / count as f64 - lost).abs() < 0.01, "{failed} for {lost}");
        reached += u32::from(added > READ);
        assert_eq!(inside(&ssd).decoded.iter().sum::<u64>(), count - failed as u64);
    }
    assert!(reached > 1, "later steps are needed");
}

#[test]
fn data_ages_as_time_passes_and_is_as_new_once_it_was_written_again() {
    let errors = ErrorsSpec { disturb: [0.0; 3], ..ErrorsSpec::default() };
    let spec = drive(EccSpec { errors, erases: 3_000, ..EccSpec::default() });
    let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
    let mean = |ssd: &mut Ssd, start: u64| {
        let done = run(ssd, start, 1, 8_000, |index| on(Operation::Read, unit(index), 1));
        (done.last().unwrap().at - start) as f64 / 8_000.0
    };
    let [fresh, old] = [0, 200 * DAY].map(|start| mean(&mut ssd, start));
    let after_days = |days: f64| {
        let rate = rate(&errors, 3_000.0, days, 0.0);
        1_000.0 + READ + expected(&EccSpec::default().steps, rate).0 + 10_240.0
    };
    near(fresh, after_days(0.0), "fresh");
    near(old, after_days(200.0), "old");
    assert!(old > 1.3 * fresh);
    let now = ssd.now_for_tests();
    run(&mut ssd, now, 32, UNITS, |index| on(Operation::Write, index, 1));
    drain(&mut ssd);
    let now = ssd.now_for_tests();
    // Blocks were erased once more than the rest of the drive was.
    assert!((mean(&mut ssd, now) / fresh - 1.0).abs() < 0.02);
}

/// The classes of JESD218 at the rated erases: what nothing corrects is rarer than the class
/// allows, by the closed form, and no read of a drive is lost. Ages are those at 30 C; three months at
/// 40 C are as many as Arrhenius' law has at 1.1 eV, the activation energy there.
#[test]
fn the_default_keeps_data_as_long_as_each_class_asks() {
    const BOLTZMANN: f64 = 8.617e-5;
    let faster = |celsius: f64| (1.1 / BOLTZMANN * (1.0 / 303.15 - 1.0 / (celsius + 273.15))).exp();
    for (class, days, errors_of_bits) in
        [("client", 365.0, 1e-15), ("enterprise", 91.25 * faster(40.0), 1e-16)]
    {
        let ecc = EccSpec { erases: Spec::default().endurance, ..EccSpec::default() };
        let rate = rate(&ecc.errors, f64::from(ecc.erases), days, 0.0);
        let last = ecc.steps.last().unwrap();
        // The tail of the binomial distribution, from the first number that is too much on.
        let (bits, p) = (8_192.0, rate * last.errors);
        let ln_choose = |wrong: f64| -> f64 {
            (1..=wrong as u64).map(|k| ((bits - k as f64 + 1.0) / k as f64).ln()).sum()
        };
        let term = |wrong: u32| {
            let wrong = f64::from(wrong);
            (ln_choose(wrong) + wrong * p.ln() + (bits - wrong) * (1.0 - p).ln()).exp()
        };
        let lost: f64 = (last.bits + 1..last.bits + 200).map(term).sum();
        assert!(lost / bits < errors_of_bits, "{class}: {lost} of codewords");
        let age = (days * DAY as f64) as u64;
        let mut ssd = Ssd::new(&drive(EccSpec { age, ..ecc }), CAPACITY, 1).unwrap();
        run(&mut ssd, 0, 8, 8_000, |index| on(Operation::Read, unit(index), 1));
        let inside = inside(&ssd);
        assert_eq!(inside.uncorrectable, 0, "{class}");
        assert!(inside.decoded[0] < 1_000, "{class}: it needs the later steps");
    }
}

#[test]
fn reads_of_a_block_disturb_it_as_the_formula_has_it() {
    let errors = ErrorsSpec { retention: [0.0; 3], ..ErrorsSpec::default() };
    let ecc = EccSpec { errors, erases: 2_000, ..EccSpec::default() };
    let steps = ecc.steps.clone();
    let mut ssd = Ssd::new(&drive(ecc), CAPACITY, 1).unwrap();
    // All of one unit: each read is one of its block, of 16 pages.
    let count = 24_000u64;
    let done = run(&mut ssd, 0, 1, count, |_| on(Operation::Read, 7, 1));
    let expected_read = |read: u64| {
        let rate = rate(&errors, 2_000.0, 0.0, read as f64 / 16.0);
        1_000.0 + READ + expected(&steps, rate).0 + 10_240.0
    };
    for part in [0..8_000, 8_000..16_000, 16_000..count] {
        let begin = done[..part.start as usize].last().map_or(0, |done| done.at);
        let took = (done[part.end as usize - 1].at - begin) as f64;
        let expected: f64 = part.clone().map(|read| expected_read(read + 1)).sum();
        near(took, expected, "part");
    }
    assert!(
        expected_read(count) > 1.5 * expected_read(0),
        "{} {}",
        expected_read(count),
        expected_read(0)
    );
    // Another block is as it was.
    let now = ssd.now_for_tests();
    assert_eq!(alone(&mut ssd, now, &on(Operation::Read, UNITS - 1, 1)).1, 61_240);
}

#[test]
fn a_page_in_slc_mode_is_right_at_once_and_what_nothing_corrects_is_lost() {
    let errors = ErrorsSpec { base: 0.2, ..ErrorsSpec::default() };
    let slc_cache = SlcCacheSpec { dynamic: CacheSize::Share(0.2), ..SlcCacheSpec::default() };
    for cached in [true, false] {
        let spec = Spec {
            cells: "mlc".into(),
            slc_cache: cached.then_some(slc_cache),
            precondition: Some(Precondition::None),
            ..drive(EccSpec { errors, ..EccSpec::default() })
        };
        let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
        let (_, took) = alone(&mut ssd, 0, &on(Operation::Write, 3, 1));
        let read = alone(&mut ssd, took, &on(Operation::Read, 3, 1)).0;
        let failed = Fate::Failed { status: Status::ReadError, at: 0 };
        assert_eq!(read.fate, if cached { Fate::Done } else { failed });
        assert_eq!(inside(&ssd).uncorrectable, u64::from(!cached));
    }
}

#[test]
fn a_drive_without_bit_errors_is_the_drive_without_the_key() {
    let none = ErrorsSpec { base: 0.0, wear: [0.0; 2], retention: [0.0; 3], disturb: [0.0; 3] };
    let load = |ecc| {
        let mut ssd = Ssd::new(&Spec { ecc, ..small() }, CAPACITY, 1).unwrap();
        run(&mut ssd, 0, 16, 3 * UNITS, |index| {
            let operation = [Operation::Write, Operation::Read][index as usize % 2];
            on(operation, unit(index), 1)
        })
    };
    assert!(
        load(None) == load(Some(EccSpec { errors: none, ..EccSpec::default() })),
        "they differ"
    );
}

#[test]
fn a_correction_that_cannot_work_is_refused() {
    let says = |spec: Spec| spec.check(CAPACITY).unwrap_err().to_string();
    let with_steps = |steps| drive(EccSpec { steps, ..EccSpec::default() });
    assert!(says(with_steps(Vec::new())).contains("`ecc.steps` = 0 steps"));
    assert!(says(with_steps(vec![step(1, 2.0, 0, 0)])).contains("`ecc.steps.errors` = 2"));
    let retry = Some(RetrySpec::default());
    let both = Spec {
        variation: VariationSpec { retry, ..VariationSpec::default() },
        ..drive(EccSpec::default())
    };
    assert!(says(both).contains("`variation.retry`"));
    let unpowered = Spec { unpowered: DAY, ..small() };
    assert!(says(unpowered).contains("`unpowered`"));
}
