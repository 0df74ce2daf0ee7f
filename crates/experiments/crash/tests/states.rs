//! States of power cuts and their judgement, against the simplest reference.

use std::collections::HashSet;

use proptest::prelude::*;
use stasis_block::{CacheKind, Command, Operation, PowerLoss, Status};
use stasis_crash::{
    Content, Cut, Enumerator, EventKind, Frame, Level, Loss, Oracle, Place, Promise, StateSampler,
    Trace, TraceHeader, TraceWriter, TracedDevice, TracedDrive,
};
use stasis_drive::Sampling;

#[path = "../../../drives/drive/tests/common/permitted.rs"]
mod permitted;

use permitted::Permitted;

const SECTORS: u64 = 12;

/// Commands at random: their times, some overlapping, some never over.
#[derive(Debug, Clone)]
struct Step {
    kind: u8,
    sector: u64,
    count: u64,
    fua: bool,
    gap: u64,
    duration: Option<u64>,
    failed: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..8u8, 0..SECTORS, 1..4u64, 0..5u8, 0..30u64, 0..60u64, 0..20u8).prop_map(
        |(kind, sector, count, fua, gap, duration, odd)| Step {
            kind,
            sector,
            count: count.min(SECTORS - sector),
            fua: fua == 0,
            gap,
            duration: (odd != 1).then_some(duration),
            failed: odd == 2,
        },
    );
    prop::collection::vec(step, 1..25)
}

fn power_losses() -> impl Strategy<Value = PowerLoss> {
    let cache = prop_oneof![
        2 => Just(CacheKind::Unbounded),
        3 => (1..8u64).prop_map(|sectors| CacheKind::Volatile(sectors * 512)),
        1 => Just(CacheKind::Protected),
    ];
    (cache, 1..4u64).prop_map(|(cache, unit)| PowerLoss::new(cache, unit * 512))
}

/// The steps as a trace.
fn trace(steps: &[Step], power_loss: PowerLoss) -> Trace {
    let mut stream = Vec::new();
    let (drive, level) = (0, Level::Guest);
    let capacity = SECTORS * 512;
    Frame::Drive { drive, level, capacity, discard_zeroes: true, power_loss }.encode(&mut stream);
    let mut now = 0;
    let mut ends = Vec::new();
    let mut submits = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        now += step.gap;
        let mut command = match step.kind {
            0..=3 => Command::new(Operation::Write, step.sector * 512, step.count * 512),
            4 => Command::new(Operation::WriteZeroes, step.sector * 512, step.count * 512),
            5 => Command::barrier(),
            _ => Command::flush(),
        };
        command.fua = step.fua && command.operation == Operation::Write;
        let data = match command.operation {
            Operation::Write => vec![place as u8 + 1; command.length as usize],
            _ => Vec::new(),
        };
        submits.push((now, place, command, data));
        if let Some(duration) = step.duration {
            let status = if step.failed { Status::WriteError } else { Status::Ok };
            ends.push((now + duration, place, status));
        }
    }
    for (at, place, command, data) in submits {
        let place = place as u64;
        let frame = Frame::Request { drive, level, place, at, command, data: &data };
        frame.encode(&mut stream);
    }
    for (at, place, status) in ends {
        Frame::Completion { drive, level, place: place as u64, at, status }.encode(&mut stream);
    }
    let mut file = Vec::new();
    let header = TraceHeader { drives: vec![TracedDrive::default()], ..TraceHeader::default() };
    let mut writer = TraceWriter::new(&mut file, &header).unwrap();
    writer.piece(&stream).unwrap();
    writer.finish().unwrap();
    Trace::load(&file[..], &mut |_, _, _| Ok(())).unwrap()
}

/// Content of each sector in a state.
fn disk(enumerator: &Enumerator, sampling: Sampling) -> Vec<Content> {
    let crashed = &enumerator.cut(sampling)[0];
    (0..SECTORS)
        .map(|sector| {
            let held = crashed.get(sector).or_else(|| enumerator.settled(0).get(sector));
            held.unwrap_or(Content::ZERO)
        })
        .collect()
}

