use super::*;
use crate::{Execution, MediumSpec, OpenOptions};
use proptest::prelude::*;
use std::time::Duration;

const SIZE: u64 = 4 << 20;

fn open(direct: bool, folder: &std::path::Path) -> Box<dyn HostMedium> {
    let spec = MediumSpec::File { path: "disk".into(), size: Some(SIZE), direct };
    let options = OpenOptions { execution: Execution::Polled, delay: Duration::ZERO, base: folder };
    spec.open(&options).unwrap()
}

fn folder() -> tempfile::TempDir {
    // A file system in memory refuses direct I/O.
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn run(medium: &mut dyn Medium, command: Command, data: Vec<u8>) -> Vec<u8> {
    medium.submit(Request::new(7, command, data));
    let mut done = Vec::new();
    while done.is_empty() {
        medium.wait(&mut done);
    }
    let finished = done.pop().unwrap();
    assert_eq!(finished.tag, 7);
    finished.result.unwrap();
    finished.data
}

#[derive(Debug, Clone)]
struct Step {
    operation: Operation,
    sector: u64,
    sectors: u64,
    value: u8,
    fua: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let operation = prop::sample::select(vec![
        Operation::Read,
        Operation::Write,
        Operation::Write,
        Operation::Flush,
        Operation::Discard,
        Operation::WriteZeroes,
    ]);
    let sectors = prop_oneof![1..64u64, Just(8), Just(1024)];
    let aligned = any::<bool>();
    (operation, 0..SIZE / 512 - 1024, sectors, any::<u8>(), any::<bool>(), aligned).prop_map(
        |(operation, sector, sectors, value, fua, aligned)| {
            let sector = if aligned { sector / 8 * 8 } else { sector };
            Step { operation, sector, sectors, value, fua }
        },
    )
}

#[test]
fn nothing_rings_after_a_wait() {
    let folder = folder();
    let mut medium = open(false, folder.path());
    run(&mut *medium, Command::new(Operation::Write, 0, 4096), vec![7; 4096]);
    run(&mut *medium, Command::flush(), Vec::new());
    let raw = medium.descriptors();
    // SAFETY: the medium keeps them open.
    let borrowed: Vec<_> =
        raw.iter().map(|&raw| unsafe { rustix::fd::BorrowedFd::borrow_raw(raw) }).collect();
    let mut set: Vec<_> = borrowed
        .iter()
        .map(|fd| rustix::event::PollFd::new(fd, rustix::event::PollFlags::IN))
        .collect();
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut set, Some(&now)).unwrap(), 0);
}

/// Threads of the kernel that do I/Os of this process.
fn kernel_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("iou-wrk")).count()
}

#[test]
fn nothing_is_left_to_threads_of_the_kernel() {
    let folder = folder();
    for direct in [false, true] {
        let mut medium = open(direct, folder.path());
        for offset in (0..SIZE).step_by(64 << 10) {
            // Its block is not there yet, and a direct write has to wait for one.
            run(&mut *medium, Command::new(Operation::Write, offset, 4096), vec![7; 4096]);
            run(&mut *medium, Command::flush(), Vec::new());
            run(&mut *medium, Command::new(Operation::Read, offset, 8192), vec![0; 8192]);
        }
        // They stay for some seconds after their last I/O.
        assert_eq!(kernel_threads(), 0, "direct: {direct}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Against plain memory: an overlapping I/O waits for the one under way.
    #[test]
    fn it_holds_what_was_written(
        steps in prop::collection::vec(step(), 1..60),
        direct in any::<bool>(),
    ) {
        let folder = folder();
        let mut medium = open(direct, folder.path());
        let mut model = vec![0u8; SIZE as usize];
        let (mut done, mut expected) = (Vec::new(), std::collections::HashMap::new());
        let mut busy: Vec<std::ops::Range<u64>> = Vec::new();
        for (tag, step) in steps.iter().enumerate() {
            let (from, to) = (step.sector * 512, (step.sector + step.sectors) * 512);
            if busy.iter().any(|other| other.start < to && from < other.end) {
                while medium.in_flight() > 0 {
                    medium.wait(&mut done);
                }
                busy.clear();
            }
            busy.push(from..to);
            let range = from as usize..to as usize;
            let mut command = Command::new(step.operation, from, to - from);
            command.fua = step.fua && step.operation != Operation::Read;
            let mut data = Vec::new();
            match step.operation {
                Operation::Read => {
                    data = vec![0xee; range.len()];
                    expected.insert(tag as Tag, model[range].to_vec());
                }
                Operation::Write => {
                    data = vec![step.value; range.len()];
                    model[range].fill(step.value);
                }
                Operation::Flush => command = Command::flush(),
                _ => model[range].fill(0),
            }
            medium.submit(Request::new(tag as Tag, command, data));
            medium.poll(&mut done);
        }
        while medium.in_flight() > 0 {
            medium.wait(&mut done);
        }
        prop_assert_eq!(done.len(), steps.len());
        for finished in done {
            prop_assert!(finished.result.is_ok(), "{:?}", finished.result);
            if let Some(expected) = expected.get(&finished.tag) {
                prop_assert_eq!(&finished.data, expected);
            }
        }
        let all = run(&mut *medium, Command::new(Operation::Read, 0, SIZE), vec![1; SIZE as usize]);
        prop_assert!(all == model);
        drop(medium);
        prop_assert!(std::fs::read(folder.path().join("disk")).unwrap() == model);
    }
}

#[test]
fn a_descriptor_is_readable_when_something_has_finished() {
    use rustix::event::{poll, PollFd, PollFlags};
    let folder = folder();
    for (direct, command, data) in [
        (true, Command::new(Operation::Write, 4096, 4096), vec![1; 4096]),
        (true, Command::new(Operation::Write, 512, 512), vec![1; 512]),
        (false, Command::new(Operation::Discard, 0, 4096), vec![]),
        (false, Command::flush(), vec![]),
    ] {
        let mut medium = open(direct, folder.path());
        let mut done = Vec::new();
        medium.submit(Request::new(1, command, data));
        medium.poll(&mut done);
        while done.is_empty() {
            let raw = medium.descriptors();
            assert!(!raw.is_empty());
            // SAFETY: the medium keeps them open.
            let borrowed = raw
                .iter()
                .map(|&fd| unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) })
                .collect::<Vec<_>>();
            let mut fds: Vec<_> =
                borrowed.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            let limit = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
            assert!(poll(&mut fds, Some(&limit)).unwrap() > 0, "nothing rang");
            medium.poll(&mut done);
        }
        assert!(done[0].result.is_ok());
    }
}

