//! A drive's state over runs: a run after a shutdown is the same whether the drive went on or was
//! built again from what it kept.

use proptest::prelude::*;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Completion, Fate, Model, Operation, LOG_STREAM};

use super::agree::{self, faulty, spec, CAPACITY};
use super::load::{on, roomy, run};
use crate::spec::{
    CacheSize, EccSpec, ErrorsSpec, Precondition, RetrySpec, ScrubSpec, SlcCacheSpec, TwoPassSpec,
    VariationSpec,
};
use crate::{Spec, Ssd};

fn kept(spec: Spec) -> Spec {
    Spec { state: Some("ssd.state".into()), ..roomy(&spec, CAPACITY) }
}

fn command(random: &mut Xoshiro256PlusPlus) -> Command {
    let units = CAPACITY / 4096;
    let mut draw = |below: u64| random.next_u64() % below;
    let (unit, length) = (draw(units), 1 + draw(6));
    let length = length.min(units - unit);
    let command = match draw(20) {
        0..=10 => on(Operation::Write, unit, length),
        11..=14 => on(Operation::Read, unit, length),
        // A part of a unit.
        15 => Command::new(Operation::Write, unit * 4096 + 512, 1024),
        16 | 17 => on(Operation::Discard, unit, length),
        18 => on(Operation::WriteZeroes, unit, length),
        _ => Command::flush(),
    };
    let stream = [0, 1, LOG_STREAM][draw(3) as usize];
    Command { stream, ..command }
}

/// Completions of a load that begins at `start`, with their times from then on.
fn load(ssd: &mut Ssd, start: u64, seed: u64, count: u64) -> Vec<(u32, u64, Fate)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let all = run(ssd, start, 8, count, |_| command(&mut random));
    all.into_iter().map(|Completion { tag, at, fate }| (tag, at - start, fate)).collect()
}

fn drive(spec: &Spec) -> Ssd {
    Ssd::new(spec, CAPACITY, 7).unwrap()
}

proptest! {
    #![proptest_config(agree::cases(40))]

    #[test]
    fn a_drive_that_was_kept_goes_on_as_one_that_never_was(
        choices: u64,
        seed: u64,
        counts in (0..400u64, 0..400u64, 1..400u64),
        state in 0..3usize,
        varies: bool,
        caches: bool,
        reclaims: bool,
        errs: bool,
        scrubs: bool,
        passes: bool,
        bad in 0..3u32,
    ) {
        let precondition =
            [Precondition::None, Precondition::Sequential, Precondition::Steady][state];
        let mut spec = kept(Spec { precondition: Some(precondition), ..spec(choices) });
        spec.read_reclaim = reclaims.then_some(40);
        if scrubs {
            let (period, age) = (1_000_000_000, Some(0));
            spec.scrub = Some(ScrubSpec { period, age, ..ScrubSpec::default() });
        }
        if errs {
            let errors = ErrorsSpec { base: 6e-3, wear: [1e-3, 0.5], ..ErrorsSpec::default() };
            spec.ecc = Some(EccSpec { errors, ..EccSpec::default() });
        } else if varies {
            let retry = RetrySpec { wear: 0.5, rated_erases: 4, ..RetrySpec::default() };
            spec.variation = VariationSpec { block: 0.1, retry: Some(retry), ..spec.variation };
        }
        if caches && spec.plane_mode == Default::default() {
            spec.cells = "tlc".into();
            spec.pages = Some(12);
            let dynamic = CacheSize::Share(0.1);
            spec.slc_cache = Some(SlcCacheSpec { dynamic, ..SlcCacheSpec::default() });
            spec = kept(Spec { over_provisioning: None, ..spec });
        }
        if passes {
            spec.cells = if caches { spec.cells } else { "qlc".into() };
            spec.cells = if spec.cells == "slc" { "mlc".into() } else { spec.cells };
            spec.two_pass = Some(TwoPassSpec { coarse: 700_000, fine: 1_900_000 });
            spec.gc.copyback = Some(false);
            (spec.pages, spec.over_provisioning) = (Some(24), Some(1.6));
        }
        spec = kept(Spec { bad_blocks: bad, ..spec });
        let mut once = drive(&spec);
        let (mut now, mut text) = (0, None::<String>);
        for (number, count) in [counts.0, counts.1, counts.2].into_iter().enumerate() {
            let mut again = drive(&Spec { kept: text, ..spec.clone() });
            let went_on = load(&mut once, now, seed ^ number as u64, count);
            if number > 0 {
                let resumed = load(&mut again, 0, seed ^ number as u64, count);
                prop_assert_eq!(&resumed, &went_on, "run {}", number);
            }
            let end = now + went_on.last().map_or(0, |last| last.1);
            let state = once.shut_down(end).expect("it is kept");
            once.ftl().check();
            if number > 0 {
                let resumed = again.shut_down(end - now).expect("it is kept");
                prop_assert!(resumed == state, "the states after run {number} differ");
            }
            (now, text) = (once.now_for_tests(), Some(state));
        }
    }

    /// Nothing that is done to a file makes a drive panic, at once or later.
    #[test]
    fn a_changed_state_is_refused_or_is_a_drive(
        choices: u64,
        seed: u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let spec = kept(Spec { precondition: Some(Precondition::Steady), ..spec(choices) });
        let mut ssd = drive(&spec);
        load(&mut ssd, 0, seed, 100);
        let end = ssd.now_for_tests();
        let text = ssd.shut_down(end).unwrap();
        // As of somebody who knows the check sum.
        let words = super::super::ssd::in_words(&spec, CAPACITY);
        let mut bytes = crate::kept::bytes_of(&text, &words).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let text = crate::kept::Writer::of(bytes).into_text(&words);
        if let Ok(mut ssd) = Ssd::new(&Spec { kept: Some(text), ..spec }, CAPACITY, 7) {
            ssd.ftl().check();
            load(&mut ssd, 0, seed, 100);
        }
    }
}

#[test]
fn wear_and_losses_are_kept_and_another_drive_is_refused() {
    let spec = kept(faulty(spec(3), 0.02));
    let mut ssd = drive(&spec);
    load(&mut ssd, 0, 5, 3_000);
    let (end, health) = (ssd.now_for_tests(), ssd.health());
    assert!(health.percentage_used > 0 || health.available_spare < 100, "{health:?}");
    let text = ssd.shut_down(end).unwrap();
    let after = ssd.health();
    let again = drive(&Spec { kept: Some(text.clone()), ..spec.clone() });
    let counters = |health: stasis_block::Health| {
        (health.available_spare, health.percentage_used, health.read_only)
    };
    assert_eq!(counters(again.health()), counters(after));
    again.ftl().check();
    let other = Spec { kept: Some(text.clone()), channels: spec.channels + 1, ..spec.clone() };
    let error = Ssd::new(&kept(other), CAPACITY, 7).unwrap_err().to_string();
    assert!(error.contains("ssd.state") && error.contains("of a drive with"), "{error}");
    let cut = Spec { kept: Some(text[..text.len() / 2].into()), ..spec.clone() };
    assert!(Ssd::new(&cut, CAPACITY, 7).is_err());
    // A drive that is not to be kept tells nothing, and a map in flash cannot be.
    assert_eq!(drive(&Spec { state: None, ..spec.clone() }).shut_down(0), None);
    let error = kept(Spec { ftl: "dftl".into(), ..spec }).check(CAPACITY).unwrap_err().to_string();
    assert!(error.contains("`state` keeps a drive with `ftl` = \"page\" only"), "{error}");
}