/// Every disk that a drive can have, in the order of sectors.
fn disks(trace: &Trace, reference: &Permitted) -> HashSet<Vec<Content>> {
    let log = &trace.drives[0].guest;
    let content = |sector: usize, from: usize| match from.checked_sub(1) {
        None => Content::ZERO,
        Some(place) => {
            let mut sectors = log.sectors(place);
            sectors.find(|(other, _)| *other == sector as u64).unwrap().1
        }
    };
    let disk = |medium: &Vec<usize>| {
        medium.iter().enumerate().map(|(sector, &from)| content(sector, from)).collect()
    };
    reference.media().iter().map(disk).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No state is made that a drive cannot leave, and no oracle blames one of a
    /// drive that keeps its word.
    #[test]
    fn states_are_permitted_and_not_blamed(
        steps in steps(),
        power_loss in power_losses(),
        draws in prop::collection::vec(any::<u64>(), 6),
    ) {
        // A failed write may be present or not; the reference ignores it.
        let well = |step: Step| Step { failed: false, sector: step.sector % 4, ..step };
        let steps: Vec<Step> = steps
            .into_iter()
            .take(9)
            .map(well)
            .map(|step| Step { count: step.count.min(4 - step.sector), ..step })
            .collect();
        let trace = trace(&steps, power_loss);
        let oracle = Oracle::new(&trace.drives[0].guest, Promise::Durable, true);
        let mut reference = Permitted::new(power_loss, SECTORS as usize);
        let mut enumerator = Enumerator::new(&trace, false);
        for point in 0..=trace.events.len() as u32 {
            enumerator.go_to(point);
            if let Some(last) = point.checked_sub(1) {
                match trace.events[last as usize].kind {
                    EventKind::Request(_, _, place) => {
                        let request = &trace.drives[0].guest.requests[place as usize];
                        reference.submit(request.command);
                    }
                    EventKind::Completion(_, _, place) => reference.end(place as usize),
                    EventKind::Output => {}
                }
            }
            let permitted = disks(&trace, &reference);
            let at = trace.time(point);
            let drawn = draws.iter().flat_map(|&draw| [Sampling::AllButOne(draw), Sampling::Losing(draw), Sampling::Random(draw)]);
            for sampling in [Sampling::Least, Sampling::Most, Sampling::Newest, Sampling::Oldest].into_iter().chain(drawn) {
                let disk = disk(&enumerator, sampling);
                let place = |sector: u64| disk[sector as usize];
                prop_assert_eq!(oracle.check(point, at, |_, sector| place(sector)), Ok(()));
                prop_assert!(permitted.contains(&disk), "{sampling:?} at {at}");
            }
        }
    }

    /// A print depends on a disk's contents alone.
    #[test]
    fn prints_are_those_of_contents(steps in steps(), draws in prop::collection::vec(any::<u64>(), 4)) {
        let trace = trace(&steps, PowerLoss::default());
        let mut enumerator = Enumerator::new(&trace, false);
        let mut known: Vec<(u128, Vec<Option<Content>>)> = Vec::new();
        for point in 0..=trace.events.len() as u32 {
            enumerator.go_to(point);
            for &draw in &draws {
                let crashed = &enumerator.cut(Sampling::Random(draw))[0];
                let held = |sector| crashed.get(sector).or_else(|| enumerator.settled(0).get(sector));
                let disk: Vec<_> = (0..SECTORS).map(held).collect();
                for (print, other) in &known {
                    prop_assert_eq!(*print == crashed.print, *other == disk);
                }
                known.push((crashed.print, disk));
            }
        }
    }

    /// An ordered disk: the state after a prefix of the guest's flushes is allowed, and nothing
    /// else is.
    #[test]
    fn a_prefix_is_in_order_and_anything_else_is_not(
        writes in prop::collection::vec((0..SECTORS, any::<bool>()), 1..30),
        chosen in any::<prop::sample::Index>(),
        broken in any::<prop::sample::Index>(),
    ) {
        // One write after the other, each with a different content.
        let steps: Vec<Step> = writes
            .iter()
            .flat_map(|&(sector, flush)| {
                let step = |kind| Step {
                    kind, sector, count: 1, fua: false, gap: 10, duration: Some(5), failed: false,
                };
                let mut all = vec![step(0)];
                all.extend(flush.then(|| step(7)));
                all
            })
            .collect();
        let trace = trace(&steps, PowerLoss::default());
        let oracle = Oracle::new(&trace.drives[0].guest, Promise::Ordered(u64::MAX), true);
        let log = &trace.drives[0].guest;
        let places: Vec<usize> = (0..steps.len()).filter(|&p| log.changes(p)).collect();
        let cut = chosen.index(places.len() + 1);
        let mut disk = vec![Content::ZERO; SECTORS as usize];
        for &place in &places[..cut] {
            for (sector, content) in log.sectors(place) {
                disk[sector as usize] = content;
            }
        }
        let (point, at) = (trace.events.len() as u32, 1 << 40);
        let verdict = |disk: &[Content]| oracle.check(point, at, |_, s| disk[s as usize]);
        prop_assert_eq!(verdict(&disk), Ok(()));
        // One write of an earlier epoch than the newest is taken away, for good.
        let epoch = |place: usize| steps[..place].iter().filter(|step| step.kind == 7).count();
        let Some(&newest) = places[..cut].last() else { return Ok(()) };
        let early: Vec<usize> =
            places[..cut].iter().copied().filter(|&p| epoch(p) < epoch(newest)).collect();
        if early.is_empty() {
            return Ok(());
        }
        let lost = early[broken.index(early.len())];
        let sector = steps[lost].sector;
        if places[..cut].iter().any(|&p| p > lost && steps[p].sector == sector) {
            return Ok(()); // overwritten: nobody sees it
        }
        let older = places[..cut].iter().rev().find(|&&p| p < lost && steps[p].sector == sector);
        let before = older.and_then(|&p| log.sectors(p).next());
        disk[sector as usize] = before.map_or(Content::ZERO, |(_, content)| content);
        prop_assert!(verdict(&disk).is_err(), "without {lost}");
    }
}

