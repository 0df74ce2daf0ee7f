//! A drive whose power is cut on its way, against the history of its commands.

use crate::common;
use crate::common::{Latencies, Moody};
use crate::history;
use proptest::prelude::*;
use stasis_block::{BlockLayout, Command, Operation, Request, ZoneLayout, ZonedPart};
use stasis_drive::{Drive, Layer, PowerCuts, Sampling, WritePointers};
use stasis_models::{BuildContext, ModelSpec};

const SECTORS: u64 = 24;
const CAPACITY: usize = SECTORS as usize * common::SECTOR;

/// A submission: an operation, its first sector and its length, whether it is durable, and how
/// much later than the one before.
type Step = (u8, u64, u64, bool, u64);

fn command((kind, first, length, fua, _): Step) -> Command {
    let sector = common::SECTOR as u64;
    let (first, length) = (first % (SECTORS - 4), 1 + length % 4);
    let operation = match kind % 8 {
        0..=3 => Operation::Write,
        4 => Operation::WriteZeroes,
        5 => Operation::Discard,
        6 => Operation::Flush,
        _ => Operation::Read,
    };
    match operation {
        Operation::Flush => Command::flush(),
        _ => Command { fua, ..Command::new(operation, first * sector, length * sector) },
    }
}

fn sampling(which: u8, seed: u64) -> Sampling {
    match which {
        0 => Sampling::Least,
        1 => Sampling::Most,
        2 => Sampling::AllButOne(seed),
        3 => Sampling::Losing(seed),
        _ => Sampling::Random(seed),
    }
}

proptest! {
    #[test]
    fn a_cut_leaves_what_the_history_says_it_leaves(
        steps in prop::collection::vec(any::<(u8, u64, u64, bool, u16)>(), 1..40),
        seed: u64,
        which in 0u8..4,
    ) {
        let sampling = sampling(which, seed);
        let (medium, contents) = Moody::new(seed, CAPACITY);
        let model = Latencies::new(seed, 50_000);
        let drive = Drive::new(0, "disk".into(), model, Box::new(medium));
        let (tapped, history) = history::tap(Box::new(drive));
        let mut layer = PowerCuts::new(Box::new(tapped), 512, 2, false);
        let (mut now, mut done) = (0, Vec::new());
        for (number, &(kind, first, length, fua, later)) in steps.iter().enumerate() {
            let command = command((kind, first, length, fua, 0));
            let until = now + u64::from(later);
            while let Some(at) = layer.next_event().filter(|at| *at <= until) {
                layer.advance(at, &mut done);
            }
            now = until;
            let data = match command.operation {
                Operation::Write => vec![number as u8 + 1; command.length as usize],
                Operation::Read => vec![0; command.length as usize],
                _ => Vec::new(),
            };
            layer.submit(now, Request::new(number as u32, command, data));
        }
        let mut expected = vec![0; CAPACITY];
        history.lock().unwrap().cut(now, sampling, &mut expected);
        layer.control().cut_power(now, sampling);
        prop_assert_eq!(&contents.lock().unwrap().now, &expected);
        // A command in flight ends, and changes nothing any more: nothing is left to lose.
        let mut last = now;
        while let Some(at) = layer.next_event() {
            layer.advance(at, &mut done);
            last = last.max(at);
        }
        layer.control().cut_power(last, Sampling::Least);
        prop_assert_eq!(&contents.lock().unwrap().now, &expected);
    }
}

#[test]
fn a_drive_with_much_to_write_writes_its_oldest_changes() {
    let size = 4 * stasis_drive::power_cut::MAX_UNSETTLED;
    let (medium, contents) = Moody::new(1, size as usize);
    let drive = Drive::new(0, "disk".into(), Latencies::new(1, 10), Box::new(medium));
    let mut layer = PowerCuts::new(Box::new(drive), 512, 1, false);
    let piece = 1 << 20;
    let count = 40;
    for number in 0..count {
        let command = Command::new(Operation::Write, u64::from(number) * piece, piece);
        layer.submit(0, Request::new(number, command, vec![7; piece as usize]));
    }
    layer.control().cut_power(0, Sampling::Least);
    let now = &contents.lock().unwrap().now;
    let kept = now.chunks(piece as usize).take_while(|chunk| chunk[0] == 7).count();
    assert_eq!(kept, 8, "32 of 40 MiB can be lost");
    assert!(now[kept * piece as usize..].iter().all(|&byte| byte == 0));
}

