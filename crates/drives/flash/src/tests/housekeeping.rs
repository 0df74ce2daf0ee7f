//! Each kind of housekeeping has its share whatever the host does, and what waited behind one
//! collection does not wait for the next.
//!
//! The bound on the others that a block which has to move waits for is asserted where the
//! turns are kept (`ftl/page/due.rs`), in every test of this crate; here are the limits that follow.

use proptest::prelude::*;
use stasis_block::{splitmix, Model, Operation};
use stasis_nand::PlaneId;

use super::agree;
use super::basics::small;
use super::load::{on, roomy};
use crate::ftl::Shape;
use crate::spec::{
    Blocking, EccSpec, ErrorsSpec, GcSpec, Order, Precondition, ScrubSpec, WearLevelling,
};
use crate::{Spec, Ssd};

const CAPACITY: u64 = 16 << 20;
const UNITS: u64 = CAPACITY / 4096;
const SECOND: u64 = 1_000_000_000;
/// Reads after which a block moves.
const READS: u32 = 1_500;
/// Age at which data moves, and the time between two visits of a block (ns).
const AGE: u64 = 20 * SECOND;
const PERIOD: u64 = 4 * SECOND;

fn draw(index: u64, below: u64) -> u64 {
    splitmix::mix(index.wrapping_mul(splitmix::GAMMA)) % below
}

/// All kinds at once.
fn kept(spec: Spec) -> Spec {
    // The clocks of blocks, without errors.
    let errors = ErrorsSpec { base: 0.0, wear: [0.0; 2], retention: [0.0; 3], disturb: [0.0; 3] };
    let spec = Spec {
        read_reclaim: Some(READS),
        scrub: Some(ScrubSpec { period: PERIOD, age: Some(AGE), step: None }),
        wear_levelling: WearLevelling::Static,
        ecc: Some(EccSpec { errors, ..EccSpec::default() }),
        precondition: Some(Precondition::Sequential),
        ..spec
    };
    roomy(&spec, CAPACITY)
}

/// The most reads of a block since its erase, the most that the erases of two blocks of a plane
/// differ, and the age (ns) of the oldest data.
fn extremes(ssd: &Ssd, shape: &Shape) -> (u32, u32, u64) {
    let array = &ssd.context().array;
    let [_, reads] = array.clocks().unwrap();
    let (mut gap, mut oldest) = (0, 0);
    for plane in 0..shape.planes {
        let blocks = 0..shape.geometry.blocks;
        let erases = |block: u32| array.erases(PlaneId(plane), block);
        let most = blocks.clone().map(erases).max().unwrap();
        gap = gap.max(most - blocks.map(erases).min().unwrap());
    }
    for unit in 0..u64::from(shape.units) {
        let Some(at) = ssd.ftl().page_of_unit(unit as u32) else { continue };
        let age = array.age(ssd.now_for_tests(), at.plane, at.block).unwrap();
        oldest = oldest.max(age);
    }
    (*reads.iter().max().unwrap(), gap, oldest)
}

/// A load without a pause: so many commands at a time, of a hundred of which `reads` read, and of ten
/// of the others `hot` write an eighth of the drive.
#[derive(Debug, Clone, Copy)]
struct Load {
    depth: u32,
    reads: u64,
    hot: u64,
}

/// Runs a load for some time. Returns the [`extremes`] that were met.
fn saturate(spec: &Spec, load: Load, seconds: u64, seed: u64) -> (u32, u32, u64) {
    let Load { depth, reads, hot } = load;
    let mut ssd = Ssd::new(spec, CAPACITY, seed).unwrap();
    let shape = Shape::new(spec, CAPACITY);
    let mut index = seed << 32;
    let mut next = || {
        index += 3;
        if draw(index, 100) < reads {
            // Some of the cold data is read more than the rest.
            return on(Operation::Read, UNITS - 1 - draw(index + 1, 200), 1);
        }
        let range = if draw(index + 1, 10) < hot { UNITS / 8 } else { UNITS };
        on(Operation::Write, draw(index + 2, range), 1)
    };
    let mut worst = (0, 0, 0);
    (0..depth).for_each(|tag| ssd.submit(0, tag, &next()));
    let (mut done, mut looked) = (Vec::new(), 0);
    while let Some(at) = ssd.next_event().filter(|&at| at < seconds * SECOND) {
        ssd.advance(at, &mut done);
        for completion in done.drain(..) {
            ssd.submit(at, completion.tag, &next());
        }
        if at - looked > SECOND / 2 {
            looked = at;
            let (reads, gap, oldest) = extremes(&ssd, &shape);
            worst = (worst.0.max(reads), worst.1.max(gap), worst.2.max(oldest));
        }
    }
    ssd.ftl().check();
    worst
}

