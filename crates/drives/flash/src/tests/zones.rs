//! Zones and chunks: written in order, erased as a whole, whatever breaks.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Fate, Model, Operation};

use super::agree::{self, faulty};
use super::basics::small;
use super::load::{alone, on, shadowed};
use crate::spec::{ByLetter, Duration, Precondition, TimingSpec, TrimSpec};
use crate::{Spec, Ssd};

const MIB: u64 = 1 << 20;

fn zoned(choices: u64) -> (Spec, u64, u64) {
    let pick = |shift: u32, choice_count: u64| (choices >> shift) % choice_count;
    let page_size = [4096, 16_384][pick(0, 2) as usize];
    let base = Spec {
        page_size,
        pages: Some(8),
        planes: 1 + pick(1, 2) as u32,
        buffer: [0, 0, 4096, 131_072][pick(2, 4) as usize],
        plp: pick(4, 2) == 1,
        ..small()
    };
    let planes = 4 * u64::from(base.planes);
    if pick(5, 4) == 0 {
        let chunk = 8 * page_size * u64::from(base.planes);
        let (ftl, blocks) = ("ocssd".into(), Some(4));
        return (Spec { ftl, blocks, ..base }, 16 * chunk, chunk);
    }
    let zone = page_size * [8, 12, 8 * planes, 8 * planes + 3][pick(8, 4) as usize];
    let ftl = "zoned".into();
    let zone_channels = [None, Some(1), Some(2)][pick(16, 3) as usize];
    let zone_size = Some(zone);
    let spec = Spec { ftl, zone_size, zone_channels, over_provisioning: Some(1.5), ..base };
    (spec, 8 * zone, zone)
}

/// Writes zones in order, or out of it by a page, and erases them.
fn torture(spec: &Spec, (capacity, zone): (u64, u64), seed: u64, cuts: bool) -> u32 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = move |below: u64| random.next_u64() % below;
    let mut ssd = shadowed(spec, capacity, seed);
    let mut pointers = vec![0u64; (capacity / zone) as usize];
    let mut flying = BTreeMap::new();
    let (mut now, mut failed) = (0, 0);
    for tag in 0..500 {
        let at = draw(pointers.len() as u64);
        let pointer = &mut pointers[at as usize];
        let start = at * zone;
        let command = match draw(20) {
            0..9 if *pointer < zone => {
                let length = ((1 + draw(12)) * 4096).min(zone - *pointer);
                *pointer += length;
                Command::new(Operation::Write, start + *pointer - length, length)
            }
            9..12 if *pointer + 8192 <= zone => {
                // The second unit, then the first.
                let offset = start + *pointer;
                *pointer += 8192;
                let second = Command::new(Operation::Write, offset + 4096, 4096);
                flying.insert(1000 + tag, Operation::Write);
                ssd.submit(now, 1000 + tag, &second);
                Command::new(Operation::Write, offset, 4096)
            }
            12 | 13 => {
                *pointer = 0;
                Command::new(Operation::Discard, start, zone)
            }
            14 => Command::flush(),
            15 => Command::barrier(),
            _ => {
                let offset = draw(zone / 4096) * 4096;
                let length = ((1 + draw(8)) * 4096).min(zone - offset);
                Command::new(Operation::Read, start + offset, length)
            }
        };
        let command = Command { fua: draw(6) == 0, ..command };
        let mut done = Vec::new();
        let resets = command.operation == Operation::Discard;
        // A host resets zones that are not being written.
        while let Some(next) = ssd.next_event().filter(|_| resets) {
            ssd.advance(next, &mut done);
            now = next;
        }
        flying.insert(tag, command.operation);
        ssd.submit(now, tag, &command);
        let calm = resets || draw(3) == 0;
        let until = if calm { u64::MAX } else { now + draw(300_000) };
        while let Some(next) = ssd.next_event().filter(|&next| next <= until) {
            ssd.advance(next, &mut done);
            now = next;
        }
        for completion in done {
            assert!(flying.remove(&completion.tag).is_some(), "once");
            failed += u32::from(matches!(completion.fate, Fate::Failed { .. }));
        }
        assert!(!calm || flying.is_empty(), "{flying:?}");
        if cuts && draw(40) == 0 {
            let lost = ssd.power_cut(now);
            assert!(lost.is_empty() || (!spec.plp && spec.buffer > 0) || !flying.is_empty());
            flying.clear();
            // The host finds where each zone ends and begins anew.
            for (zone_number, pointer) in (0..).zip(&mut pointers) {
                *pointer = 0;
                let reset = Command::new(Operation::Discard, zone_number * zone, zone);
                let before = ssd.now_for_tests();
                alone(&mut ssd, before.max(now), &reset);
            }
            while let Some(next) = ssd.next_event() {
                ssd.advance(next, &mut Vec::new());
                now = next;
            }
            now = now.max(ssd.now_for_tests());
        }
        ssd.ftl().check();
    }
    failed
}