#[test]
fn what_is_done_outside_of_time_stays() {
    let (medium, contents) = Moody::new(1, CAPACITY);
    let drive = Drive::new(0, "disk".into(), Latencies::new(1, 10), Box::new(medium));
    let mut layer = PowerCuts::new(Box::new(drive), 512, 1, false);
    let write = |first: u64, count: u64| Command::new(Operation::Write, first * 512, count * 512);
    layer.submit(0, Request::new(1, write(0, 4), vec![1; 2048]));
    // A fault takes the second sector back.
    layer.instant(write(1, 1), vec![9; 512]);
    layer.control().cut_power(0, Sampling::Least);
    let now = contents.lock().unwrap().now.clone();
    let sectors: Vec<u8> = now.chunks(512).take(4).map(|sector| sector[0]).collect();
    assert_eq!(sectors, [0, 9, 0, 0]);
}

#[test]
fn larger_blocks_are_whole_from_the_format_on() {
    let torn = |block: u32| {
        let torn = |seed: &u64| {
            let (medium, contents) = Moody::new(1, CAPACITY);
            let drive = Drive::new(0, "disk".into(), Latencies::new(1, 10), Box::new(medium));
            let mut layer = PowerCuts::new(Box::new(drive), 512, 1, false);
            layer.control().set_layout(&BlockLayout::new(block, Vec::new()));
            let write = Command::new(Operation::Write, 4096, 4096);
            layer.submit(0, Request::new(1, write, vec![1; 4096]));
            layer.control().cut_power(0, Sampling::Random(*seed));
            let now = contents.lock().unwrap().now.clone();
            !matches!(now[4096..8192].iter().filter(|&&byte| byte == 1).count(), 0 | 4096)
        };
        (0..40).filter(torn).count()
    };
    assert!(torn(512) > 0);
    assert_eq!(torn(4096), 0);
}

/// The data in a model's own write cache goes with the power, so that no flush waits for it any
/// more; what is in flight ends.
#[test]
fn what_a_model_holds_in_memory_goes_with_the_power() {
    const SIZE: u64 = 64 << 20;
    for (word, least, most) in [("flash-tlc", 400_000, 10_000), ("jpt39c", 10_000_000, 200_000)] {
        let flush_takes = |cuts: bool| {
            let context = BuildContext { seed: 1, capacity: SIZE, path: 0 };
            let model = ModelSpec::parse(word).unwrap().build(&context).unwrap();
            let (medium, _) = Moody::new(1, SIZE as usize);
            let drive = Drive::new(0, word.into(), model, Box::new(medium));
            let mut layer = PowerCuts::new(Box::new(drive), 512, 1, false);
            let (mut done, mut now) = (Vec::new(), 0);
            let mut all = |layer: &mut PowerCuts, mut now| {
                while layer.in_flight() > 0 {
                    now = layer.next_event().expect("everything ends");
                    layer.advance(now, &mut done);
                }
                now
            };
            for number in 0..16u8 {
                let write = Command::new(Operation::Write, u64::from(number) << 20, 4096);
                layer.submit(now, Request::new(number.into(), write, vec![number; 4096]));
                now = all(&mut layer, now);
            }
            if cuts {
                let read = Command::new(Operation::Read, SIZE / 2, 4096);
                (20..24).for_each(|tag| layer.submit(now, Request::new(tag, read, vec![0; 4096])));
                layer.control().cut_power(now, Sampling::Least);
                assert_eq!(all(&mut layer, now), now, "{word}: they end at once");
            }
            layer.submit(now, Request::new(30, Command::flush(), Vec::new()));
            all(&mut layer, now) - now
        };
        let [with, without] = [true, false].map(flush_takes);
        assert!(without > least && with < most, "{word}: {with} ns, without a cut {without} ns");
    }
}

/// Sectors of a zone.
const ZONE: u64 = 8;

/// Zones as two commands after the other leave them: the tag of each written sector.
type Zones = [Vec<u8>; 3];

