//! States of power cuts and their judgement, against the simplest reference.

use proptest::prelude::*;
use stasis_block::{Command, Operation, Status};
use stasis_crash::{
    Content, Frame, Head, HeadDrive, Judge, Level, Manner, Promise, RecordWriter, Story, Walk,
};
use stasis_drive::History;

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

/// The same as a record and as a history.
fn story(steps: &[Step]) -> (Story, History) {
    let (mut stream, mut history) = (Vec::new(), History::default());
    let (drive, level) = (0, Level::Guest);
    let capacity = SECTORS * 512;
    Frame::Drive { drive, level, capacity, discard_zeroes: true }.encode(&mut stream);
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
        history.submitted(now, command, data.clone());
        submits.push((now, place, command, data));
        if let Some(duration) = step.duration {
            let status = if step.failed { Status::WriteError } else { Status::Ok };
            ends.push((now + duration, place, status));
            history.ended(place, now + duration, status);
        }
    }
    for (at, place, command, data) in submits {
        let place = place as u64;
        let frame = Frame::Submitted { drive, level, place, at, command, data: &data };
        frame.encode(&mut stream);
    }
    for (at, place, status) in ends {
        Frame::Ended { drive, level, place: place as u64, at, status }.encode(&mut stream);
    }
    let mut file = Vec::new();
    let head = Head { drives: vec![HeadDrive::default()], ..Head::default() };
    let mut writer = RecordWriter::new(&mut file, &head).unwrap();
    writer.piece(&stream).unwrap();
    writer.finish().unwrap();
    (Story::load(&file[..], &mut |_, _, _| Ok(())).unwrap(), history)
}

/// What each sector holds in a state.
fn disk(walk: &Walk, manner: Manner) -> Vec<Content> {
    let remains = &walk.cut(manner)[0];
    (0..SECTORS)
        .map(|sector| {
            let held = remains.get(sector).or_else(|| walk.settled(0).get(sector));
            held.unwrap_or(Content::ZERO)
        })
        .collect()
}

/// Whether a history allows a disk that was zeroes, tried by brute force: by
/// epoch, each sector anything that a subset of its writes leaves.
fn allows(story: &Story, history: &History, at: u64, disk: &[Content]) -> bool {
    let cut = history.cut(at);
    let changes: Vec<usize> = cut.changes().collect();
    let trace = &story.drives[0].guest;
    // Sectors are torn each by itself, so each is asked alone, but for the
    // newest epoch that is left.
    let epochs: Vec<usize> = (0..history.events().len())
        .map(|place| {
            let before = &history.events()[..place];
            before.iter().filter(|e| e.command.operation == Operation::Barrier).count()
        })
        .collect();
    (0..=epochs.last().copied().unwrap_or(0)).any(|newest| {
        let must = |place: usize| cut.is_durable(place) || epochs[place] < newest;
        let may = |place: usize| epochs[place] <= newest;
        changes.iter().all(|&place| !cut.is_durable(place) || may(place))
            && (0..SECTORS).all(|sector| {
                // What can be the last that is left of the sector.
                let mut possible = vec![Content::ZERO];
                for &place in changes.iter().filter(|&&place| may(place)) {
                    let Some((_, content)) = trace.sectors(place).find(|(s, _)| *s == sector)
                    else {
                        continue;
                    };
                    if must(place) {
                        possible.clear();
                    }
                    possible.push(content);
                }
                possible.contains(&disk[sector as usize])
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No state is made that the drive's cache does not allow, and no judge
    /// blames one of a drive that keeps its word.
    #[test]
    fn states_are_allowed_and_not_blamed(steps in steps(), draws in prop::collection::vec(any::<u64>(), 6)) {
        // What failed may be there or not; History says nothing of it.
        let steps: Vec<Step> = steps.into_iter().map(|step| Step { failed: false, ..step }).collect();
        let (story, history) = story(&steps);
        let judge = Judge::new(&story.drives[0].guest, Promise::Durable, true);
        let last = story.moments.len() as u32;
        let mut walk = Walk::new(&story);
        for position in 0..=last {
            walk.go_to(position);
            let at = story.time(position);
            let whole = story.position(at) == position;
            let random = draws.iter().map(|&draw| Manner::Random(draw));
            for manner in [Manner::Least, Manner::Most].into_iter().chain(random) {
                let disk = disk(&walk, manner);
                let place = |sector: u64| disk[sector as usize];
                prop_assert_eq!(judge.judge(position, at, |_, sector| place(sector)), Ok(()));
                // History knows only instants after all that happens at a time.
                if whole && position > 0 {
                    prop_assert!(allows(&story, &history, at, &disk), "{manner:?} at {at}");
                }
            }
        }
    }

    /// A print tells disks apart by their contents alone.
    #[test]
    fn prints_are_those_of_contents(steps in steps(), draws in prop::collection::vec(any::<u64>(), 4)) {
        let (story, _) = story(&steps);
        let mut walk = Walk::new(&story);
        let mut seen: Vec<(u128, Vec<Option<Content>>)> = Vec::new();
        for position in 0..=story.moments.len() as u32 {
            walk.go_to(position);
            for &draw in &draws {
                let remains = &walk.cut(Manner::Random(draw))[0];
                let held = |sector| remains.get(sector).or_else(|| walk.settled(0).get(sector));
                let disk: Vec<_> = (0..SECTORS).map(held).collect();
                for (print, other) in &seen {
                    prop_assert_eq!(*print == remains.print, *other == disk);
                }
                seen.push((remains.print, disk));
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
        let (story, _) = story(&steps);
        let judge = Judge::new(&story.drives[0].guest, Promise::Ordered(u64::MAX), true);
        let trace = &story.drives[0].guest;
        let places: Vec<usize> = (0..steps.len()).filter(|&p| trace.changes(p)).collect();
        let cut = chosen.index(places.len() + 1);
        let mut disk = vec![Content::ZERO; SECTORS as usize];
        for &place in &places[..cut] {
            for (sector, content) in trace.sectors(place) {
                disk[sector as usize] = content;
            }
        }
        let (position, at) = (story.moments.len() as u32, 1 << 40);
        let judged = |disk: &[Content]| judge.judge(position, at, |_, s| disk[s as usize]);
        prop_assert_eq!(judged(&disk), Ok(()));
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
        let before = older.and_then(|&p| trace.sectors(p).next());
        disk[sector as usize] = before.map_or(Content::ZERO, |(_, content)| content);
        prop_assert!(judged(&disk).is_err(), "without {lost}");
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
    let (story, _) = story(&[write(3), flush, write(4)]);
    let judge = Judge::new(&story.drives[0].guest, Promise::Durable, true);
    let position = story.moments.len() as u32;
    let wrong = judge.judge(position, 100, |_, _| Content::ZERO).unwrap_err().to_string();
    assert!(wrong.contains("byte 0x600") && wrong.contains("durable"), "{wrong}");
    // Before the flush had ended, nothing was promised.
    let early = story.position(24);
    assert_eq!(judge.judge(early, 24, |_, _| Content::ZERO), Ok(()));
}
