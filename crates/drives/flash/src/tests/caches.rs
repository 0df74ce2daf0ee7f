//! The SLC cache: where data goes, how fast, and that it stays.

use proptest::prelude::*;
use stasis_block::{Command, Operation};
use stasis_nand::OpKind;

use super::agree::{faulty, spec, torture};
use super::basics::small;
use super::load::{alone, drain, on, run, shadowed};
use crate::spec::{
    ByLetter, CacheSize, Duration, GcSpec, SlcCacheSpec, SpecError, TimingSpec, WhenFull,
};
use crate::{Spec, Ssd};

const MIB: u64 = 1 << 20;
const PROGRAM: u64 = 900_000;
const SLC_PROGRAM: u64 = 100_000;
const SLC_READ: u64 = 20_000;

/// Four planes of one register, whose channels take no time: only their cells count.
fn cells_alone(slc_cache: SlcCacheSpec) -> Spec {
    let time = |ns| Some(ByLetter::All(Duration(ns)));
    Spec {
        cells: "tlc".into(),
        pages: Some(48),
        registers: 1,
        buffer: 65_536,
        controller: 0,
        over_provisioning: Some(0.5),
        timing: TimingSpec {
            read: time(50_000),
            program: time(PROGRAM),
            erase: Some(Duration(3_000_000)),
            bus: Some(serde_json::from_str("\"1000GB/s\"").unwrap()),
            ..TimingSpec::default()
        },
        slc_cache: Some(SlcCacheSpec {
            read: Duration(SLC_READ),
            program: Duration(SLC_PROGRAM),
            ..slc_cache
        }),
        ..small()
    }
}

fn cache(fixed: u64, dynamic: u64, when_full: WhenFull) -> SlcCacheSpec {
    let [fixed, dynamic] = [fixed, dynamic].map(CacheSize::Bytes);
    SlcCacheSpec { fixed, dynamic, when_full, ..SlcCacheSpec::default() }
}

/// The time (ns) of writes of units, one behind the other.
fn write(ssd: &mut Ssd, start: u64, units: std::ops::Range<u64>) -> u64 {
    let count = units.end - units.start;
    let done = run(ssd, start, 64, count, |n| on(Operation::Write, units.start + n, 1));
    done.iter().map(|done| done.at).max().unwrap_or(start) - start
}

/// A time against a closed form, to 2 %.
fn near(time: u64, expected: u64) {
    let error = time as f64 / expected as f64 - 1.0;
    assert!(error.abs() < 0.02, "{time} for {expected}");
}

#[test]
fn writes_have_the_cells_of_the_cache_until_it_is_full() {
    // 16 of 48 pages in SLC mode: 8 MiB are 32 blocks of each of four planes.
    for (fixed, dynamic) in [(8, 0), (0, 8), (2, 6)] {
        let spec = cells_alone(cache(fixed * MIB, dynamic * MIB, WhenFull::Direct));
        let mut ssd = shadowed(&spec, 64 * MIB, 1);
        let took = write(&mut ssd, 0, 0..2048);
        near(took, 2048 / 4 * SLC_PROGRAM);
        let more = write(&mut ssd, took, 2048..4096);
        near(more, 2048 / 4 * PROGRAM);
        drain(&mut ssd);
        let inside = ssd.report(took + more).slc_cache.unwrap();
        assert_eq!((inside.cached_units, inside.direct_units), (2048, 2048));
    }
}

#[test]
fn an_idle_drive_folds_and_its_cache_is_as_before() {
    let spec = cells_alone(cache(MIB, 3 * MIB, WhenFull::Direct));
    let mut ssd = shadowed(&spec, 64 * MIB, 1);
    let took = write(&mut ssd, 0, 0..1536);
    assert_eq!(ssd.context().statistics.folds, 0, "the host writes");
    drain(&mut ssd);
    let statistics = &ssd.context().statistics;
    // 1 MiB of 16 pages of 4 KiB each are 4 blocks of each of four planes.
    assert_eq!((statistics.folds, statistics.folded_units), (64, 1024));
    assert_eq!(ssd.ftl().slc_cache().unwrap().valid_bytes, 0);
    ssd.ftl().check();
    // Each block: 16 reads and programs of a plane, of which none waits for another, and an erase.
    let folding = ssd.now_for_tests() - took - spec.gc.idle;
    near(folding, 16 * (16 * (SLC_READ + PROGRAM) + 3_000_000));
    let start = ssd.now_for_tests();
    near(write(&mut ssd, start, 8192..9216), 1024 / 4 * SLC_PROGRAM);
}

#[test]
fn writes_that_wait_for_folds_are_as_fast_as_these() {
    for (fixed, dynamic) in [(2, 0), (0, 2)] {
        let spec = cells_alone(cache(fixed * MIB, dynamic * MIB, WhenFull::Fold));
        let mut ssd = shadowed(&spec, 64 * MIB, 1);
        // The last of the 8 blocks of each plane is filled while the first are folded.
        let first = write(&mut ssd, 0, 0..448);
        // The last 16 are in the write buffer.
        near(first, (448 - 16) / 4 * SLC_PROGRAM);
        // Each page is programmed twice and read once, each block erased.
        write(&mut ssd, first, 448..1024);
        let start = ssd.now_for_tests();
        let took = write(&mut ssd, start, 1024..5120);
        let page = SLC_PROGRAM + SLC_READ + PROGRAM + 3_000_000 / 16;
        near(took, 4096 / 4 * page);
        assert_eq!(
            ssd.context().statistics.programmed_units,
            ssd.context().statistics.cached_units
        );
    }
}

