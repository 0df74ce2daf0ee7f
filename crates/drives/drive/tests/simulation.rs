//! Random commands in virtual time against a plain array, on media that finish
//! in any order, fail, and are slow.

use std::time::{Duration, Instant};

use crate::common::reference::Reference;
use crate::common::{Latencies, Lowest, Moody, SECTOR};
use proptest::prelude::*;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::{Control, Done, Drive, Layer};
use stasis_flash::{FaultKind, FaultSpec, Spec, Ssd};
use stasis_media::{Execution, FaultPlan, Faults, Medium, MediumSpec, OpenOptions, Ram};

const CAPACITY: usize = 1 << 20;

/// Commands of a run, drawn from a seed, some in one moment, some long after.
fn commands(seed: u64, count: usize) -> Vec<(Nanos, Command, u8)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut now = 0;
    let mut one = || {
        now += [0, 0, 1_000, 50_000][random.next_u64() as usize % 4];
        let operation = match random.next_u64() % 16 {
            0..6 => Operation::Read,
            6..12 => Operation::Write,
            12 => Operation::Discard,
            13 => Operation::WriteZeroes,
            _ => Operation::Flush,
        };
        let (mut offset, mut length) =
            (random.next_u64() % 200 * SECTOR as u64, (1 + random.next_u64() % 16) * SECTOR as u64);
        if operation == Operation::Flush {
            (offset, length) = (0, 0);
        }
        let fua = operation == Operation::Write && random.next_u64() % 8 == 0;
        (now, Command { fua, ..Command::new(operation, offset, length) }, random.next_u64() as u8)
    };
    (0..count).map(|_| one()).collect()
}

fn overlap(a: &Command, b: &Command) -> bool {
    let reads = a.operation == Operation::Read && b.operation == Operation::Read;
    !reads && a.offset < b.offset + b.length && b.offset < a.offset + a.length
}

/// Trace of a drive: everything that a guest can see.
type Trace = Vec<(u32, Nanos, Status, Vec<u8>)>;

/// A run under way.
struct Run<'a> {
    drive: &'a mut Drive,
    reference: &'a mut Reference,
    in_flight: Vec<(u32, Command)>,
    done: Vec<Done>,
    trace: Trace,
}

impl Run<'_> {
    fn advance(&mut self, now: Nanos) {
        self.drive.advance(now, &mut self.done);
        for done in self.done.drain(..) {
            assert_eq!(done.at, now, "advanced at the drive's own events");
            let at = self.in_flight.iter().position(|(tag, _)| *tag == done.tag);
            let (_, command) = self.in_flight.swap_remove(at.expect("a tag that is in flight"));
            assert_eq!((done.command, done.queue), (command, 1));
            self.reference.complete(&done);
            self.trace.push((done.tag, done.at, done.status, done.data));
        }
        assert_eq!(self.drive.in_flight(), self.in_flight.len());
    }
}

/// Runs `commands`, overlapping ones never in flight together.
fn run(drive: &mut Drive, commands: &[(Nanos, Command, u8)], reference: &mut Reference) -> Trace {
    let mut run = Run { drive, reference, in_flight: vec![], done: vec![], trace: Trace::new() };
    let mut now = 0;
    for (tag, (at, command, fill)) in commands.iter().enumerate() {
        now = now.max(*at);
        while let Some(next) = run.drive.next_event() {
            let conflict = run.in_flight.iter().any(|(_, other)| overlap(command, other));
            if next > now && !conflict {
                break;
            }
            now = now.max(next);
            run.advance(next);
        }
        let data = match command.operation {
            Operation::Read => vec![0xee; command.length as usize],
            Operation::Write => vec![*fill; command.length as usize],
            _ => vec![],
        };
        let tag = tag as u32;
        run.reference.submit(tag, command, &data);
        run.drive.submit(now, Request { queue: 1, ..Request::new(tag, *command, data) });
        run.in_flight.push((tag, *command));
    }
    while let Some(next) = run.drive.next_event() {
        run.advance(next);
    }
    assert!(run.in_flight.is_empty());
    run.trace
}

