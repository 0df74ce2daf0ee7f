//! Every form of every medium against a plain array: random I/Os, many under way together, and
//! reads return the written data.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use stasis_block::{Command, Operation, Request, Tag};
use stasis_media::{Execution, Finished, HostMedium, Medium, MediumSpec, OpenOptions, Pieces, Ram};

/// Not a multiple of RAM's chunks.
const CAPACITY: u64 = (1 << 20) + 4096;
/// Ends within a block of direct I/O on a file.
const FRACTIONAL: u64 = (1 << 20) + 1536;

#[derive(Debug, Clone)]
struct Io {
    operation: Operation,
    offset: u64,
    length: u64,
    fua: bool,
    fill: u8,
    // Limit on the number of I/Os under way when the next is submitted.
    depth: usize,
}

fn ios() -> impl Strategy<Value = Vec<Io>> {
    let operation = prop_oneof![
        8 => Just(Operation::Read),
        8 => Just(Operation::Write),
        1 => Just(Operation::Flush),
        2 => Just(Operation::Discard),
        2 => Just(Operation::WriteZeroes),
    ];
    // Few places, so that I/Os meet; now and then a large one or a crooked one.
    let length = prop_oneof![8 => 1u64..17, 1 => 100u64..500].prop_map(|sectors| sectors * 512);
    let shift = prop_oneof![8 => Just(0u64), 1 => 1u64..512];
    let io = (operation, 0u64..64, length, shift, any::<bool>(), any::<u8>(), 0usize..40).prop_map(
        |(operation, sector, length, shift, fua, fill, depth)| {
            let offset = sector * 512 + shift;
            let fua = fua && operation != Operation::Read && fill % 16 == 0;
            match operation {
                Operation::Flush => Io { operation, offset: 0, length: 0, fua, fill, depth },
                _ => Io { operation, offset, length, fua, fill, depth },
            }
        },
    );
    prop::collection::vec(io, 0..120)
}

fn overlap(a: &Io, b: &Io) -> bool {
    let changes = |io: &Io| io.operation != Operation::Read;
    a.offset < b.offset + b.length && b.offset < a.offset + a.length && (changes(a) || changes(b))
}

/// Runs `ios`; overlapping ones never under way together.
fn run(medium: &mut dyn Medium, ios: &[Io]) {
    let capacity = medium.capacity() as usize;
    let mut contents = vec![0u8; capacity];
    let mut under_way: Vec<(Tag, &Io, Vec<u8>)> = Vec::new();
    let mut done: Vec<Finished> = Vec::new();
    let shift = capacity as u64 - (64 + 500) * 512 - 512;
    // Half of the I/Os near the medium's end.
    let moved = |io: &Io| match io.operation {
        Operation::Flush => io.clone(),
        _ if io.fill.is_multiple_of(2) => Io { offset: io.offset + shift, ..io.clone() },
        _ => io.clone(),
    };
    let ios: Vec<Io> = ios.iter().map(moved).collect();
    for (tag, io) in ios.iter().enumerate() {
        while under_way.len() > io.depth || under_way.iter().any(|(_, other, _)| overlap(io, other))
        {
            medium.wait(&mut done);
            assert!(!done.is_empty(), "wait came back without an I/O");
            settle(&mut under_way, &mut done);
        }
        medium.poll(&mut done);
        settle(&mut under_way, &mut done);

        let range = io.offset as usize..(io.offset + io.length) as usize;
        let pattern = |index: usize| io.fill.wrapping_add((index / 7) as u8);
        let (mut data, mut expected) = (Vec::new(), Vec::new());
        match io.operation {
            Operation::Read => {
                data = vec![0xee; range.len()];
                expected = contents[range].to_vec();
            }
            Operation::Write => {
                data = (0..range.len()).map(pattern).collect();
                contents[range].copy_from_slice(&data);
                expected.clone_from(&data);
            }
            Operation::WriteZeroes => contents[range].fill(0),
            Operation::Discard if medium.discard_zeroes() => contents[range].fill(0),
            _ => {}
        }
        let command = Command { fua: io.fua, ..Command::new(io.operation, io.offset, io.length) };
        medium.submit(Request::new(tag as Tag, command, data));
        under_way.push((tag as Tag, io, expected));
    }
    while medium.in_flight() > 0 {
        medium.wait(&mut done);
        settle(&mut under_way, &mut done);
    }
    assert!(under_way.is_empty());

    let command = Command::new(Operation::Read, 0, capacity as u64);
    medium.submit(Request::new(0, command, vec![1; capacity]));
    medium.wait(&mut done);
    let all = done.pop().unwrap();
    all.result.unwrap();
    assert!(all.data == contents, "the medium's contents differ in the end");
}