/// The dynamic part against the number of free blocks that it can be.
#[test]
fn a_dynamic_cache_shrinks_as_the_drive_fills() {
    let spec = cells_alone(cache(0, 64 * MIB, WhenFull::Direct));
    let mut sizes = Vec::new();
    for filled in [0, 16, 32, 48] {
        let mut ssd = shadowed(&spec, 64 * MIB, 1);
        let before = filled * MIB / 4096;
        write(&mut ssd, 0, 0..before);
        drain(&mut ssd);
        let free = ssd.ftl().free_blocks().unwrap();
        let cached = ssd.context().statistics.cached_units;
        let start = ssd.now_for_tests();
        write(&mut ssd, start, before..64 * MIB / 4096);
        let size = ssd.context().statistics.cached_units - cached;
        // A block of 16 pages for each free one beyond three of each plane.
        assert_eq!(size, ((free - 4 * 3) * 16).min(64 * MIB / 4096 - before), "{filled}");
        sizes.push(size);
    }
    assert!(sizes.windows(2).all(|pair| pair[0] > pair[1]), "{sizes:?}");
}

#[test]
fn reads_have_the_cells_that_the_data_lies_in() {
    let spec = cells_alone(cache(MIB, 0, WhenFull::Direct));
    let mut ssd = shadowed(&spec, 64 * MIB, 1);
    write(&mut ssd, 0, 0..64);
    let start = ssd.now_for_tests() + MIB;
    assert_eq!(alone(&mut ssd, start, &on(Operation::Read, 0, 1)).1, SLC_READ + 4);
    drain(&mut ssd);
    // A block's data is folded when it is full: those of 16 pages each were.
    let start = ssd.now_for_tests();
    assert_eq!(alone(&mut ssd, start, &on(Operation::Read, 0, 1)).1, 50_000 + 4);
    assert_eq!(ssd.context().statistics.ops(OpKind::Erase), 4);
}

#[test]
fn what_was_discarded_makes_room_again() {
    let spec = cells_alone(cache(0, 16 * MIB, WhenFull::Direct));
    let mut ssd = shadowed(&spec, 64 * MIB, 1);
    write(&mut ssd, 0, 0..64 * MIB / 4096);
    let start = ssd.now_for_tests();
    alone(&mut ssd, start, &Command::new(Operation::Discard, 0, 64 * MIB));
    drain(&mut ssd);
    let cached = ssd.context().statistics.cached_units;
    let start = ssd.now_for_tests();
    write(&mut ssd, start, 0..4096);
    // Some are still in the write buffer.
    let size = ssd.context().statistics.cached_units - cached;
    assert!((4096 - 16..=4096).contains(&size), "{size} units of 16 MiB");
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let error = |spec: &Spec| match spec.check(64 * MIB) {
        Err(SpecError::Value { key, nearest, .. }) => (key, nearest),
        other => panic!("{other:?}"),
    };
    let with = |fixed, dynamic| cells_alone(cache(fixed, dynamic, WhenFull::Direct));
    assert_eq!(error(&with(0, 0)).0, "slc_cache.dynamic");
    assert_eq!(error(&with(65 * MIB, 0)), ("slc_cache.static", "64MiB".into()));
    assert_eq!(error(&with(0, 65 * MIB)), ("slc_cache.dynamic", "64MiB".into()));
    let share = SlcCacheSpec { dynamic: CacheSize::Share(1.5), ..SlcCacheSpec::default() };
    assert_eq!(error(&cells_alone(share)), ("slc_cache.dynamic", "1.0".into()));
    let slc = Spec { cells: "slc".into(), ..with(MIB, 0) };
    assert_eq!(error(&slc), ("cells", "\"tlc\"".into()));
    let zoned = Spec { ftl: "zoned".into(), over_provisioning: None, ..with(MIB, 0) };
    assert_eq!(error(&zoned), ("ftl", "\"page\"".into()));
    let blocks = Spec { blocks: Some(90), over_provisioning: None, ..with(MIB, 0) };
    assert_eq!(error(&blocks).0, "blocks");
    // The nearest works.
    let nearest: u32 = error(&blocks).1.parse().unwrap();
    assert!(Spec { blocks: Some(nearest), ..blocks.clone() }.check(64 * MIB).is_ok());
}

/// Any drive of the other tests, with a cache of any kind.
fn cached(choices: u64, kind: u64) -> Spec {
    let pick = |shift: u32, kinds: u64| (kind >> shift) % kinds;
    let sizes = [(64, 0), (0, 256), (64, 512), (256, 1024)][pick(0, 4) as usize];
    let when_full = [WhenFull::Direct, WhenFull::Fold][pick(2, 2) as usize];
    let spec = spec(choices);
    Spec {
        cells: ["mlc", "tlc", "qlc"][pick(3, 3) as usize].into(),
        ftl: ["page", "dftl"][pick(5, 2) as usize].into(),
        slc_cache: Some(cache(sizes.0 << 10, sizes.1 << 10, when_full)),
        over_provisioning: Some(0.5),
        gc: GcSpec { idle: [10_000, 100_000, 10_000_000][pick(6, 3) as usize], ..spec.gc },
        ..spec
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn mapping_and_data_agree(choices: u64, kind: u64, seed: u64, cuts: bool) {
        let rack = torture(&cached(choices, kind), seed, 600, cuts);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
        let inside = rack.ssd.report(0).slc_cache.unwrap();
        prop_assert!(inside.cached_units > 0);
    }

    #[test]
    fn mapping_and_data_agree_whatever_breaks(
        choices: u64, kind: u64, seed: u64, often in 1u32..30,
    ) {
        let spec = faulty(cached(choices, kind), f64::from(often) * 1e-3);
        torture(&spec, seed, 600, seed % 2 == 0);
    }
}