#[test]
fn what_is_lost_after_its_flush_is_named() {
    let write = |sector| Step {
        kind: 0,
        sector,
        count: 1,
        fua: false,
        gap: 10,
        duration: Some(5),
        failed: false,
    };
    let flush = Step { kind: 7, ..write(0) };
    let trace = trace(&[write(3), flush, write(4)], PowerLoss::default());
    let oracle = Oracle::new(&trace.drives[0].guest, Promise::Durable, true);
    let point = trace.events.len() as u32;
    let wrong = oracle.check(point, 100, |_, _| Content::ZERO).unwrap_err().to_string();
    assert!(wrong.contains("byte 0x600") && wrong.contains("durable"), "{wrong}");
    // Before the flush had ended, nothing was promised.
    let early = trace.point_at(24);
    assert_eq!(oracle.check(early, 24, |_, _| Content::ZERO), Ok(()));
}

/// A trace of these frames on one drive of 12 sectors.
fn of_frames(frames: &[Frame]) -> Trace {
    let (drive, level, capacity) = (0, Level::Guest, SECTORS * 512);
    let power_loss = PowerLoss::default();
    let mut stream = Vec::new();
    Frame::Drive { drive, level, capacity, discard_zeroes: true, power_loss }.encode(&mut stream);
    frames.iter().for_each(|frame| frame.encode(&mut stream));
    let header = TraceHeader { drives: vec![TracedDrive::default()], ..TraceHeader::default() };
    let mut file = Vec::new();
    let mut writer = TraceWriter::new(&mut file, &header).unwrap();
    writer.piece(&stream).unwrap();
    writer.finish().unwrap();
    Trace::load(&file[..], &mut |_, _, _| Ok(())).unwrap()
}

