//! For whom each operation of a watched drive is.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stasis_block::timeline::{Cause, Purpose, Span, Spans, Step, Track, TrackKind, Tracks, What};
use stasis_block::{Command, Model, Operation};

use super::agree;
use super::basics::small;
use super::load::{drain, on, roomy, run};
use super::watched::{command_of, specs, work, CAPACITY};
use crate::spec::{EccSpec, Planes, Precondition, ReadCacheSpec, ScrubSpec};
use crate::{Spec, Ssd};

/// A drive that is watched, and its tracks.
fn watched(spec: &Spec, capacity: u64) -> (Ssd, Vec<Track>) {
    let mut ssd = Ssd::new(&roomy(spec, capacity), capacity, 1).unwrap();
    let mut tracks = Tracks::default();
    ssd.watch("fast", &mut tracks);
    (ssd, tracks.into_vec())
}

fn taken(ssd: &mut Ssd) -> Vec<Span> {
    let mut spans = Spans::default();
    ssd.take_spans(&mut spans);
    assert_eq!(spans.lost(), 0);
    spans.kept().to_vec()
}

/// The operations of these spans by number: one of the spans of each.
fn operations(spans: &[Span], tracks: &[Track]) -> BTreeMap<u64, Span> {
    let is = |span: &&Span| {
        matches!(tracks[span.track as usize].kind, TrackKind::Channel | TrackKind::Nand)
    };
    spans.iter().filter(is).map(|span| (span.number, *span)).collect()
}

/// Each command by its number: its operation, its bytes, when it came, when it ended, and with which
/// operation.
type Commands = BTreeMap<u64, (What, u64, u64, u64, u64, Option<u64>)>;

fn commands(spans: &[Span], tracks: &[Track]) -> Commands {
    let mut all = Commands::new();
    for span in spans.iter().filter(|span| tracks[span.track as usize].kind == TrackKind::Command) {
        let number = span.whom.first_command().expect("commands have numbers");
        let after = (span.cause != Cause::None).then_some(span.number);
        let whole = (span.activity, span.offset, span.bytes, span.begin, span.end, after);
        let one = all.entry(number).or_insert(whole);
        (one.3, one.4) = (one.3.min(span.begin), one.4.max(span.end));
    }
    all
}

