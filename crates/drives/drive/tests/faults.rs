//! Faults of a drive against the simplest reference: an array of bytes, and the records of what
//! has happened.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use stasis_block::{Command, Delivery, Operation, Request, Status};
use stasis_drive::{Done, Drive, DriveFault, DriveFaultKind, Faults, Layer};
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_models::{BuildContext, ModelSpec};
use stasis_run_events::FaultRecord;

const CAPACITY: u64 = 1 << 20;
const LATENCY: u64 = 100_000;

fn drive() -> Drive {
    let medium = MediumSpec::Ram { size: CAPACITY };
    let execution = Execution::Synchronous;
    let options = OpenOptions { execution, delay: Duration::ZERO, base: Path::new("/") };
    let model: ModelSpec = ModelSpec::parse("fixed:100us").unwrap();
    let context = BuildContext { seed: 1, capacity: CAPACITY, path: 0 };
    Drive::new(0, "disk".into(), model.build(&context).unwrap(), medium.open(&options).unwrap())
}

fn faulty(faults: Vec<DriveFault>) -> Faults {
    Faults::new(Box::new(drive()), faults, 7)
}

#[test]
fn faults_of_a_controller_say_how_a_command_ends_and_change_nothing_else() {
    let kinds = DriveFaultKind::ALL.into_iter().filter(|kind| kind.delivery().is_some());
    assert_eq!(kinds.clone().count(), 5);
    for kind in kinds {
        let operations = vec![Operation::Read];
        let spec = DriveFault { first: 1, times: Some(1), operations, ..DriveFault::new(0, kind) };
        let mut layer = faulty(vec![spec]);
        layer.control().start(0);
        let mut now = 0;
        let data = vec![7; 4096];
        let write = Command::new(Operation::Write, 0, 4096);
        let read = Command::new(Operation::Read, 0, 4096);
        let ways: Vec<_> = [(write, data.clone()), (write, data.clone()), (read, vec![0; 4096])]
            .into_iter()
            .chain([(read, vec![0; 4096])])
            .map(|(command, buffer)| {
                let done = carry_out(&mut layer, &mut now, command, buffer);
                assert_eq!((done.status, &done.data), (Status::Ok, &data));
                done.delivery
            })
            .collect();
        let once = Delivery::Once;
        assert_eq!(ways, [once, once, kind.delivery().unwrap(), once], "{kind:?}");
        let mut records = Vec::new();
        layer.control().take_faults(&mut records);
        assert_eq!(records.iter().map(|record| record.order).collect::<Vec<_>>(), [Some(2)]);
    }
}

/// One command from submission to completion.
fn carry_out(layer: &mut Faults, now: &mut u64, command: Command, data: Vec<u8>) -> Done {
    layer.submit(*now, Request::new(3, command, data));
    let mut done = Vec::new();
    while done.is_empty() {
        *now = layer.next_event().expect("the command completes");
        layer.advance(*now, &mut done);
    }
    assert_eq!(layer.in_flight(), 0);
    done.remove(0)
}

fn records(layer: &mut Faults) -> Vec<FaultRecord> {
    let mut records = Vec::new();
    layer.control().take_faults(&mut records);
    records
}

fn write(offset: u64, length: u64) -> Command {
    Command::new(Operation::Write, offset, length)
}

fn read(offset: u64, length: u64) -> Command {
    Command::new(Operation::Read, offset, length)
}

#[test]
fn there_are_no_faults_before_the_start_and_outside_of_their_time_and_place() {
    let spec = DriveFault {
        begin: 1_000_000,
        end: Some(2_000_000),
        offset: 8192,
        length: Some(4096),
        ..DriveFault::new(0, DriveFaultKind::ReadError)
    };
    let mut layer = faulty(vec![spec]);
    let mut now = 0;
    let status = |layer: &mut Faults, now: &mut u64, offset| {
        carry_out(layer, now, read(offset, 4096), vec![0; 4096]).status
    };
    assert_eq!(status(&mut layer, &mut now, 8192), Status::Ok, "before the start");
    layer.control().start(now);
    assert_eq!(status(&mut layer, &mut now, 8192), Status::Ok, "before it begins");
    now += 1_000_000;
    assert_eq!(status(&mut layer, &mut now, 8192), Status::ReadError);
    assert_eq!(status(&mut layer, &mut now, 4096), Status::Ok, "beside it");
    assert_eq!(status(&mut layer, &mut now, 12288), Status::Ok, "behind it");
    now += 1_000_000;
    assert_eq!(status(&mut layer, &mut now, 8192), Status::Ok, "after its end");
    let records = records(&mut layer);
    assert_eq!(records.iter().map(|record| record.order).collect::<Vec<_>>(), [Some(2)]);
}