fn settle(under_way: &mut Vec<(Tag, &Io, Vec<u8>)>, done: &mut Vec<Finished>) {
    for finished in done.drain(..) {
        let at = under_way.iter().position(|(tag, ..)| *tag == finished.tag);
        let (_, io, expected) = under_way.swap_remove(at.expect("a tag that is under way"));
        finished.result.unwrap();
        assert!(finished.data == expected, "{io:?} came back with other data");
    }
}

fn open(
    table: &str,
    execution: Execution,
    delay: Duration,
) -> (Box<dyn HostMedium>, tempfile::TempDir) {
    // Beside the build, which is on a real disk: direct I/O needs one.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let spec: MediumSpec = serde_json::from_str(table).unwrap();
    let medium = spec.open(&OpenOptions { execution, delay, base: folder.path() }).unwrap();
    (medium, folder)
}

/// Memory on which a discard changes nothing.
struct Keeps(Ram);

impl Medium for Keeps {
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }
    fn submit(&mut self, request: Request) {
        let Request { tag, mut command, data, .. } = request;
        if command.operation == Operation::Discard {
            command = Command::flush();
        }
        self.0.submit(Request::new(tag, command, data));
    }
    fn poll(&mut self, done: &mut Vec<Finished>) {
        self.0.poll(done);
    }
    fn wait(&mut self, done: &mut Vec<Finished>) {
        self.0.wait(done);
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn discard_zeroes(&self) -> bool {
        false
    }
}

impl HostMedium for Keeps {}

const PIECE: u64 = 1 << 20;
/// Beginning of the first piece: many I/Os meet both sides of it.
const BEGIN: u64 = 32 * 512;