proptest! {
    #![proptest_config(agree::cases(24))]

    /// Against what else is known: commands are those that were sent; an operation lies within the
    /// time of the command or the collection that it is for, and on its plane; and the operation
    /// that completed a read or a write through is for it.
    #[test]
    fn each_operation_is_for_whom_it_happened(
        spec in specs(),
        through in any::<bool>(),
        slots in 0u32..3,
        seed in 1u64..1_000,
    ) {
        let buffer = if through { 0 } else { spec.buffer };
        let mapping_unit = if spec.ftl == "hybrid" { 4096 << slots } else { 4096 };
        let pages = Some(16 >> slots);
        let spec = Spec { buffer, page_size: 4096 << slots, pages, mapping_unit, ..spec };
        let (mut ssd, tracks) = watched(&spec, CAPACITY);
        let (_, spans, _) = work(&mut ssd, seed, 4_000);
        let commands = commands(&spans, &tracks);
        prop_assert!(commands.len() > 3_900);
        for (&number, &(kind, offset, bytes, ..)) in &commands {
            let Command { operation, offset: at, length, .. } = command_of(seed, number);
            prop_assert_eq!((kind, offset, bytes), (operation.into(), at, length), "{}", number);
        }
        let mut collections = BTreeMap::new();
        for span in spans.iter().filter(|span| matches!(span.activity, What::Collection | What::Fold)) {
            let number = span.whom.its_collection().expect("collections have numbers");
            let track = &tracks[span.track as usize];
            let one = ((track.lun, track.plane), span.begin, span.end);
            prop_assert!(collections.insert(number, one).is_none(), "{span:?} twice");
        }
        prop_assert!(collections.len() > 10);
        let operations = operations(&spans, &tracks);
        let mut purposes = BTreeSet::new();
        for (number, span) in &operations {
            let whom = span.whom;
            purposes.insert(whom.purpose);
            match whom.purpose {
                Purpose::Command | Purpose::Map if whom.first_command().is_some() => {
                    let first = whom.number;
                    // One that takes no time has no row, nor has one that is under way.
                    let Some(&(kind, .., begin, end, _)) = commands.get(&first) else { continue };
                    prop_assert!(begin <= span.begin, "{span:?}");
                    match span.cause {
                        Cause::HostRead => prop_assert!(span.end <= end, "{span:?} {kind:?}"),
                        _ => prop_assert_eq!(kind, What::Write),
                    }
                    if span.activity == What::Program {
                        prop_assert_eq!(kind, What::Write);
                        prop_assert!(whom.commands <= 4 * 2, "{span:?}: slots of two planes");
                    } else {
                        // Reads of several planes in lockstep are one.
                        let most = if spec.plane_mode == Planes::Lockstep { spec.planes } else { 1 };
                        prop_assert!(whom.commands <= most, "{span:?}");
                    }
                }
                Purpose::Collection => {
                    prop_assert_eq!(span.cause, Cause::Housekeeping);
                    let Some(&(plane, begin, end)) = collections.get(&whom.number) else { continue };
                    // A block whose last units do not fill a page is erased after the next one's.
                    let late = (spec.ftl == "hybrid" || slots > 0) && span.activity == What::Erase;
                    prop_assert!(begin <= span.begin && (late || span.end <= end), "{number} {span:?}");
                    let track = &tracks[span.track as usize];
                    if track.kind == TrackKind::Nand && track.plane.is_some() {
                        prop_assert_eq!((track.lun, track.plane), plane, "{:?}", span);
                    }
                }
                Purpose::Map => prop_assert_eq!(spec.ftl.as_str(), "dftl"),
                other => prop_assert!(false, "{other:?}: {span:?}"),
            }
        }
        prop_assert!(purposes.contains(&Purpose::Command) && purposes.contains(&Purpose::Collection));
        let through = buffer == 0 || spec.ftl == "hybrid";
        for (number, (kind, .., after)) in &commands {
            let Some(operation) = after.and_then(|after| operations.get(&after)) else { continue };
            let its = operation.whom.purpose == Purpose::Command
                && (*kind == What::Read || through);
            if its && operation.whom.commands == 1 {
                prop_assert_eq!(operation.whom.number, *number, "{:?}", operation);
            } else if its {
                prop_assert!(operation.whom.number <= *number, "{:?}", operation);
            }
        }
    }

    /// Writes in order, of one unit each: each page, or in lockstep the pages of all planes of a LUN,
    /// has the data of so many, one after the other.
    #[test]
    fn a_page_is_for_all_whose_data_it_gathers(slots in 0u32..4, lockstep in any::<bool>()) {
        let planes = 2;
        let plane_mode = if lockstep { Planes::Lockstep } else { Planes::Independent };
        let stripe = "plane,channel,lun".into();
        let page_size = 4096 << slots;
        let spec = Spec { planes, plane_mode, page_size, buffer: 256 << 10, stripe, ..small() };
        let (mut ssd, tracks) = watched(&spec, CAPACITY);
        run(&mut ssd, 0, 32, 512, |unit| on(Operation::Write, unit, 1));
        drain(&mut ssd);
        let spans = taken(&mut ssd);
        let programs = operations(&spans, &tracks);
        let cells = spans.iter().filter(|span| span.step == Step::Cells);
        let ran: BTreeSet<u64> = cells.map(|span| span.number).collect();
        let mut next = 0;
        for (number, span) in programs.iter().filter(|(number, _)| ran.contains(number)) {
            prop_assert_eq!(span.whom.purpose, Purpose::Command);
            prop_assert_eq!(span.whom.number, next, "{} {:?}", number, span);
            next += u64::from(span.whom.commands);
            let most = if lockstep { 2 } else { 1 };
            prop_assert!(span.whom.commands <= most << slots);
        }
        // Data that does not fill a page stays in memory.
        prop_assert!((512 - (1 << slots)..=512).contains(&next), "{next}");
    }
}

