//! The spans that a drive reports of its parts.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use stasis_block::timeline::{Cause, Span, Spans, Step, Track, TrackKind, Tracks, What};
use stasis_block::{Command, Completion, Model, Operation};
use stasis_nand::OpKind;

use super::agree;
use super::basics::small;
use super::load::{drain, roomy};
use crate::spec::{Blocking, GcSpec, Order, Planes, Precondition};
use crate::{Spec, Ssd};

pub(super) const CAPACITY: u64 = 8 << 20;

pub(super) fn specs() -> impl Strategy<Value = Spec> {
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

/// The command of a number among those of [`work`].
pub(super) fn command_of(seed: u64, number: u64) -> Command {
    let bits = stasis_nand::hash::bits(seed, number);
    let operation = if bits % 10 < 3 { Operation::Read } else { Operation::Write };
    Command::new(operation, (bits >> 8) % (CAPACITY / 4096 - 4) * 4096, 4096 << (bits >> 4 & 1))
}

/// Reads and writes with 16 in flight; returns the completions, the spans taken meanwhile, and the
/// commands in the order of time.
pub(super) fn work(
    ssd: &mut Ssd,
    seed: u64,
    count: u64,
) -> (Vec<Completion>, Vec<Span>, Vec<Told>) {
    let (mut all, mut taken, mut spans) = (Vec::new(), Vec::new(), Spans::default());
    let mut take = |ssd: &mut Ssd| {
        ssd.take_spans(&mut spans);
        assert_eq!(spans.lost(), 0);
        taken.extend_from_slice(spans.kept());
        spans.clear();
    };
    let command = |number: u64| command_of(seed, number);
    let mut sent = 0;
    // The number of each tag's command, and when it was submitted.
    let mut under_way = [(0, 0); 16];
    for tag in 0..16 {
        ssd.submit(0, tag, &command(sent));
        under_way[tag as usize] = (sent, 0);
        sent += 1;
    }
    let mut made = Vec::new();
    let mut ended = |completion: &Completion, (number, submitted): (u64, u64)| {
        let Command { operation, offset, length, .. } = command(number);
        made.push((operation.into(), offset, length, submitted, completion.at));
    };
    let mut done = Vec::new();
    while (all.len() as u64) < count {
        let at = ssd.next_event().unwrap();
        ssd.advance(at, &mut done);
        for completion in done.drain(..) {
            all.push(completion);
            let place = &mut under_way[completion.tag as usize];
            ended(&completion, *place);
            if sent < count {
                ssd.submit(at, completion.tag, &command(sent));
                *place = (sent, at);
                sent += 1;
            }
        }
        take(ssd);
    }
    let rest = drain(ssd);
    rest.iter().for_each(|completion| ended(completion, under_way[completion.tag as usize]));
    all.extend(rest);
    take(ssd);
    made.sort_by_key(|&(kind, offset, bytes, begin, end): &Told| {
        (begin, end, offset, bytes, kind as u8)
    });
    (all, taken, made)
}

/// A command's operation, first byte, length, and when it was submitted and completed.
pub(super) type Told = (What, u64, u64, u64, u64);

/// The commands that these spans tell of: the parts of each touch, so that a part too much or too
/// little is another end.
fn told<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<Told> {
    let mut lanes: BTreeMap<u16, Vec<&Span>> = BTreeMap::new();
    spans.for_each(|span| lanes.entry(span.lane).or_default().push(span));
    let touching = lanes.values().flat_map(|lane| lane.chunk_by(|a, b| a.end == b.begin));
    let one = |parts: &[&Span]| {
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        (first.activity, first.offset, first.bytes, first.begin, last.end)
    };
    let mut commands: Vec<_> = touching.map(one).collect();
    commands
        .sort_by_key(|&(kind, offset, bytes, begin, end)| (begin, end, offset, bytes, kind as u8));
    commands
}

proptest! {
    #![proptest_config(agree::cases(10))]

    /// Looking changes no completion; a track does one thing at a time; and each operation and
    /// each collection that is counted is there.
    #[test]
    fn everything_that_is_counted_is_on_a_track(spec in specs(), seed in 1u64..1_000) {
        let make = || Ssd::new(&roomy(&spec, CAPACITY), CAPACITY, seed).unwrap();
        let (unseen, nothing, _) = work(&mut make(), seed, 4_000);
        prop_assert!(nothing.is_empty(), "kept, though nobody asked");
        let (mut ssd, mut tracks) = (make(), Tracks::default());
        tracks.add(Track::new(TrackKind::Vcpu, "other", "another's".into()));
        ssd.watch("fast", &mut tracks);
        let tracks = tracks.into_vec();
        let (watched, spans, made) = work(&mut ssd, seed, 4_000);
        prop_assert_eq!(&unseen, &watched);

        let mut until: HashMap<u32, u64> = HashMap::new();
        let is_command =
            |span: &&Span| tracks[span.track as usize].kind == TrackKind::Command;
        prop_assert_eq!(told(spans.iter().filter(is_command)), made);
        for span in spans.iter().filter(|span| !is_command(span)) {
            let track = &tracks[span.track as usize];
            let last = until.insert(span.track, span.end).unwrap_or(0);
            prop_assert!(last <= span.begin && span.begin <= span.end, "{span:?}: {track:?}");
            prop_assert_eq!(track.owner.as_str(), "fast");
            let expected = match (span.activity, span.step) {
                (What::Collection, Step::None) => TrackKind::Collection,
                (_, Step::Command | Step::DataIn | Step::DataOut) => TrackKind::Channel,
                _ => TrackKind::Nand,
            };
            prop_assert_eq!(track.kind, expected, "{:?}", span);
        }
        let collections = spans.iter().filter(|span| span.activity == What::Collection);
        let took: u64 = collections.clone().map(|span| span.end - span.begin).sum();
        let statistics = &ssd.context().statistics;
        prop_assert!(statistics.collections > 10);
        prop_assert_eq!(collections.count() as u64, statistics.collections);
        prop_assert_eq!(took, statistics.collecting);
        // An operation may be suspended and resumed; a multi-plane one is there once.
        if spec.plane_mode == Planes::Independent {
            let mut numbers = HashMap::new();
            let cells = spans.iter().filter(|span| span.step == Step::Cells && !is_command(span));
            cells.for_each(|span| *numbers.entry(span.number).or_insert(span.activity) = span.activity);
            for (span_kind, kind) in [
                (What::Read, OpKind::Read),
                (What::Program, OpKind::Program),
                (What::Erase, OpKind::Erase),
                (What::Copyback, OpKind::Copyback),
            ] {
                let there = numbers.values().filter(|&&is| is == span_kind).count();
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
        let matching = tracks.iter().filter(move |track| track.kind == kind);
        matching.map(|track| track.name.as_str()).collect::<Vec<_>>()
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
    let is_operation = |span: &&Span| tracks[span.track as usize].kind != TrackKind::Command;
    let own = spans.kept().iter().filter(|span| !is_operation(span));
    let parts: Vec<_> = own.map(|span| (span.step, span.begin, span.end, span.cause)).collect();
    let host = Cause::HostWrite;
    let whole = [
        (Step::Controller, 0, 1_000, host),
        (Step::Cells, 1_000, 501_000, host),
        (Step::Channel, 501_000, 511_240, host),
    ];
    assert_eq!(parts, whole);
    let operations: Vec<_> = spans
        .kept()
        .iter()
        .filter(is_operation)
        .map(|span| (span.step, span.activity, span.cause, span.begin, span.end, span.bytes))
        .collect();
    let program = What::Program;
    assert_eq!(
        operations,
        [
            (Step::DataIn, program, host, 1_000, 11_240, 4096),
            (Step::Cells, program, host, 11_240, 511_240, 0),
        ]
    );
    let second = spans.kept().iter().filter(is_operation).nth(1).unwrap();
    assert_eq!(tracks[second.track as usize].name, "channel 0, LUN 0, plane 0");
}