/// A file with a file and memory in it, side by side; their end is where many
/// I/Os are, too.
fn pieces(execution: Execution, last: Box<dyn HostMedium>) -> (Pieces, [tempfile::TempDir; 2]) {
    let file = |size| {
        let table = format!(r#"{{"file": "disk.img", "size": {size}}}"#);
        open(&table, execution, Duration::ZERO)
    };
    let (whole, folder) = file(BEGIN + 2 * PIECE + 533 * 512);
    let (first, other) = file(PIECE);
    let pieces = Pieces::new(whole, vec![(BEGIN + PIECE, last), (BEGIN, first)]).unwrap();
    (pieces, [folder, other])
}

const BOTH: [Execution; 2] = [Execution::Synchronous, Execution::Asynchronous];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn ram(ios in ios()) {
        let (mut medium, _folder) =
            open(&format!(r#"{{"ram": {CAPACITY}}}"#), Execution::Synchronous, Duration::ZERO);
        prop_assert!(medium.discard_zeroes());
        run(&mut *medium, &ios);
    }

    #[test]
    fn a_file(ios in ios()) {
        for execution in BOTH {
            let table = format!(r#"{{"file": "disk.img", "size": {FRACTIONAL}}}"#);
            let (mut medium, _folder) = open(&table, execution, Duration::ZERO);
            run(&mut *medium, &ios);
        }
    }

    #[test]
    fn a_file_past_the_page_cache(ios in ios()) {
        for execution in BOTH {
            let table = format!(r#"{{"file": "disk.img", "size": {CAPACITY}, "direct": true}}"#);
            let (mut medium, _folder) = open(&table, execution, Duration::ZERO);
            run(&mut *medium, &ios);
        }
    }

    #[test]
    fn a_delayed_file(ios in ios()) {
        let table = format!(r#"{{"file": "disk.img", "size": {FRACTIONAL}}}"#);
        for execution in BOTH {
            let (mut medium, _folder) = open(&table, execution, Duration::from_micros(100));
            run(&mut *medium, &ios);
        }
    }

    #[test]
    fn pieces_of_several(ios in ios()) {
        for execution in BOTH {
            let (mut medium, _folders) = pieces(execution, Box::new(Ram::new(PIECE)));
            run(&mut medium, &ios);
            let last = Box::new(Keeps(Ram::new(PIECE)));
            let (mut medium, _folders) = pieces(execution, last);
            prop_assert!(!medium.discard_zeroes());
            run(&mut medium, &ios);
        }
    }
}

#[test]
fn pieces_are_where_they_can_be() {
    let whole = || Box::new(Ram::new(3 * PIECE)) as Box<dyn HostMedium>;
    let piece = || Box::new(Ram::new(PIECE)) as Box<dyn HostMedium>;
    let at = |places: &[u64]| {
        let pieces = places.iter().map(|&place| (place, piece())).collect();
        Pieces::new(whole(), pieces).map(drop).map_err(|error| error.offset)
    };
    assert_eq!(at(&[2 * PIECE, 0, PIECE]), Ok(()));
    assert_eq!(at(&[2 * PIECE + 512]), Err(2 * PIECE + 512), "past the end");
    assert_eq!(at(&[u64::MAX]), Err(u64::MAX));
    assert_eq!(at(&[PIECE, PIECE + 512]), Err(PIECE + 512), "two overlap");

    // A copy stays in one medium, before and behind a piece as well.
    let mut medium = Pieces::new(whole(), vec![(PIECE, piece())]).unwrap();
    let mut copies = |source, offset| {
        let command = Command { source, ..Command::new(Operation::Copy, offset, 4096) };
        let mut done = Vec::new();
        medium.submit(Request::new(1, command, Vec::new()));
        medium.wait(&mut done);
        done[0].result.is_ok()
    };
    assert!(copies(0, 2 * PIECE) && copies(PIECE, 2 * PIECE - 4096));
    assert!(!copies(0, PIECE) && !copies(PIECE, 2 * PIECE) && !copies(PIECE - 512, 0));
}

/// On a device that may be overwritten: `STASIS_TEST_DEVICE=/dev/loop0 cargo
/// test -p stasis-media -- --ignored`.
#[test]
#[ignore = "overwrites the block device named by STASIS_TEST_DEVICE: make slow-test"]
fn a_device() {
    let device = std::env::var("STASIS_TEST_DEVICE").expect("STASIS_TEST_DEVICE names a device");
    let clear = Io {
        operation: Operation::WriteZeroes,
        offset: 0,
        length: 0,
        fua: false,
        fill: 1,
        depth: 0,
    };
    let mut runner = TestRunner::deterministic();
    for direct in [true, false] {
        for execution in BOTH {
            for _ in 0..20 {
                let table = format!(r#"{{"device": "{device}", "direct": {direct}}}"#);
                let (mut medium, _folder) = open(&table, execution, Duration::ZERO);
                let tree = ios().new_tree(&mut runner).unwrap();
                let mut ios = vec![Io { length: medium.capacity(), ..clear.clone() }];
                ios.extend(tree.current());
                run(&mut *medium, &ios);
            }
        }
    }
}

/// A medium in memory, in a file and in a file with direct I/O, in each way of execution.
fn each_medium() -> impl Iterator<Item = (Box<dyn HostMedium>, tempfile::TempDir)> {
    let tables = [
        format!(r#"{{"ram": {CAPACITY}}}"#),
        format!(r#"{{"file": "disk.img", "size": {CAPACITY}}}"#),
        format!(r#"{{"file": "disk.img", "size": {CAPACITY}, "direct": true}}"#),
    ];
    let open = |table: String| BOTH.map(|execution| open(&table, execution, Duration::ZERO));
    tables.into_iter().flat_map(open)
}

#[test]
fn what_is_out_of_bounds_fails_by_itself() {
    for (mut medium, _folder) in each_medium() {
        let mut run = |operation, offset, length, buffer| {
            let mut done = Vec::new();
            let command = Command::new(operation, offset, length);
            medium.submit(Request::new(1, command, vec![1; buffer]));
            medium.wait(&mut done);
            (done.len(), done[0].result.is_ok())
        };
        for operation in
            [Operation::Read, Operation::Write, Operation::Discard, Operation::WriteZeroes]
        {
            assert_eq!(run(operation, CAPACITY - 511, 512, 512), (1, false));
            assert_eq!(run(operation, u64::MAX, 512, 512), (1, false));
            assert_eq!(run(operation, u64::MAX - 511, 512, 512), (1, false));
            assert_eq!(run(operation, CAPACITY, 0, 0), (1, true));
        }
        assert_eq!(run(Operation::Read, 0, 512, 511), (1, false));
        assert_eq!(run(Operation::Write, 0, 512, 513), (1, false));
        assert_eq!(run(Operation::Flush, u64::MAX, u64::MAX, 0), (1, true));
        assert_eq!(run(Operation::Read, CAPACITY - 512, 512, 512), (1, true));
    }
}

#[test]
fn a_copy_moves_contents_within_the_medium() {
    for (mut medium, _folder) in each_medium() {
        let mut run = |command, data: Vec<u8>| {
            let mut done = Vec::new();
            medium.submit(Request::new(1, command, data));
            medium.wait(&mut done);
            let Finished { result, data, .. } = done.pop().unwrap();
            result.map(|()| data)
        };
        let copy = |source, offset, length| Command {
            source,
            ..Command::new(Operation::Copy, offset, length)
        };
        let data: Vec<u8> = (0..4096u32).map(|index| (index / 7) as u8).collect();
        run(Command::new(Operation::Write, 512, 4096), data.clone()).unwrap();
        run(copy(512, CAPACITY - 4096, 4096), Vec::new()).unwrap();
        let read = Command::new(Operation::Read, CAPACITY - 4096, 4096);
        assert_eq!(run(read, vec![0; 4096]).unwrap(), data);
        assert!(run(copy(512, 1024, 4096), Vec::new()).is_err(), "the ranges overlap");
        assert!(run(copy(CAPACITY - 512, 0, 1024), Vec::new()).is_err(), "beyond the end");
        assert!(run(copy(u64::MAX, 0, 1024), Vec::new()).is_err());
        run(Command::new(Operation::Verify, 0, CAPACITY), Vec::new()).unwrap();
    }
}
