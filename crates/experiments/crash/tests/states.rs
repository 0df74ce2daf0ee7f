//! States of power cuts and their judgement, against the simplest reference.

use std::collections::HashSet;

use proptest::prelude::*;
use stasis_block::{CacheKind, Command, Operation, PowerLoss, Status};
use stasis_crash::{
    Content, Enumerator, EventKind, Frame, Level, Oracle, Promise, Trace, TraceHeader, TraceWriter,
    TracedDrive,
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

/// The same as a trace.
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

/// What each sector holds in a state.
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
        // What failed may be there or not; the reference does not know of it.
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
        let mut enumerator = Enumerator::new(&trace);
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
            let random = draws.iter().map(|&draw| Sampling::Random(draw));
            for sampling in [Sampling::Least, Sampling::Most].into_iter().chain(random) {
                let disk = disk(&enumerator, sampling);
                let place = |sector: u64| disk[sector as usize];
                prop_assert_eq!(oracle.check(point, at, |_, sector| place(sector)), Ok(()));
                prop_assert!(permitted.contains(&disk), "{sampling:?} at {at}");
            }
        }
    }

    /// A print tells disks apart by their contents alone.
    #[test]
    fn prints_are_those_of_contents(steps in steps(), draws in prop::collection::vec(any::<u64>(), 4)) {
        let trace = trace(&steps, PowerLoss::default());
        let mut enumerator = Enumerator::new(&trace);
        let mut seen: Vec<(u128, Vec<Option<Content>>)> = Vec::new();
        for point in 0..=trace.events.len() as u32 {
            enumerator.go_to(point);
            for &draw in &draws {
                let crashed = &enumerator.cut(Sampling::Random(draw))[0];
                let held = |sector| crashed.get(sector).or_else(|| enumerator.settled(0).get(sector));
                let disk: Vec<_> = (0..SECTORS).map(held).collect();
                for (print, other) in &seen {
                    prop_assert_eq!(*print == crashed.print, *other == disk);
                }
                seen.push((crashed.print, disk));
            }
        }
    }

    /// An ordered disk: what a prefix of the guest's flushes leaves is allowed,
    /// and nothing else is.
    #[test]
    fn a_prefix_is_in_order_and_anything_else_is_not(
        writes in prop::collection::vec((0..SECTORS, any::<bool>()), 1..30),
        chosen in any::<prop::sample::Index>(),
        broken in any::<prop::sample::Index>(),
    ) {
        // One after the other, each write its own content.
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