fn request(place: u64, at: u64, command: Command) -> Frame<'static> {
    let data = vec![place as u8 + 1; if command.operation == Operation::Write { 512 } else { 0 }];
    Frame::Request { drive: 0, level: Level::Guest, place, at, command, data: data.leak() }
}

fn completion(place: u64, at: u64) -> Frame<'static> {
    Frame::Completion { drive: 0, level: Level::Guest, place, at, status: Status::Ok }
}

#[test]
fn the_least_state_after_each_line_and_around_each_flush_is_always_there() {
    let write = |sector: u64| Command::new(Operation::Write, sector * 512, 512);
    // Three lines in two pieces, of which two promise data that was not flushed, and one flush.
    let trace = of_frames(&[
        Frame::Began { at: 10 },
        request(0, 11, write(0)),
        completion(0, 12),
        Frame::Output { at: 13, bytes: b"one\ntwo\nthr" },
        request(1, 14, Command::flush()),
        completion(1, 15),
        request(2, 16, write(1)),
        completion(2, 17),
        Frame::Output { at: 18, bytes: b"ee\n" },
        Frame::Over { at: 20 },
    ]);
    let points: Vec<u32> = trace.lines.iter().map(|(point, ..)| *point).collect();
    assert_eq!(points, [3, 3, 8]);
    for seed in 0..20 {
        let sampler = StateSampler::new(&trace, seed, trace.span());
        // The end is that of the last line; the flush ends with event 4.
        assert_eq!((sampler.fixed(), sampler.deciding()), (4, 4));
        let fixed: Vec<Cut> = (0..4).map(|number| sampler.cut(&trace, number)).collect();
        assert_eq!(fixed.iter().map(|cut| cut.point).collect::<Vec<_>>(), [8, 3, 5, 4]);
        assert!(fixed.iter().all(|cut| cut.sampling == Sampling::Least));
        // From the end of the flush on, and not before, the first write is there; the second never
        // is.
        let mut enumerator = Enumerator::new(&trace, false);
        for (cut, there) in [(fixed[1], 0), (fixed[3], 0), (fixed[2], 1), (fixed[0], 1)] {
            enumerator.go_to(cut.point);
            let held = disk(&enumerator, cut.sampling);
            let count = held.iter().filter(|content| **content != Content::ZERO).count();
            assert_eq!(count, there, "{cut:?}");
        }
        assert_eq!(sampler.cut(&trace, 9), Cut { number: 9, ..sampler.drawn(&trace, 5) });
    }
}

/// A write, one that must not come before it, and a flush: if the order between them is lost, the
/// state before the flush shows it in which only the newest write is there; or only the oldest, where a
/// page cache has turned the order round.
#[test]
fn a_flush_of_several_changes_is_cut_with_one_write_alone() {
    let write = |sector: u64| Command::new(Operation::Write, sector * 512, 512);
    let trace = of_frames(&[
        Frame::Began { at: 10 },
        request(0, 11, write(0)),
        completion(0, 12),
        request(1, 13, write(1)),
        completion(1, 14),
        request(2, 15, Command::flush()),
        completion(2, 16),
        request(3, 17, write(2)),
        completion(3, 18),
        request(4, 19, Command::flush()),
        completion(4, 20),
        request(5, 21, write(3)),
        completion(5, 22),
        request(6, 23, write(4)),
        completion(6, 24),
        request(7, 25, Command::flush()),
        completion(7, 26),
        Frame::Over { at: 27 },
    ]);
    let sampler = StateSampler::new(&trace, 1, trace.span());
    // The end, both sides of three flushes, and once more before the first and the last, which have two
    // changes. The end is the state after the last flush as well.
    assert_eq!(sampler.fixed(), 8);
    let alone: Vec<Cut> = (0..8)
        .map(|number| sampler.cut(&trace, number))
        .filter(|cut| cut.sampling != Sampling::Least)
        .collect();
    let [first, last] = alone[..] else { panic!("{alone:?}") };
    assert_eq!((first.number, first.point, sampler.place(6)), (6, 5, Place::BeforeFlush));
    assert_eq!((first.sampling, last.sampling), (Sampling::Newest, Sampling::Oldest));
    let mut enumerator = Enumerator::new(&trace, false);
    for (cut, there) in [(first, vec![1]), (last, vec![0, 1, 2, 3])] {
        enumerator.go_to(cut.point);
        let held = disk(&enumerator, cut.sampling).into_iter().enumerate();
        let held = held.filter(|(_, content)| *content != Content::ZERO).map(|(sector, _)| sector);
        assert_eq!(held.collect::<Vec<_>>(), there, "{cut:?}");
    }
}