#[test]
fn a_slow_drive_takes_its_factor_and_its_delay_and_a_stall_ends_at_its_end() {
    let slow = DriveFault { factor: 3.0, delay: 50, ..DriveFault::new(0, DriveFaultKind::Slow) };
    let slow = DriveFault { operations: vec![Operation::Read], end: Some(1_000_000), ..slow };
    let stall = DriveFault::new(1, DriveFaultKind::Stall);
    let stall = DriveFault { begin: 5_000_000, end: Some(9_000_000), ..stall };
    let mut layer = faulty(vec![slow, stall]);
    layer.control().start(0);
    let mut now = 0;
    let mut time = |now: &mut u64, command: Command| {
        let done = carry_out(&mut layer, now, command, vec![0; command.length as usize]);
        done.at - done.submit
    };
    assert_eq!(time(&mut now, read(0, 4096)), 3 * LATENCY + 50);
    assert_eq!(time(&mut now, write(0, 4096)), LATENCY);
    now = 5_000_000 - LATENCY - 1;
    assert_eq!(time(&mut now, read(0, 4096)), LATENCY, "it ends before the stall");
    assert_eq!(time(&mut now, read(0, 4096)), 9_000_000 - (5_000_000 - 1));
    assert_eq!(time(&mut now, read(0, 4096)), LATENCY);
}

#[test]
fn a_fault_ends_by_a_word_and_lets_go_what_it_held_up() {
    let stall = |number| DriveFault::new(number, DriveFaultKind::Stall);
    let other = DriveFault { end: Some(7_000_000), operations: vec![Operation::Write], ..stall(1) };
    let rot = DriveFault { times: Some(1), ..DriveFault::new(2, DriveFaultKind::BitRot) };
    let mut layer = faulty(vec![stall(0), other, rot]);
    layer.control().start(0);
    let mut done = Vec::new();
    layer.submit(0, Request::new(1, read(0, 4096), vec![0; 4096]));
    layer.submit(0, Request::new(2, write(0, CAPACITY), vec![1; CAPACITY as usize]));
    layer.advance(LATENCY, &mut done);
    assert_eq!((done.len(), layer.next_event(), layer.in_flight()), (0, None, 2), "for ever");
    assert_eq!(layer.control().end_fault(9, 1_000_000), None);
    assert_eq!(layer.control().end_fault(0, 1_000_000), Some(2));
    assert_eq!(layer.control().end_fault(0, 1_000_000), None, "it is over");
    layer.advance(1_000_000, &mut done);
    // The write is still held by the other one.
    let ends: Vec<_> = done.iter().map(|one| (one.tag, one.at, one.layers.fault)).collect();
    assert_eq!(ends, [(1, 1_000_000, 1_000_000 - LATENCY)]);
    assert_eq!(layer.next_event(), Some(7_000_000));
    assert_eq!(layer.control().end_fault(1, 2_000_000), Some(1));
    done.clear();
    layer.advance(2_000_000, &mut done);
    let ends: Vec<_> = done.iter().map(|one| (one.tag, one.at, one.status)).collect();
    assert_eq!(ends, [(2, 2_000_000, Status::Ok)]);
    let mut now = 2_000_000;
    let read = carry_out(&mut layer, &mut now, read(0, 4096), vec![0; 4096]);
    assert_eq!(read.at - read.submit, LATENCY, "nothing is held up any more");
    // Each happening has its record: the rot's, two of the first stall, and one of the other.
    let numbers: Vec<_> = records(&mut layer).iter().map(|record| record.fault).collect();
    assert_eq!(numbers, [2, 0, 0, 1]);
}