#[test]
fn many_more_than_the_kernel_takes_at_a_time_all_end() {
    let folder = folder();
    let mut medium = open(true, folder.path());
    let mut done = Vec::new();
    for tag in 0..2000 {
        let offset = u64::from(tag) % (SIZE / 4096) * 4096;
        let command = Command::new(Operation::Read, offset, 4096);
        medium.submit(Request::new(tag, command, vec![1; 4096]));
    }
    while medium.in_flight() > 0 {
        medium.wait(&mut done);
    }
    assert_eq!(done.len(), 2000);
    assert!(done.iter().all(|finished| finished.result.is_ok()));
}

#[test]
fn what_no_descriptor_announces_needs_a_poll() {
    let folder = folder();
    let mut medium = open(false, folder.path());
    assert!(!medium.needs_poll());
    let write = Command::new(Operation::Write, 0, 4096);
    let beyond = Command::new(Operation::Read, SIZE, 4096);
    for (command, data) in [(write, vec![1; 4096]), (beyond, vec![0; 4096])] {
        medium.submit(Request::new(1, command, data));
        assert!(medium.needs_poll(), "{command:?} is not begun, or not handed back");
        let mut done = Vec::new();
        medium.poll(&mut done);
        assert!(!medium.needs_poll(), "{command:?}: the rest is announced");
        while done.is_empty() {
            medium.wait(&mut done);
        }
    }
}

#[test]
fn it_gets_another_size_whole_or_not_at_all() {
    let folder = folder();
    let mut medium = open(true, folder.path());
    run(&mut *medium, Command::new(Operation::Write, SIZE - 4096, 4096), vec![7; 4096]);
    let length = || std::fs::metadata(folder.path().join("disk")).unwrap().len();
    for wrong in [0, 512, SIZE + 512, 1 << 62] {
        assert!(medium.resize(wrong).is_err());
        assert_eq!((medium.capacity(), length()), (SIZE, SIZE), "{wrong}");
    }
    medium.resize(2 * SIZE).unwrap();
    assert_eq!((medium.capacity(), length()), (2 * SIZE, 2 * SIZE));
    let read = Command::new(Operation::Read, SIZE - 4096, 8192);
    let expected = [vec![7; 4096], vec![0; 4096]].concat();
    assert_eq!(run(&mut *medium, read, vec![1; 8192]), expected);
    medium.resize(SIZE - 4096).unwrap();
    medium.resize(SIZE).unwrap();
    let read = Command::new(Operation::Read, SIZE - 4096, 4096);
    assert_eq!(run(&mut *medium, read, vec![1; 4096]), vec![0; 4096], "it is gone");
    // A medium without a configurable size keeps its size.
    assert!(crate::Ram::new(SIZE).resize(2 * SIZE).is_err());
}
