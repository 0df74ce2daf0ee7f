//! The spans that a drive reports of its parts.

use std::collections::HashMap;

use proptest::prelude::*;
use stasis_block::timeline::{Cause, Span, Spans, Step, Track, TrackKind, Tracks, What};
use stasis_block::{Command, Completion, Model, Operation};
use stasis_nand::OpKind;

use super::basics::small;
use super::load::{drain, roomy};
use crate::spec::{Blocking, GcSpec, Order, Planes, Precondition};
use crate::{Spec, Ssd};

const CAPACITY: u64 = 8 << 20;

fn specs() -> impl Strategy<Value = Spec> {
    let ftl = prop_oneof![Just("page"), Just("dftl"), Just("hybrid")];
    let blocking =
        prop_oneof![Just(Blocking::None), Just(Blocking::Plane), Just(Blocking::Channel)];
    (ftl, blocking, any::<bool>(), 1u32..3, 0u8..3, any::<bool>()).prop_map(
        |(ftl, blocking, lockstep, planes, suspensions, read_first)| Spec {
            ftl: ftl.into(),
            planes,
            // Only programs of one kind of page join across planes.
            plane_mode: if lockstep { Planes::Lockstep } else { Planes::Independent },
            suspensions,
            scheduling: if read_first { Order::ReadFirst } else { Order::Fifo },
            buffer: 32 << 10,
            mapping_cache: 4 << 10,
            precondition: Some(Precondition::Sequential),
            gc: GcSpec { blocking, foreground: 3, ..GcSpec::default() },
            ..small()
        },
    )
}

/// Reads and writes with 16 in flight; returns the completions, and the spans taken meanwhile.
fn work(ssd: &mut Ssd, seed: u64, count: u64) -> (Vec<Completion>, Vec<Span>) {
    let (mut all, mut taken, mut spans) = (Vec::new(), Vec::new(), Spans::default());
    let mut take = |ssd: &mut Ssd| {
        ssd.take_spans(&mut spans);
        assert_eq!(spans.lost(), 0);
        taken.extend_from_slice(spans.kept());
        spans.clear();
    };
    let command = |number: u64| {
        let bits = stasis_nand::hash::bits(seed, number);
        let operation = if bits % 10 < 3 { Operation::Read } else { Operation::Write };
        Command::new(operation, (bits >> 8) % (CAPACITY / 4096 - 4) * 4096, 4096 << (bits >> 4 & 1))
    };
    let mut sent = 0;
    (0..16).for_each(|tag| {
        ssd.submit(0, tag, &command(sent));
        sent += 1;
    });
    let mut done = Vec::new();
    while (all.len() as u64) < count {
        let at = ssd.next_event().unwrap();
        ssd.advance(at, &mut done);
        for completion in done.drain(..) {
            all.push(completion);
            if sent < count {
                ssd.submit(at, completion.tag, &command(sent));
                sent += 1;
            }
        }
        take(ssd);
    }
    all.extend(drain(ssd));
    take(ssd);
    (all, taken)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Looking changes no completion; a track does one thing at a time; and each operation and
    /// each collection that is counted is there.
    #[test]
    fn everything_that_is_counted_is_on_a_track(spec in specs(), seed in 1u64..1_000) {
        let make = || Ssd::new(&roomy(&spec, CAPACITY), CAPACITY, seed).unwrap();
        let (unseen, nothing) = work(&mut make(), seed, 4_000);
        prop_assert!(nothing.is_empty(), "kept, though nobody asked");
        let (mut ssd, mut tracks) = (make(), Tracks::default());
        tracks.add(Track::new(TrackKind::Vcpu, "other", "another's".into()));
        ssd.watch("fast", &mut tracks);
        let tracks = tracks.into_vec();
        let (seen, spans) = work(&mut ssd, seed, 4_000);
        prop_assert_eq!(&unseen, &seen);

        let mut until: HashMap<u32, u64> = HashMap::new();
        for span in &spans {
            let track = &tracks[span.track as usize];
            let last = until.insert(span.track, span.end).unwrap_or(0);
            prop_assert!(last <= span.begin && span.begin <= span.end, "{span:?}: {track:?}");
            prop_assert_eq!(track.owner.as_str(), "fast");
            let expected = match (span.what, span.step) {
                (What::Collection, Step::None) => TrackKind::Collection,
                (_, Step::Command | Step::DataIn | Step::DataOut) => TrackKind::Channel,
                _ => TrackKind::Nand,
            };
            prop_assert_eq!(track.kind, expected, "{:?}", span);
        }
        let collections = spans.iter().filter(|span| span.what == What::Collection);
        let took: u64 = collections.clone().map(|span| span.end - span.begin).sum();
        let statistics = &ssd.context().statistics;
        prop_assert!(statistics.collections > 10);
        prop_assert_eq!(collections.count() as u64, statistics.collections);
        prop_assert_eq!(took, statistics.collecting);
        // An operation may be suspended and resumed; a multi-plane one is there once.
        if spec.plane_mode == Planes::Independent {
            let mut numbers = HashMap::new();
            let cells = spans.iter().filter(|span| span.step == Step::Cells);
            cells.for_each(|span| *numbers.entry(span.number).or_insert(span.what) = span.what);
            for (what, kind) in [
                (What::Read, OpKind::Read),
                (What::Program, OpKind::Program),
                (What::Erase, OpKind::Erase),
                (What::Copyback, OpKind::Copyback),
            ] {
                let there = numbers.values().filter(|&&is| is == what).count();
                prop_assert_eq!(there as u64, statistics.ops(kind), "{:?}", kind);
            }
        }
    }
}

#[test]
fn tracks_say_where_they_are() {
    let (spec, mut tracks) = (Spec { planes: 2, ..small() }, Tracks::default());
    let mut ssd = Ssd::new(&roomy(&spec, CAPACITY), CAPACITY, 1).unwrap();
    ssd.watch("fast", &mut tracks);
    let tracks = tracks.into_vec();
    let names = |kind| {
        let of = tracks.iter().filter(move |track| track.kind == kind);
        of.map(|track| track.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(names(TrackKind::Channel), ["channel 0", "channel 1"]);
    let planes = names(TrackKind::Nand);
    assert_eq!((planes[0], planes[7]), ("channel 0, LUN 0, plane 0", "channel 1, LUN 3, plane 1"));
    assert_eq!((planes.len(), names(TrackKind::Collection).len()), (8, 8));

    // One write: its data crosses the channel, then the cells are at work.
    let mut spans = Spans::default();
    ssd.submit(0, 0, &Command::new(Operation::Write, 0, 4096));
    drain(&mut ssd);
    ssd.take_spans(&mut spans);
    let told: Vec<_> = spans
        .kept()
        .iter()
        .map(|span| (span.step, span.what, span.cause, span.begin, span.end, span.bytes))
        .collect();
    let (program, host) = (What::Program, Cause::HostWrite);
    assert_eq!(
        told,
        [
            (Step::DataIn, program, host, 1_000, 11_240, 4096),
            (Step::Cells, program, host, 11_240, 511_240, 0),
        ]
    );
    assert_eq!(tracks[spans.kept()[1].track as usize].name, "channel 0, LUN 0, plane 0");
}