#[test]
fn data_in_memory_is_of_the_command_that_wrote_it_last() {
    let spec = Spec { page_size: 8192, buffer: 64 << 10, ..small() };
    let (mut ssd, tracks) = watched(&spec, CAPACITY);
    // The second takes the place of the first, while that waits for another to fill its page.
    for (number, unit) in [(0, 5), (1, 5), (2, 9), (3, 6)] {
        let operation = if unit == 9 { Operation::Read } else { Operation::Write };
        ssd.submit(number * 100_000, 0, &on(operation, unit, 1));
        drain(&mut ssd);
    }
    let spans = taken(&mut ssd);
    let programs = operations(&spans, &tracks);
    let whoms = programs.values().map(|span| (span.whom.number, span.whom.commands));
    assert_eq!(whoms.collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!(commands(&spans, &tracks).into_keys().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn zones_scrubs_and_reads_ahead_say_so() {
    let purposes = |spans: &[Span], tracks: &[Track]| -> BTreeMap<(u8, u8), BTreeSet<u64>> {
        let mut all = BTreeMap::<_, BTreeSet<u64>>::new();
        for span in operations(spans, tracks).values() {
            let key = all.entry((span.activity as u8, span.whom.purpose as u8)).or_default();
            key.extend(span.whom.first_command());
        }
        all
    };
    let key = |activity: What, purpose: Purpose| (activity as u8, purpose as u8);
    let zone_size = Some(256 << 10);
    let spec =
        Spec { ftl: "zoned".into(), zone_size, page_size: 8192, buffer: 64 << 10, ..small() };
    let (mut ssd, tracks) = watched(&spec, CAPACITY);
    run(&mut ssd, 0, 1, 4, |unit| on(Operation::Write, unit, 1));
    let now = drain(&mut ssd).last().map_or(ssd.now_for_tests(), |done| done.at);
    ssd.submit(now, 0, &on(Operation::Read, 0, 2));
    drain(&mut ssd);
    let now = ssd.now_for_tests();
    ssd.submit(now, 0, &Command::new(Operation::Discard, 0, 256 << 10));
    drain(&mut ssd);
    let all = purposes(&taken(&mut ssd), &tracks);
    let command = Purpose::Command;
    assert_eq!(all[&key(What::Program, command)], BTreeSet::from([0, 2]));
    assert_eq!(all[&key(What::Read, command)], BTreeSet::from([4]));
    assert_eq!(all[&key(What::Erase, command)], BTreeSet::from([5]));
    assert_eq!(all.len(), 3);

    let precondition = Some(Precondition::Sequential);
    let scrub = Some(ScrubSpec { period: 1_000_000_000, age: None, step: Some(3) });
    let ecc = Some(EccSpec::default());
    let read_cache = Some(ReadCacheSpec { read_ahead: 64 << 10, ..ReadCacheSpec::of(1 << 20) });
    let spec = Spec { precondition, scrub, ecc, read_cache, ..small() };
    let (mut ssd, tracks) = watched(&spec, CAPACITY);
    run(&mut ssd, 0, 1, 200, |unit| on(Operation::Read, unit, 1));
    drain_commands(&mut ssd);
    let all = purposes(&taken(&mut ssd), &tracks);
    let read = |purpose| all.get(&key(What::Read, purpose)).map(BTreeSet::len);
    assert!(read(command) > Some(0));
    assert_eq!((read(Purpose::ReadAhead), read(Purpose::Visit)), (Some(0), Some(0)));
    assert!(!all.contains_key(&key(What::Read, Purpose::None)));
}

/// Runs for a while: a drive that is scrubbed is never idle.
fn drain_commands(ssd: &mut Ssd) {
    let until = ssd.now_for_tests() + 100_000_000;
    ssd.advance(until, &mut Vec::new());
}

#[test]
fn a_power_cut_leaves_nobodys_data() {
    let spec = Spec { page_size: 8192, buffer: 64 << 10, plp: true, ..small() };
    let (mut ssd, tracks) = watched(&spec, CAPACITY);
    run(&mut ssd, 0, 4, 21, |unit| on(Operation::Write, unit, 1));
    let now = ssd.now_for_tests();
    ssd.power_cut(now);
    drain(&mut ssd);
    let before = ssd.now_for_tests();
    run(&mut ssd, before, 1, 8, |unit| on(Operation::Write, 100 + unit, 1));
    drain(&mut ssd);
    let spans = taken(&mut ssd);
    let programs = operations(&spans, &tracks);
    let purposes: BTreeSet<_> = programs.values().map(|span| span.whom.purpose).collect();
    assert!(purposes.contains(&Purpose::Recovery) && purposes.contains(&Purpose::Command));
    assert!(!purposes.contains(&Purpose::None));
    let last = programs.values().next_back().unwrap();
    assert!(last.whom.number >= 21 && last.whom.purpose == Purpose::Command, "{last:?}");
}