#[test]
fn the_times_of_a_triggered_fault_count_from_each_of_its_triggers() {
    let spec = DriveFault {
        begin: 500_000,
        end: Some(900_000),
        triggered: true,
        ..DriveFault::new(4, DriveFaultKind::ReadError)
    };
    let mut layer = faulty(vec![spec]);
    let mut now = 1_000_000;
    layer.control().begin_fault(4, now);
    layer.control().start(now);
    let fails = |layer: &mut Faults, now: &mut u64, at: u64| {
        *now = at;
        carry_out(layer, now, read(0, 4096), vec![0; 4096]).status != Status::Ok
    };
    assert!(!fails(&mut layer, &mut now, 1_600_000), "it was triggered before the commands began");
    for trigger in [2_000_000, 5_000_000] {
        layer.control().begin_fault(3, trigger);
        assert!(!fails(&mut layer, &mut now, trigger + 600_000));
        layer.control().begin_fault(4, trigger + 1_000_000);
        assert!(!fails(&mut layer, &mut now, trigger + 1_400_000));
        assert!(fails(&mut layer, &mut now, trigger + 1_600_000));
        assert!(!fails(&mut layer, &mut now, trigger + 1_900_000));
    }
}

#[test]
fn rot_lasts_until_the_sector_is_written() {
    let spec = DriveFault { times: Some(5), ..DriveFault::new(0, DriveFaultKind::BitRot) };
    let spec = DriveFault { offset: 4096, length: Some(8192), begin: 10, ..spec };
    let mut layer = faulty(vec![spec]);
    layer.control().start(0);
    let mut now = 20;
    let all = |layer: &mut Faults, now: &mut u64| {
        carry_out(layer, now, read(0, 65536), vec![0; 65536]).data
    };
    let first = all(&mut layer, &mut now);
    let wrong: Vec<usize> = (0..65536).filter(|&at| first[at] != 0).collect();
    assert!((1..=5).contains(&wrong.len()), "{wrong:?}");
    assert!(wrong.iter().all(|at| (4096..12288).contains(at)), "{wrong:?}");
    assert_eq!(all(&mut layer, &mut now), first, "it is the same at each read");
    assert_eq!(records(&mut layer).len(), 5);
    let sector = wrong[0] as u64 / 512 * 512;
    carry_out(&mut layer, &mut now, write(sector, 512), vec![0; 512]);
    let after = all(&mut layer, &mut now);
    assert!(after[sector as usize..][..512].iter().all(|byte| *byte == 0));
}

#[test]
fn rot_stays_within_whole_sectors_of_its_region() {
    let spec = DriveFault { times: Some(9), ..DriveFault::new(0, DriveFaultKind::BitRot) };
    // Sector 1 only is in it as a whole.
    let spec = DriveFault { offset: 100, length: Some(1_000), ..spec };
    let mut layer = faulty(vec![spec]);
    layer.control().start(0);
    carry_out(&mut layer, &mut 0, read(0, 512), vec![0; 512]);
    let places: Vec<u64> = records(&mut layer).iter().map(|record| record.offset).collect();
    assert_eq!(places, [512]);
}

#[test]
fn a_corrupt_read_is_wrong_in_one_bit_and_this_time_only() {
    let spec = DriveFault { times: Some(1), ..DriveFault::new(0, DriveFaultKind::CorruptRead) };
    let mut layer = faulty(vec![spec]);
    layer.control().start(0);
    let mut now = 0;
    carry_out(&mut layer, &mut now, write(0, 4096), vec![0x55; 4096]);
    let mut wrong = || {
        let done = carry_out(&mut layer, &mut now, read(0, 4096), vec![0; 4096]);
        assert_eq!(done.status, Status::Ok);
        done.data.iter().map(|byte| (byte ^ 0x55).count_ones()).sum::<u32>()
    };
    assert_eq!([wrong(), wrong()], [1, 0]);
}

#[test]
fn a_misdirected_write_is_at_another_place() {
    let mut layer = faulty(vec![DriveFault::new(0, DriveFaultKind::MisdirectedWrite)]);
    layer.control().start(0);
    let mut now = 0;
    let done = carry_out(&mut layer, &mut now, write(8192, 4096), vec![9; 4096]);
    assert_eq!(done.status, Status::Ok);
    let all = carry_out(&mut layer, &mut now, read(0, CAPACITY), vec![0; CAPACITY as usize]).data;
    let places: Vec<usize> =
        all.chunks(4096).enumerate().filter(|(_, b)| b[0] == 9).map(|(at, _)| at).collect();
    assert!(places.len() == 1 && places[0] != 2, "{places:?}");
}