proptest! {
    #![proptest_config(agree::cases(5))]

    /// Under any load no block exceeds its limits by more than what happens while it waits: the
    /// bounds are those of `docs/reference/flash.md`.
    #[test]
    fn no_block_exceeds_its_limits_by_much(
        depth in 1u32..32,
        reads in 0u64..100,
        hot in 5u64..11,
        read_first: bool,
        blocks in 0usize..3,
        slots in 0u32..3,
        seed in 1u64..1_000,
    ) {
        let blocking = [Blocking::None, Blocking::Plane, Blocking::Channel][blocks];
        let spec = kept(Spec {
            scheduling: if read_first { Order::ReadFirst } else { Order::Fifo },
            gc: GcSpec { blocking, foreground: 3, ..GcSpec::default() },
            page_size: 4096 << slots,
            pages: Some(16 >> slots),
            buffer: 128 << 10,
            ..small()
        });
        let (reads, gap, oldest) = saturate(&spec, Load { depth, reads, hot }, 60, seed);
        let blocks = Shape::new(&spec, CAPACITY).geometry.blocks;
        prop_assert!(reads <= 2 * READS, "{} reads", reads);
        prop_assert!(gap <= 16 + blocks / 8, "{} erases apart", gap);
        prop_assert!(oldest <= AGE + PERIOD + 10 * SECOND, "{} s old", oldest / SECOND);
    }
}

/// The figures were others where housekeeping stopped while the host wrote: hundreds of erases apart,
/// data as old as the run, and reads without end.
#[test]
fn a_drive_that_is_written_as_fast_as_it_can_levels_its_wear_and_moves_old_data() {
    let spec = kept(small());
    let (reads, gap, oldest) = saturate(&spec, Load { depth: 16, reads: 30, hot: 10 }, 120, 1);
    assert!(gap > 8 && gap <= 40, "{gap}");
    assert!((AGE..AGE + 2 * PERIOD).contains(&oldest), "{} ms", oldest / 1_000_000);
    assert!((READS..READS + READS / 2).contains(&reads), "{reads}");
    let dynamic = Spec { wear_levelling: WearLevelling::Dynamic, scrub: None, ..spec };
    let (_, gap, oldest) = saturate(&dynamic, Load { depth: 16, reads: 0, hot: 10 }, 120, 1);
    assert!(gap > 80 && oldest > 100 * SECOND, "{gap} {oldest}");
}

/// Reads beside writes that collect all the time: none waits for more than the collection that it
/// met, and the reads that met it as well.
#[test]
fn what_waited_for_a_collection_starts_before_the_next() {
    for blocking in [Blocking::Plane, Blocking::Channel, Blocking::Controller] {
        let spec = Spec {
            gc: GcSpec { blocking, foreground: 3, ..GcSpec::default() },
            pages: Some(64),
            channels: 1,
            luns: 1,
            over_provisioning: None,
            precondition: Some(Precondition::Steady),
            ..small()
        };
        let mut ssd = Ssd::new(&spec, CAPACITY, 3).unwrap();
        let mut index = 0u64;
        let mut next = |write: bool| {
            index += 1;
            let operation = if write { Operation::Write } else { Operation::Read };
            on(operation, draw(index, UNITS), 1)
        };
        // As many writes wait as would need several collections.
        (0..200).for_each(|tag| ssd.submit(0, tag, &next(true)));
        (200..204).for_each(|tag| ssd.submit(0, tag, &next(false)));
        let (mut done, mut sent, mut longest) = (Vec::new(), [0u64; 204], 0);
        while ssd.now_for_tests() < 30 * SECOND {
            let at = ssd.next_event().unwrap();
            ssd.advance(at, &mut done);
            for completion in done.drain(..) {
                let tag = completion.tag as usize;
                if tag >= 200 {
                    longest = longest.max(completion.at - sent[tag]);
                }
                sent[tag] = at;
                ssd.submit(at, completion.tag, &next(tag < 200));
            }
        }
        let statistics = &ssd.context().statistics;
        let mean = statistics.collecting / statistics.collections;
        // A collection, and the host's operations that were there before the read: all 203.
        let bound = 2 * mean + 203 * 520_000;
        assert!(longest < bound, "{blocking:?}: {longest} of {mean}");
        assert!(statistics.collections > 200);
    }
}