proptest! {
    #![proptest_config(agree::cases(48))]

    #[test]
    fn zones_and_data_agree(choices: u64, seed: u64) {
        let (spec, capacity, zone) = zoned(choices);
        prop_assert_eq!(torture(&spec, (capacity, zone), seed, seed % 2 == 0), 0);
    }

    #[test]
    fn zones_and_data_agree_whatever_breaks(choices: u64, seed: u64, often in 1u32..20) {
        let (spec, capacity, zone) = zoned(choices);
        let spec = faulty(spec, f64::from(often) * 1e-3);
        torture(&spec, (capacity, zone), seed, seed % 2 == 0);
    }
}

#[test]
fn zones_stripe_over_planes_and_take_the_time_of_their_parts() {
    let spec = Spec { ftl: "zoned".into(), zone_size: Some(256 << 10), ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    let mut at = |ms: u64, command: Command| alone(&mut ssd, ms * MIB, &command);
    // Four planes at two channels.
    assert_eq!(at(0, on(Operation::Write, 0, 4)).1, 1_000 + 2 * 10_240 + 500_000);
    assert_eq!(at(1, on(Operation::Read, 3, 1)).1, 1_000 + 50_000 + 10_240);
    // Nothing can be read where nothing was written; a rewrite is refused.
    assert_eq!(at(2, on(Operation::Read, 4, 1)).1, 1_000);
    assert!(matches!(at(3, on(Operation::Write, 0, 1)).0.fate, Fate::Failed { .. }));
    // Erased when it completes; an empty zone needs no erase.
    assert_eq!(at(4, Command::new(Operation::Discard, 0, 256 << 10)).1, 1_000 + 3_000_000);
    assert_eq!(at(8, Command::new(Operation::Discard, 0, 256 << 10)).1, 1_000);
    assert_eq!(at(9, on(Operation::Write, 0, 1)).0.fate, Fate::Done);
}

/// Zones and chunks are empty at first, whatever a drive with a map begins with: the
/// first write is the first of its block.
#[test]
fn zones_and_chunks_begin_empty() {
    for ftl in ["zoned", "ocssd"] {
        let spec = Spec { ftl: ftl.into(), precondition: None, ..small() };
        let mut ssd = shadowed(&spec, 16 * MIB, 1);
        for pages in 1..5 {
            let (completion, _) = alone(&mut ssd, pages * MIB, &on(Operation::Write, pages - 1, 1));
            assert_eq!(completion.fate, Fate::Done, "{ftl}");
        }
        assert_eq!(ssd.context().media_bytes(), 4 * 4096);
        for state in [Precondition::Sequential, Precondition::Steady] {
            let written = Spec { precondition: Some(state), ..spec.clone() };
            let error = written.check(16 * MIB).unwrap_err().to_string();
            assert!(error.contains("`precondition`") && error.contains("begin empty"), "{error}");
        }
    }
}

#[test]
fn chunks_are_blocks_of_one_lun() {
    let spec = Spec { ftl: "ocssd".into(), blocks: Some(16), ..small() };
    let mut ssd = shadowed(&spec, 4 * 16 * 64 * 1024, 1);
    // Pages of one chunk follow one another; chunks of two LUNs do not wait.
    let one = alone(&mut ssd, 0, &on(Operation::Write, 0, 2)).1;
    assert_eq!(one, 1_000 + 10_240 + 2 * 500_000);
    let page = |group: u64| group * 2 * 16 * 16;
    ssd.submit(10 * MIB, 0, &on(Operation::Write, 16, 1));
    let other = alone(&mut ssd, 10 * MIB, &on(Operation::Write, page(1), 1)).1;
    assert_eq!(other, 1_000 + 10_240 + 500_000);
}

#[test]
fn what_cannot_be_zones_or_chunks_is_refused_with_what_can() {
    let zoned = |zone| Spec { ftl: "zoned".into(), zone_size: Some(zone), ..small() };
    let error = zoned(300 << 10).check(16 * MIB).unwrap_err().to_string();
    assert!(error.contains("`zone_size`"), "{error}");
    let nearest = error.rsplit(' ').next().unwrap();
    let nearest = stasis_block::units::parse_size(nearest).unwrap();
    assert_eq!(zoned(nearest).check(16 * MIB), Ok(()));
    let ocssd = Spec { ftl: "ocssd".into(), over_provisioning: None, ..small() };
    let error = ocssd.check(16 * MIB + 4096).unwrap_err().to_string();
    assert!(error.ends_with("nearest that works is 16MiB"), "{error}");
    assert_eq!(ocssd.check(16 * MIB), Ok(()));
}

/// Zones of some of the channels: a zone is as fast as its planes, and zones of other channels do
/// not wait for it.
#[test]
fn zones_lie_in_the_channels_that_they_have() {
    let time_and_busy = |channels: Option<u32>, both: bool| {
        let spec = Spec {
            ftl: "zoned".into(),
            channels: 4,
            zone_channels: channels,
            zone_size: Some(MIB),
            over_provisioning: Some(1.0),
            buffer: MIB,
            ..small()
        };
        let mut ssd = shadowed(&spec, 8 * MIB, 1);
        let first = |zone: u64| on(Operation::Write, zone * 256, 256);
        ssd.submit(0, 1, &first(0));
        if both {
            ssd.submit(0, 2, &first(1));
        }
        ssd.submit(0, 3, &Command::flush());
        let (mut done, mut last) = (Vec::new(), 0);
        while let Some(at) = ssd.next_event() {
            ssd.advance(at, &mut done);
            last = at;
        }
        let usage = ssd.context().array.channel_usage();
        let busy = (0..4).filter(|&channel| usage.total(channel) > 0).count();
        ssd.ftl().check();
        (last, busy as u64)
    };
    // 256 pages of 500 us over two planes of each channel.
    for (channels, planes) in [(None, 8), (Some(4), 8), (Some(2), 4), (Some(1), 2)] {
        let expected = 256 / planes * 500_000;
        let (took, busy) = time_and_busy(channels, false);
        assert!((took as f64 / expected as f64 - 1.0).abs() < 0.02, "{took} for {expected}");
        assert_eq!(busy, planes / 2);
        let (two, busy) = time_and_busy(channels, true);
        let apart = planes < 8;
        let expected = if apart { expected } else { 2 * expected };
        assert!((two as f64 / expected as f64 - 1.0).abs() < 0.02, "{two} for {expected}");
        assert_eq!(busy, if apart { planes } else { 4 });
    }
    let spec = Spec { ftl: "zoned".into(), zone_channels: Some(3), channels: 4, ..small() };
    let error = spec.check(8 * MIB).unwrap_err().to_string();
    assert!(error.contains("`zone_channels` = 3") && error.ends_with("is 2"), "{error}");
    let spec = Spec { zone_channels: Some(2), ..small() };
    assert!(spec.check(8 * MIB).unwrap_err().to_string().contains("`zone_channels` is of zones"));
}

/// A Western Digital ZN540's zone of 1,077 MiB, as measured: Finish after a block 907 ms, half full 457,
/// one block missing 4; Reset empty 1.6 ms, with a sixteenth 5.2, half full 11.3, full 15.8. Here the
/// zone has four rows of blocks, and Finish is a write of zeroes over what is missing.
#[test]
fn finish_and_reset_take_what_a_real_zone_does() {
    let (planes, rows, pages, page) = (16, 4, 1_077, 16 << 10);
    let all = planes * rows * pages;
    let zone = all * page;
    let time = |ns| Some(ByLetter::All(Duration(ns)));
    let base = small();
    let spec = Spec {
        ftl: "zoned".into(),
        zone_size: Some(zone),
        over_provisioning: None,
        channels: 8,
        pages: Some(pages as u32),
        page_size: page,
        controller: 0,
        trim: Some(TrimSpec { range: 1_600_000, rate: None }),
        timing: TimingSpec {
            // 1.245 GB/s of all planes.
            program: time(planes * page * 1_000 / 1_245),
            erase: Some(Duration(3_550_000)),
            ..base.timing.clone()
        },
        ..base
    };
    let took = |written: u64, operation: Operation| {
        let mut ssd = Ssd::new(&spec, 2 * zone, 1).unwrap();
        let bytes = written * page;
        if written > 0 {
            alone(&mut ssd, 0, &Command::new(Operation::Write, 0, bytes));
        }
        let now = ssd.now_for_tests();
        let command = match operation {
            Operation::Discard => Command::new(operation, 0, zone),
            _ => Command::new(operation, bytes, zone - bytes),
        };
        let took = alone(&mut ssd, now, &command);
        assert_eq!(took.0.fate, Fate::Done);
        took.1 as f64 / 1e6
    };
    let near = |ms: f64, real: f64, share: f64| {
        assert!((ms / real - 1.0).abs() < share, "{ms} for {real}");
    };
    near(took(1, Operation::WriteZeroes), 907.0, 0.02);
    near(took(all / 2, Operation::WriteZeroes), 457.0, 0.02);
    // A page: of the real one's 4 ms less than 1 is its program.
    assert!(took(all - 1, Operation::WriteZeroes) < 1.0);
    near(took(0, Operation::Discard), 1.6, 0.02);
    near(took(all / 16, Operation::Discard), 5.2, 0.02);
    near(took(all, Operation::Discard), 15.8, 0.02);
    // Rows are begun one after the other: two of four, and the real one is at 11.3.
    near(took(all / 2, Operation::Discard), 1.6 + 2.0 * 3.55, 0.02);
}