#[test]
fn a_lost_flush_ends_at_once_and_a_failed_one_fails() {
    let lost = DriveFault { times: Some(1), ..DriveFault::new(0, DriveFaultKind::LostFlush) };
    let failed = DriveFault { first: 1, ..DriveFault::new(1, DriveFaultKind::FlushError) };
    let mut layer = faulty(vec![lost, failed]);
    layer.control().start(0);
    let mut now = 5;
    let done = carry_out(&mut layer, &mut now, Command::flush(), Vec::new());
    assert_eq!((done.status, done.at), (Status::Ok, 5));
    let done = carry_out(&mut layer, &mut now, Command::flush(), Vec::new());
    assert_eq!(done.status, Status::WriteError);
}

#[test]
fn a_stale_read_returns_what_was_there_before_the_last_write() {
    let spec = DriveFault { times: Some(2), ..DriveFault::new(0, DriveFaultKind::StaleRead) };
    let mut layer = faulty(vec![spec]);
    let mut now = 0;
    carry_out(&mut layer, &mut now, write(0, 4096), vec![1; 4096]);
    layer.control().start(now);
    let first_bytes = |layer: &mut Faults, now: &mut u64| {
        let done = carry_out(layer, now, read(0, 1536), vec![0; 1536]);
        assert_eq!(done.status, Status::Ok);
        [done.data[0], done.data[512], done.data[1024]]
    };
    assert_eq!(first_bytes(&mut layer, &mut now), [1, 1, 1], "nothing was written since the start");
    for value in [2, 3] {
        carry_out(&mut layer, &mut now, write(512, 512), vec![value; 512]);
    }
    assert_eq!(first_bytes(&mut layer, &mut now), [1, 2, 1]);
    assert_eq!(first_bytes(&mut layer, &mut now), [1, 2, 1]);
    assert_eq!(first_bytes(&mut layer, &mut now), [1, 3, 1], "twice only");
    assert_eq!(records(&mut layer).len(), 2);
}

#[test]
fn a_full_drive_takes_what_needs_no_room_and_has_some_again_after_a_discard() {
    let full = |begin| {
        let spec = DriveFault { begin, ..DriveFault::new(0, DriveFaultKind::Full) };
        faulty(vec![DriveFault { space: (begin == 0).then_some(8192), ..spec }])
    };
    // With room for two blocks; or for what is taken as it begins, which is as much.
    for begin in [0, 500_000] {
        let mut layer = full(begin);
        let mut now = 0;
        let status = |layer: &mut Faults, now: &mut u64, operation, offset, value| {
            let command = Command::new(operation, offset, 4096);
            let data = if operation == Operation::Write { vec![value; 4096] } else { Vec::new() };
            carry_out(layer, now, command, data).status
        };
        let all = |layer: &mut Faults| layer.instant(read(0, 16384), vec![0; 16384]).1;
        use Operation::{Discard, Write, WriteZeroes};
        assert_eq!(status(&mut layer, &mut now, Write, 0, 1), Status::Ok, "before the start");
        layer.control().start(now);
        assert_eq!(status(&mut layer, &mut now, WriteZeroes, 4096, 0), Status::Ok);
        now = 1_000_000;
        let before = all(&mut layer);
        assert_eq!(status(&mut layer, &mut now, Write, 8192, 3), Status::NoSpace);
        assert_eq!(status(&mut layer, &mut now, WriteZeroes, 12288, 3), Status::NoSpace);
        assert!(all(&mut layer) == before, "a write that is refused changes nothing");
        assert_eq!(status(&mut layer, &mut now, Write, 4096, 4), Status::Ok, "in place");
        assert_eq!(status(&mut layer, &mut now, Discard, 0, 0), Status::Ok);
        assert_eq!(status(&mut layer, &mut now, Write, 8192, 5), Status::Ok);
        assert_eq!(status(&mut layer, &mut now, Write, 0, 6), Status::NoSpace);
        assert_eq!(records(&mut layer).len(), 3);
    }
}