fn drive(seed: u64, medium: impl Medium + 'static) -> Drive {
    Drive::new(0, "d".into(), Latencies::new(seed, 200_000), Box::new(medium))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn reads_bring_what_was_written_and_flushes_keep_it(seed in any::<u64>()) {
        let (medium, contents) = Moody::new(seed, CAPACITY);
        let mut reference = Reference::new(CAPACITY, Some(contents));
        let mut drive = drive(seed, medium);
        run(&mut drive, &commands(seed, 300), &mut reference);
        prop_assert_eq!(reference.failed, 0);
        prop_assert!(drive.take_error().is_none());
    }

    #[test]
    fn an_error_belongs_to_its_command_alone(seed in any::<u64>()) {
        let (medium, _) = Moody::new(seed, CAPACITY);
        let plan = FaultPlan {
            read_rate: 0.1,
            write_rate: 0.1,
            flush_rate: 0.1,
            seed,
            ..FaultPlan::default()
        };
        let mut reference = Reference::new(CAPACITY, None);
        let mut drive = drive(seed, Faults::new(medium, plan));
        run(&mut drive, &commands(seed, 300), &mut reference);
        // 300 commands at a rate of a tenth: 3 or 70 are both beyond 5 sigma.
        prop_assert!((3..70).contains(&reference.failed), "{}", reference.failed);
        prop_assert!(drive.take_error().is_some() && drive.take_error().is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn what_the_guest_sees_never_depends_on_the_medium(seed in any::<u64>()) {
        let commands = commands(seed, 100);
        let trace = |medium: Box<dyn Medium>| {
            let mut reference = Reference::new(CAPACITY, None);
            run(&mut drive(seed, medium), &commands, &mut reference)
        };
        let expected = trace(Box::new(Ram::new(CAPACITY as u64)));
        prop_assert_eq!(expected.len(), commands.len());
        prop_assert!(trace(Box::new(Moody::new(!seed, CAPACITY).0)) == expected);
        for execution in [Execution::Synchronous, Execution::Asynchronous] {
            for (delay, direct) in [(0, false), (0, true), (200, false)] {
                let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                let delay = Duration::from_micros(delay);
                let size = Some(CAPACITY as u64);
                let spec = MediumSpec::File { path: "disk.img".into(), size, direct };
                let options = OpenOptions { execution, delay, base: folder.path() };
                prop_assert!(trace(spec.open(&options).unwrap()) == expected);
            }
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the medium works in real time")]
fn the_guest_stands_still_while_the_medium_is_late() {
    let folder = tempfile::tempdir().unwrap();
    let delay = Duration::from_millis(5);
    let spec = MediumSpec::Ram { size: CAPACITY as u64 };
    let frozen = |execution| {
        let medium = spec.open(&OpenOptions { execution, delay, base: folder.path() }).unwrap();
        let mut drive = Drive::new(3, "slow".into(), Latencies::new(1, 2), medium)
            .with_host_clock(Instant::now);
        let command = Command::new(Operation::Read, 0, 512);
        let mut done = Vec::new();
        for tag in 0..4 {
            let request = Request { queue: 7, ..Request::new(tag, command, vec![1; 512]) };
            drive.submit(u64::from(tag) * 10, request);
            drive.advance(u64::from(tag) * 10 + 5, &mut done);
            assert_eq!(done.len(), tag as usize + 1, "completed, however late the medium was");
        }
        let record = done[2].record();
        assert_eq!((record.queue, record.order, record.failed()), (7, 2, false));
        let at = done[2].at;
        assert_eq!((record.submit, record.target, record.delivered), (20, at, at));
        assert_eq!((record.offset, record.bytes), (0, 512));
        drive.frozen()
    };
    for execution in [Execution::Synchronous, Execution::Asynchronous] {
        assert!(frozen(execution) >= 4 * delay - Duration::from_millis(1), "{execution:?}");
    }
}

#[test]
fn a_caller_that_asks_late_still_learns_the_right_times() {
    let times = |late: bool| {
        let medium = Box::new(Ram::new(CAPACITY as u64));
        let mut drive = Drive::new(0, "d".into(), Box::new(Lowest::default()), medium);
        let mut done = Vec::new();
        for tag in 0..50u32 {
            let now = u64::from(tag) * 10_000;
            // Ever lower, so that each is next as soon as it is there.
            let offset = u64::from(50 - tag) * 512;
            let command = Command::new(Operation::Read, offset, 512);
            if !late {
                drive.advance(now, &mut done);
            }
            drive.submit(now, Request { queue: 1, ..Request::new(tag, command, vec![1; 512]) });
            assert!(drive.next_event().is_some());
        }
        drive.advance(u64::MAX, &mut done);
        assert!(drive.next_event().is_none() && drive.in_flight() == 0);
        done.iter().map(|done| (done.tag, done.at)).collect::<Vec<_>>()
    };
    assert_eq!(times(true), times(false));
}

#[test]
fn a_copy_of_what_is_read_wrong_is_wrong() {
    let faults =
        [FaultSpec { offset: 8192, length: Some(4096), ..FaultSpec::new(FaultKind::Corrupt) }];
    let spec = Spec {
        channels: 1,
        luns: 1,
        planes: 1,
        pages: Some(16),
        over_provisioning: Some(0.3),
        faults: faults.into(),
        ..Spec::default()
    };
    let capacity = 8 << 20;
    let model = Box::new(Ssd::new(&spec, capacity, 1).unwrap());
    let mut drive = Drive::new(0, "d".into(), model, Box::new(Ram::new(capacity)));
    let mut now = 0;
    let mut ask = |command: Command, data: Vec<u8>| {
        drive.submit(now, Request { queue: 1, ..Request::new(1, command, data) });
        let mut done = Vec::new();
        while done.is_empty() {
            now = drive.next_event().unwrap();
            drive.advance(now, &mut done);
        }
        assert_eq!(done[0].status, Status::Ok);
        std::mem::take(&mut done[0].data)
    };
    ask(Command::new(Operation::Write, 8192, 4096), vec![0x55; 4096]);
    let copy = Command { source: 8192, ..Command::new(Operation::Copy, 65536, 4096) };
    ask(copy, Vec::new());
    let read = ask(Command::new(Operation::Read, 65536, 4096), vec![0; 4096]);
    let wrong: u32 = read.iter().map(|byte| (byte ^ 0x55).count_ones()).sum();
    assert_eq!(wrong, 1, "one bit, for good");
}