proptest! {
    #[test]
    fn zones_end_where_a_cut_has_left_them(
        // The zone; how many sectors are written, or else that it is reset, or all are flushed;
        // how long until the next command.
        steps in prop::collection::vec((0..3usize, 0..7u64, any::<u16>()), 1..40),
        before in prop::collection::vec(0..=ZONE, 3),
        seed: u64,
        which in 0u8..4,
    ) {
        let sampling = sampling(which, seed);
        let sector = common::SECTOR as u64;
        let start = |zone: usize| zone as u64 * ZONE * sector;
        let (medium, contents) = Moody::new(seed, CAPACITY);
        let drive = Drive::new(0, "disk".into(), Latencies::new(seed, 50_000), Box::new(medium));
        let ends = before.iter().enumerate().map(|(zone, sectors)| (start(zone), sectors * sector));
        let mut layer = PowerCuts::new(Box::new(drive), 512, 1, false)
            .with_pointers(WritePointers::new(ends));
        let zoned = ZonedPart { start: 0, end: 3 * ZONE * sector, size: ZONE * sector };
        let layout = BlockLayout::default().with_zones(ZoneLayout::new(vec![zoned]));
        layer.control().set_layout(&layout);
        let tags = |zone: &u64| vec![255; *zone as usize];
        let mut zones: Zones = [0, 1, 2].map(|zone: usize| tags(&before[zone]));
        for (zone, tags) in zones.iter().enumerate() {
            let data = vec![255; tags.len() * common::SECTOR];
            layer.instant(Command::new(Operation::Write, start(zone), data.len() as u64), data);
        }
        let (mut now, mut done) = (0, Vec::new());
        // The states of all zones, and the one that the last flush has covered.
        let (mut states, mut covered, mut flushes) = (vec![zones.clone()], 0, Vec::new());
        for (number, &(zone, count, later)) in (0..).zip(&steps) {
            let room = ZONE - zones[zone].len() as u64;
            let (command, data) = match count {
                5 => (Command::flush(), Vec::new()),
                6 => (Command::new(Operation::Discard, start(zone), ZONE * sector), Vec::new()),
                count => {
                    let count = (count + 1).min(room);
                    let at = start(zone) + zones[zone].len() as u64 * sector;
                    let data = vec![number as u8 + 1; (count * sector) as usize];
                    (Command::new(Operation::Write, at, count * sector), data)
                }
            };
            match command.operation {
                Operation::Flush => flushes.push((number, states.len() - 1)),
                Operation::Discard => zones[zone].clear(),
                _ if command.length == 0 => continue,
                _ => zones[zone].extend(data.chunks(common::SECTOR).map(|sector| sector[0])),
            }
            states.push(zones.clone());
            layer.submit(now, Request::new(number, command, data));
            now += u64::from(later) * 4;
            while let Some(at) = layer.next_event().filter(|at| *at <= now) {
                layer.advance(at, &mut done);
            }
            for one in done.drain(..) {
                let flush = flushes.iter().find(|(number, _)| *number == one.tag);
                covered = covered.max(flush.map_or(0, |(_, state)| *state));
            }
        }
        let ends = layer.control().cut_power(now, sampling).expect("it has zones");
        let ends: std::collections::BTreeMap<u64, u64> = ends.bytes().collect();
        let contents = &contents.lock().unwrap().now;
        for zone in 0..3 {
            let end = ends.get(&start(zone)).map_or(0, |bytes| bytes / sector) as usize;
            let sectors = contents[start(zone) as usize..].chunks(common::SECTOR);
            let there: Vec<u8> = sectors.take(end).map(|sector| sector[0]).collect();
            // Some of what was written after a state that the zone had since the last flush.
            let possible = states[covered..].windows(2).any(|pair| {
                let (old, new) = (&pair[0][zone], &pair[1][zone]);
                there == *old || (new.starts_with(&there) && there.len() >= old.len())
            });
            let last = &states[states.len() - 1][zone];
            prop_assert!(possible || there == *last, "zone {zone} ends at {end}: {there:?}");
            if which == 1 {
                prop_assert_eq!(&there, last, "nothing is lost");
            }
        }
    }
}