fn kinds() -> impl Strategy<Value = DriveFaultKind> {
    use DriveFaultKind::*;
    prop::sample::select(vec![
        ReadError,
        WriteError,
        LostWrite,
        TornWrite,
        MisdirectedWrite,
        Slow,
        Stall,
        LostFlush,
        BitRot,
        StaleRead,
        Full,
    ])
}

/// Sectors that the commands of the random test can touch.
const TOUCHED: u64 = 20;
/// Sectors that its full drives have room for.
const ROOM: u64 = 11;
/// Beginning and end of its stalls.
const STALL: (u64, u64) = (400_000, 1_000_000);

/// A fault of the random test.
fn drawn(number: u16, kind: DriveFaultKind, rate: f64, times: Option<u64>) -> DriveFault {
    use DriveFaultKind::{BitRot, Full, Stall};
    let plain = DriveFault { delay: 77, ..DriveFault::new(number, kind) };
    match kind {
        Stall => DriveFault { begin: STALL.0, end: Some(STALL.1), ..plain },
        BitRot => {
            let length = Some(TOUCHED * 512);
            DriveFault { times: Some(times.unwrap_or(3)), begin: 250_000, length, ..plain }
        }
        Full => DriveFault { space: Some(ROOM * 512), times, ..plain },
        _ => DriveFault { rate, times, ..plain },
    }
}

/// The sectors of the whole medium that hold only `value`.
fn holders(layer: &mut Faults, value: u8) -> Vec<u64> {
    let (_, all) = layer.instant(read(0, CAPACITY), vec![0; CAPACITY as usize]);
    let sectors = all.chunks(512).zip(0..);
    sectors.filter(|(bytes, _)| bytes.iter().all(|byte| *byte == value)).map(|(_, at)| at).collect()
}

