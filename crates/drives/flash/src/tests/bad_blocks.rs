//! Blocks that are bad from the factory.

use proptest::prelude::*;
use stasis_block::{Model, Operation};

use super::agree::{self, torture};
use super::basics::small;
use super::load::{on, run};
use crate::spec::Precondition;
use crate::{Spec, Ssd};

const CAPACITY: u64 = 16 << 20;

fn drive(bad_blocks: u32) -> Spec {
    Spec { planes: 2, blocks: Some(96), over_provisioning: None, bad_blocks, ..small() }
}

#[test]
fn they_are_as_many_and_less_room_is_left() {
    let inside = |spec: &Spec, seed| {
        let ssd = Ssd::new(spec, CAPACITY, seed).unwrap();
        ssd.ftl().check();
        ssd.report(0)
    };
    let (none, some) = (inside(&drive(0), 1), inside(&drive(5), 1));
    // Four LUNs of two planes.
    assert_eq!(some.ftl["factory_bad_blocks"], 20);
    assert_eq!(none.ftl.get("factory_bad_blocks"), None);
    let count =
        |report: &stasis_block::inside::FlashInside, key: &str| report.ftl[key].as_u64().unwrap();
    assert_eq!(count(&none, "free_blocks") - count(&some, "free_blocks"), 20);
    assert_eq!(count(&none, "spare_blocks") - count(&some, "spare_blocks"), 20);
    assert_eq!(some.health.available_spare, 100, "nothing has failed since");
}

#[test]
fn a_drive_with_them_amplifies_as_one_with_less_flash() {
    let written = |spec: &Spec| {
        let spec = Spec { precondition: Some(Precondition::Steady), ..spec.clone() };
        let mut ssd = Ssd::new(&spec, CAPACITY, 2).unwrap();
        let units = CAPACITY / 4096;
        ssd.start(0);
        run(&mut ssd, 0, 8, 6 * units, |n| {
            on(Operation::Write, stasis_block::splitmix::mix(n) % units, 1)
        });
        ssd.ftl().check();
        ssd.context().write_amplification()
    };
    let with_bad = written(&Spec { planes: 1, bad_blocks: 16, ..drive(0) });
    let smaller = written(&Spec { planes: 1, blocks: Some(80), ..drive(0) });
    let larger = written(&Spec { planes: 1, ..drive(0) });
    assert!((with_bad / smaller - 1.0).abs() < 0.02, "{with_bad} {smaller}");
    assert!(larger < with_bad * 0.95, "{larger} {with_bad}");
}

#[test]
fn too_many_are_refused() {
    let message = drive(60).check(CAPACITY).unwrap_err().to_string();
    assert!(message.contains("60 of them as they may be bad"), "{message}");
    let zoned = Spec { ftl: "zoned".into(), ..drive(1) }.check(CAPACITY).unwrap_err().to_string();
    assert!(zoned.contains("bad_blocks"), "{zoned}");
}

proptest! {
    #![proptest_config(agree::cases(24))]

    #[test]
    fn mapping_and_data_agree_beside_bad_blocks(choices: u64, seed: u64, bad in 1u32..4) {
        let mut spec = agree::spec(choices);
        (spec.bad_blocks, spec.over_provisioning) = (bad, Some(0.6));
        let rack = torture(&spec, seed, 400, seed % 3 == 0);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
        torture(&agree::faulty(spec, 5e-3), seed, 300, true);
    }
}