#[test]
fn rounds_are_spread_over_the_run_and_begin_with_what_shows_most() {
    let mut frames = vec![Frame::Began { at: 1 }];
    for step in 0..400 {
        let at = 10 * (step + 1);
        let write = Command::new(Operation::Write, step % 64 * 512, 512);
        frames.extend([request(2 * step, at, write), completion(2 * step, at + 1)]);
        frames.extend([request(2 * step + 1, at + 2, Command::flush())]);
        frames.push(completion(2 * step + 1, at + 3));
        frames.push(Frame::Output { at: at + 4, bytes: b"step\n" });
    }
    frames.push(Frame::Over { at: 5_000 });
    let trace = of_frames(&frames);
    let sampler = StateSampler::new(&trace, 3, trace.span());
    let count = sampler.fixed() + 1000;
    let rounds = sampler.rounds(&trace, 0..count);
    let mut all: Vec<u64> = rounds.iter().flatten().map(|cut| cut.number).collect();
    all.sort_unstable();
    assert_eq!(all, (0..count).collect::<Vec<_>>(), "each state once");
    let first = &rounds[0];
    assert!(first.len() == 32 && first.iter().any(|cut| cut.number == 0), "{first:?}");
    assert!(first.is_sorted_by_key(|cut| cut.point), "in the order of time");
    let last = u64::from(trace.span().1);
    for quarter in 0..4 {
        let part = quarter * last / 4..(quarter + 1) * last / 4;
        let here = first.iter().filter(|cut| part.contains(&u64::from(cut.point))).count();
        assert!((4..=12).contains(&here), "{here} of 32 in quarter {quarter}");
    }
    let place = |cut: &Cut| sampler.place(cut.number);
    let change =
        rounds.iter().position(|round| round.iter().any(|cut| place(cut) > Place::BeforeFlush));
    let change = change.unwrap();
    assert!(rounds[change..].iter().flatten().all(|cut| place(cut) > Place::BeforeFlush));
    // One state alone is one round.
    assert_eq!(sampler.rounds(&trace, 7..8), [vec![sampler.cut(&trace, 7)]]);
}