proptest! {
    /// Everything that a reader sees follows from the writes and the records.
    #[test]
    fn what_is_read_follows_from_the_records(
        faults in prop::collection::vec((kinds(), 0.0..1.0f64, prop::option::of(1..9u64)), 0..4),
        commands in prop::collection::vec((0..4u8, 0..16u64, 1..5u64, 0..300_000u64), 1..60),
    ) {
        let specs: Vec<DriveFault> = faults.iter().zip(0..).map(|(&(kind, rate, times), number)| {
            drawn(number, kind, rate, times)
        }).collect();
        let mut layer = faulty(specs.clone());
        layer.control().start(0);
        // Each sector holds one of these numbers; 0 at first. After a torn write: either.
        let mut sectors: HashMap<u64, Vec<u8>> = HashMap::new();
        // Sectors with a wrong bit.
        let mut rotten = HashSet::new();
        // The contents of each before its last write, where they can be read again.
        let mut before: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut taken = HashSet::new();
        let mut now = 0;
        let mut happened = vec![0u64; specs.len()];
        for (order, (choice, at, count, pause)) in commands.iter().enumerate() {
            now += pause;
            let (offset, length) = (at * 512, count * 512);
            let value = order as u8 + 1;
            let (command, data) = match choice {
                0 => (Command::flush(), Vec::new()),
                1 | 2 => (write(offset, length), vec![value; length as usize]),
                _ => (read(offset, length), vec![0; length as usize]),
            };
            let done = carry_out(&mut layer, &mut now, command, data);
            let mut by = Vec::new();
            for record in records(&mut layer) {
                happened[usize::from(record.fault)] += 1;
                let kind = specs[usize::from(record.fault)].kind;
                if kind == DriveFaultKind::BitRot {
                    prop_assert_eq!((record.order, record.length), (None, 512));
                    rotten.insert(record.offset / 512);
                    continue;
                }
                prop_assert_eq!(record.order, Some(order as u64));
                prop_assert_eq!((record.offset, record.length), (command.offset, command.length));
                by.push(kind);
            }
            let has = |kind| by.contains(&kind);
            let status = by.iter().find_map(|kind| match kind {
                DriveFaultKind::WriteError => Some(Status::WriteError),
                DriveFaultKind::ReadError => Some(Status::ReadError),
                DriveFaultKind::Full => Some(Status::NoSpace),
                _ => None,
            });
            prop_assert_eq!(done.status, status.unwrap_or(Status::Ok));
            let fails = status.is_some();
            let written = if matches!(choice, 1 | 2) { *at..at + count } else { 0..0 };
            let needed = written.clone().filter(|sector| !taken.contains(sector)).count() as u64;
            let full = needed > 0 && taken.len() as u64 + needed > ROOM;
            for (fault, happened) in specs.iter().zip(&happened) {
                let may = fault.times.is_none_or(|times| *happened < times);
                if fault.kind == DriveFaultKind::Full && may {
                    prop_assert_eq!(has(DriveFaultKind::Full), full);
                }
            }
            if !fails {
                taken.extend(written);
            }
            let stale = has(DriveFaultKind::StaleRead);
            prop_assert!(!stale || (*at..at + count).any(|sector| before.contains_key(&sector)));
            prop_assert_eq!(done.order, order as u64);
            let slow = by.iter().filter(|kind| **kind == DriveFaultKind::Slow).count() as u64;
            let own = if has(DriveFaultKind::LostFlush) { 0 } else { LATENCY + 77 * slow };
            let due = done.submit + own;
            let stalls = specs.iter().any(|spec| spec.kind == DriveFaultKind::Stall)
                && (STALL.0..STALL.1).contains(&due);
            prop_assert_eq!(has(DriveFaultKind::Stall), stalls);
            prop_assert_eq!(done.at, if stalls { STALL.1 } else { due });
            // The first of those that change a write decides.
            let changes = [
                DriveFaultKind::WriteError,
                DriveFaultKind::Full,
                DriveFaultKind::LostWrite,
                DriveFaultKind::TornWrite,
                DriveFaultKind::MisdirectedWrite,
            ];
            let first = by.iter().find(|kind| changes.contains(kind));
            if let (1 | 2, Some(DriveFaultKind::MisdirectedWrite)) = (choice, first) {
                // It is at another place of its length, whole, or it is lost.
                let places = holders(&mut layer, value);
                if let Some(&place) = places.first() {
                    prop_assert_eq!(&places, &(place..place + count).collect::<Vec<_>>());
                    prop_assert!(place % count == 0 && place != *at, "{} {}", place, at);
                }
                for place in places {
                    sectors.insert(place, vec![value]);
                    rotten.remove(&place);
                    before.remove(&place);
                }
            }
            for sector in *at..at + count {
                let old = sectors.get(&sector).cloned().unwrap_or(vec![0]);
                match (choice, first) {
                    (1 | 2, None) => {
                        before.insert(sector, old);
                        sectors.insert(sector, vec![value]);
                        rotten.remove(&sector);
                    }
                    (1 | 2, Some(DriveFaultKind::TornWrite)) if sector == *at => {
                        before.remove(&sector);
                        sectors.insert(sector, vec![value]);
                        rotten.remove(&sector);
                    }
                    (1 | 2, Some(DriveFaultKind::TornWrite)) if sector < at + count - 1 => {
                        // Nothing older can be read of a sector that was written.
                        if let Some(before) = before.get_mut(&sector) {
                            before.extend([&old[..], &[value]].concat());
                        }
                        sectors.insert(sector, [old, vec![value]].concat());
                        if holders(&mut layer, value).contains(&sector) {
                            rotten.remove(&sector);
                        }
                    }
                    (3, _) if !fails => {
                        let bytes = &done.data[((sector - at) * 512) as usize..][..512];
                        let wrong = |value: u8| bytes.iter().map(|byte| (byte ^ value).count_ones()).sum::<u32>();
                        if let Some(before) = before.get(&sector).filter(|_| stale) {
                            prop_assert!(before.iter().any(|value| wrong(*value) <= 1), "{}", sector);
                            continue;
                        }
                        let bits = u32::from(rotten.contains(&sector));
                        let found = old.iter().find(|value| wrong(**value) == bits);
                        prop_assert!(found.is_some(), "sector {}: {:?}, {} wrong", sector, old, bits);
                        sectors.insert(sector, found.copied().into_iter().collect());
                    }
                    _ => {}
                }
            }
        }
        for (spec, happened) in specs.iter().zip(happened) {
            prop_assert!(spec.times.is_none_or(|times| happened <= times));
        }
    }
}
