//! Housekeeping that is not for space has its share under any load: no block is read too often, is too
//! old, or rests while others wear, by more than a bound.

use proptest::prelude::*;
use stasis_block::{splitmix, Operation};
use stasis_nand::PlaneId;

use super::basics::small;
use super::load::{on, run};
use crate::ftl::Shape;
use crate::spec::{EccSpec, ErrorsSpec, GcSpec, Precondition, ScrubSpec, WearLevelling};
use crate::{Spec, Ssd};

const CAPACITY: u64 = 8 << 20;
const UNITS: u64 = CAPACITY / 4096;
const MAX_READS: u32 = 2_000;
const AGE: u64 = 2_000_000_000;
const PERIOD: u64 = 500_000_000;

/// A drive that levels, reclaims and scrubs, with cells that count reads and age and make no errors.
fn drive(policy: &str) -> Spec {
    let none = ErrorsSpec { base: 0.0, wear: [0.0; 2], retention: [0.0; 3], disturb: [0.0; 3] };
    Spec {
        ecc: Some(EccSpec { errors: none, ..EccSpec::default() }),
        read_reclaim: Some(MAX_READS),
        scrub: Some(ScrubSpec { period: PERIOD, age: Some(AGE), step: None }),
        wear_levelling: WearLevelling::Static,
        gc: GcSpec { policy: policy.into(), ..GcSpec::default() },
        precondition: Some(Precondition::Sequential),
        ..small()
    }
}

fn blocks(shape: &Shape) -> impl Iterator<Item = (PlaneId, u32)> {
    let (planes, blocks) = (shape.planes, shape.geometry.blocks);
    (0..planes).flat_map(move |plane| (0..blocks).map(move |block| (PlaneId(plane), block)))
}

/// The most that any block was read since its erase, and the age of the oldest data.
fn worst(ssd: &Ssd, shape: &Shape) -> (u32, u64) {
    let array = &ssd.context().array;
    let now = ssd.now_for_tests();
    let (_, reads) =
        array.clocks().map(|[first, reads]| (first, reads)).expect("bit errors are on");
    let oldest = blocks(shape).filter_map(|(plane, block)| array.age(now, plane, block)).max();
    (reads.iter().copied().max().unwrap_or(0), oldest.unwrap_or(0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A host that writes at the drive's rate to a part of it, and reads another part at random.
    #[test]
    fn no_kind_is_starved(
        policy in prop::sample::select(vec!["greedy", "cost-benefit", "d-choices", "oldest"]),
        written in 1u64..=4,
        read in 1u64..=64,
        reads in 0u64..4,
        depth in 1u32..32,
        seed: u64,
    ) {
        let spec = drive(policy);
        let shape = Shape::new(&spec, CAPACITY);
        let mut ssd = Ssd::new(&spec, CAPACITY, seed).unwrap();
        let draw = |index: u64| splitmix::mix(index.wrapping_mul(splitmix::GAMMA) ^ seed);
        let (mut most_reads, mut oldest, mut now) = (0, 0, 0);
        for step in 0..40u64 {
            run(&mut ssd, now, depth, 2_000, |index| {
                let draw = draw(step << 32 | index);
                match index % (reads + 1) {
                    0 => on(Operation::Write, draw % (UNITS * written / 8), 1),
                    _ => on(Operation::Read, UNITS - 1 - draw % read, 1),
                }
            });
            now = ssd.now_for_tests();
            let (reads, age) = worst(&ssd, &shape);
            (most_reads, oldest) = (most_reads.max(reads), oldest.max(age));
        }
        ssd.ftl().check();
        let inside = ssd.report(now);
        prop_assert!(most_reads <= MAX_READS + MAX_READS / 2, "{most_reads} reads: {inside:?}");
        prop_assert!(oldest <= AGE + 2 * PERIOD, "{oldest} ns: {inside:?}");
        let wear: Vec<u32> = blocks(&shape).map(|(plane, block)| ssd.context().array.erases(plane, block)).collect();
        let [least, most] = [wear.iter().min(), wear.iter().max()].map(|wear| *wear.unwrap());
        prop_assert!(most - least <= 48, "from {least} to {most} erases");
    }
}