#[test]
fn what_a_state_lacks_is_told_with_the_reason() {
    let two = |sector: u64| Command::new(Operation::Write, sector * 512, 1024);
    let one = |sector: u64| Command::new(Operation::Write, sector * 512, 512);
    let wide = |place: u64, at: u64, command: Command| Frame::Request {
        drive: 0,
        level: Level::Guest,
        place,
        at,
        command,
        data: vec![place as u8 + 1; 1024].leak(),
    };
    // Two writes that were acknowledged, one that overwrites the first, and one in flight.
    let trace = of_frames(&[
        wide(0, 1, two(0)),
        completion(0, 2),
        wide(1, 3, two(4)),
        completion(1, 4),
        request(2, 5, one(1)),
        completion(2, 6),
        request(3, 7, one(9)),
    ]);
    let mut enumerator = Enumerator::new(&trace, false);
    enumerator.go_to(trace.events.len() as u32);
    let losses = |sampling| -> Vec<_> {
        let lost = enumerator.losses(0, sampling).into_iter();
        lost.map(|lost| (lost.place, lost.loss, lost.why)).collect()
    };
    use stasis_crash::LossReason::{Cached, InFlight, Reordered, Torn};
    assert_eq!(
        losses(Sampling::Least),
        [(0, Cached), (1, Cached), (2, Cached), (3, InFlight)].map(|(place, why)| (
            place,
            Loss::Whole,
            why
        ))
    );
    assert_eq!(losses(Sampling::Most), []);
    let mut reasons = HashSet::new();
    for seed in 0..400 {
        let sampling = Sampling::Random(seed);
        let held = disk(&enumerator, sampling);
        let lost = losses(sampling);
        // A state lacks what its disk lacks.
        let has = |sector: usize, place: usize| {
            let log = &trace.drives[0].guest;
            let content = log.sectors(place).find(|(at, _)| *at == sector as u64).unwrap().1;
            held[sector] == content
        };
        let whole = |place| !lost.iter().any(|(lost, ..)| *lost == place);
        assert_eq!(whole(1), has(4, 1) && has(5, 1), "{lost:?}");
        assert_eq!(whole(2), has(1, 2), "{lost:?}");
        assert_eq!(whole(3), has(9, 3), "{lost:?}");
        // Its second sector is overwritten, unless that is lost as well.
        assert_eq!(whole(0), has(0, 0) && (has(1, 0) || has(1, 2)), "{lost:?}");
        for (place, loss, why) in lost {
            let later = (place + 1..4).any(|later| match later {
                1 => has(4, 1) || has(5, 1),
                2 => has(1, 2),
                _ => has(9, 3),
            });
            match (loss, why) {
                (Loss::Torn { kept: 1, total: 2 }, Torn) => assert!(place < 2),
                (Loss::Whole, Reordered) => assert!(later),
                (Loss::Whole, Cached) => assert!(!later && place < 3),
                (Loss::Whole, InFlight) => assert!(!later && place == 3),
                other => panic!("{place}: {other:?}"),
            }
            reasons.insert(format!("{why:?}"));
        }
    }
    assert_eq!(reasons.len(), 4, "{reasons:?}");
}

#[test]
fn a_change_was_promised_by_the_first_flush_after_it() {
    let write = |sector: u64| Command::new(Operation::Write, sector * 512, 512);
    let trace = of_frames(&[
        request(0, 1, write(0)),
        request(1, 2, Command::flush()), // submitted while the write was in flight
        completion(0, 3),
        completion(1, 4),
        request(2, 5, Command::flush()),
        completion(2, 6),
        request(3, 7, Command::flush()),
        request(4, 7, Command { fua: true, ..write(1) }),
        completion(3, 8),
        completion(4, 9),
        request(5, 10, write(2)),
        completion(5, 11),
    ]);
    let log = &trace.drives[0].guest;
    let by = |place, at| log.promised_by(place, trace.point_at(at));
    assert_eq!([by(0, 4), by(0, 5), by(0, 6), by(0, 20)], [None, None, Some(2), Some(2)]);
    assert_eq!([by(4, 8), by(4, 9)], [None, Some(4)]);
    assert_eq!([by(5, 20), by(77, 20)], [None, None]);
}

#[test]
fn flushes_that_cover_a_write_in_flight_are_counted() {
    let write = |sector: u64| Command::new(Operation::Write, sector * 512, 512);
    let durable = |sector: u64| Command { fua: true, ..write(sector) };
    let mut frames = vec![
        request(0, 1, write(0)),
        request(1, 2, Command::flush()),
        completion(0, 3),
        completion(1, 4),
    ];
    assert_eq!(of_frames(&frames).drives[0].guest.overlapping_flushes(), 1);
    // A write that ended before, one that ends later, and one that is durable by itself do not
    // count.
    frames.extend([
        request(2, 5, write(1)),
        completion(2, 6),
        request(3, 7, durable(2)),
        request(4, 8, write(3)),
        request(5, 9, Command::flush()),
        completion(3, 10),
        completion(5, 11),
        completion(4, 12),
    ]);
    let trace = of_frames(&frames);
    assert_eq!(trace.drives[0].guest.overlapping_flushes(), 1);
    let kept = |strict| {
        let mut enumerator = Enumerator::new(&trace, strict);
        enumerator.go_to(trace.point_at(4));
        disk(&enumerator, Sampling::Least)[0] != Content::ZERO
    };
    assert_eq!([kept(false), kept(true)], [true, false]);
}

#[test]
fn of_formats_the_largest_block_is_never_torn() {
    let format = |block: u64| {
        let power_loss = PowerLoss::default().for_blocks(block);
        let (drive, level, capacity) = (0, Level::Guest, SECTORS * 512);
        Frame::Drive { drive, level, capacity, discard_zeroes: true, power_loss }
    };
    let write = || request(0, 1, Command::new(Operation::Write, 0, 512));
    let trace = of_frames(&[write(), completion(0, 2), format(4096), format(512)]);
    assert_eq!(trace.drives[0].guest.power_loss.atomic_unit, 4096);
    assert_eq!(of_frames(&[format(4096), write()]).drives[0].guest.power_loss.atomic_unit, 4096);
}

#[test]
fn write_pointers_are_where_the_zones_data_ends() {
    let zones = stasis_nvme::Zones::new(4 * 512);
    let names = vec!["nvme0n1".to_owned(), "nvme0n2".to_owned()];
    let device =
        TracedDevice { names, namespace: 6144 / 2, zones: Some(zones), ..TracedDevice::default() };
    assert_eq!(device.namespaces(6144), [(0, 3072), (3072, 3072)]);
    let drive = TracedDrive { device, ..TracedDrive::default() };
    let header = TraceHeader { drives: vec![drive], ..TraceHeader::default() };
    let write = |sector: u64| Command::new(Operation::Write, sector * 512, 512);
    let (drive, level, capacity) = (0, Level::Guest, SECTORS * 512);
    let power_loss = PowerLoss::default();
    let mut stream = Vec::new();
    Frame::Drive { drive, level, capacity, discard_zeroes: false, power_loss }.encode(&mut stream);
    // The second namespace's first zone begins with sector 6.
    let commands = [
        write(0),
        write(6),
        write(7),
        Command::flush(),
        write(1),
        Command::new(Operation::Discard, 3072, 2048),
        write(6),
        Command::flush(),
    ];
    for (place, command) in commands.into_iter().enumerate() {
        let at = place as u64 * 10;
        request(place as u64, at, command).encode(&mut stream);
        completion(place as u64, at + 5).encode(&mut stream);
    }
    let mut file = Vec::new();
    let mut writer = TraceWriter::new(&mut file, &header).unwrap();
    writer.piece(&stream).unwrap();
    writer.finish().unwrap();
    let trace = Trace::load(&file[..], &mut |_, _, _| Ok(())).unwrap();
    let mut enumerator = Enumerator::new(&trace, false);
    let mut at = |time, sampling| {
        enumerator.go_to(trace.point_at(time));
        enumerator.cut(sampling)[0].pointers.clone()
    };
    assert_eq!(at(25, Sampling::Most), [(0, 1), (6, 2)]);
    assert_eq!(at(25, Sampling::Least), []);
    assert_eq!(at(65, Sampling::Least), [(0, 1), (6, 2)]);
    assert_eq!(at(65, Sampling::Most), [(0, 2), (6, 1)]);
    assert_eq!(at(75, Sampling::Least), [(0, 2), (6, 1)]);
    // Zones that an earlier run has written are there, until they are reset.
    let mut trace = trace;
    trace.header.drives[0].device.written = vec![(2048, 1024), (3072, 512)];
    let mut enumerator = Enumerator::new(&trace, false);
    let mut at = |time, sampling| {
        enumerator.go_to(trace.point_at(time));
        enumerator.cut(sampling)[0].pointers.clone()
    };
    assert_eq!(at(0, Sampling::Least), [(4, 2), (6, 1)]);
    assert_eq!(at(75, Sampling::Least), [(0, 2), (4, 2), (6, 1)]);
}
