//! Property: no request that a server took is ever left, for any medium, layer on it, model, way of
//! looking for work and depth. The clock moves when something is due, and hardly otherwise: a
//! request that only a late look would find counts as left.

use std::path::Path;
use std::time::{Duration, Instant};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::BorrowedFd;
use stasis_block::{Command, Operation, Request, Status};
use stasis_clock::Nanos;
use stasis_drive::Done;
use stasis_experiment::DriveSpec;
use stasis_qcow2::{create, CreateOptions};
use stasis_serve::polling::{Polling, Rounds};
use stasis_serve::{Poll, Store};

const SIZE: u64 = 4 << 20;
/// Requests of a load.
const COUNT: u32 = 40;
/// Duration of a turn (ns).
const TURN: Nanos = 100;
/// How long a medium may take in reality before it counts as one that will never ring.
const LIMIT: Duration = Duration::from_secs(10);

/// A guest that keeps `depth` requests in flight at a store.
struct Load {
    store: Store,
    clock: Nanos,
    depth: usize,
    in_flight: usize,
    submitted: u32,
    random: Xoshiro256PlusPlus,
    done: Vec<Done>,
    started: Instant,
    case: String,
}

impl Load {
    fn is_over(&self) -> bool {
        self.submitted == COUNT && self.in_flight == 0
    }

    /// A write, often; a flush after some, as `fdatasync` of fio; and the rest now and then.
    fn request(&mut self) -> (Command, Vec<u8>) {
        let random = self.random.next_u64();
        let length = 512 << ((random >> 8) % 8);
        let offset = (random >> 16) % ((SIZE - length) / 512) * 512;
        let operation = match random % 16 {
            0..9 => Operation::Write,
            9..12 => Operation::Flush,
            12 | 13 => Operation::Read,
            14 => Operation::Discard,
            _ => Operation::WriteZeroes,
        };
        let mut command = Command::new(operation, offset, length);
        if operation == Operation::Flush {
            command = Command::flush();
        }
        command.fua = operation == Operation::Write && random >> 60 == 0;
        let moves = matches!(operation, Operation::Read | Operation::Write);
        (command, vec![7; if moves { length as usize } else { 0 }])
    }

    /// Whether a descriptor of the medium rings within `limit`.
    fn rings(&self, limit: Duration) -> bool {
        let raw = self.store.drive.lock().descriptors();
        // SAFETY: the medium keeps them open.
        let borrowed: Vec<_> =
            raw.iter().map(|&raw| unsafe { BorrowedFd::borrow_raw(raw) }).collect();
        let mut set: Vec<_> = borrowed.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
        poll(&mut set, Some(&limit)).unwrap() > 0
    }
}

impl Rounds for Load {
    fn now(&self) -> Nanos {
        self.clock
    }

    fn turn(&mut self, now: Nanos) -> bool {
        self.clock += TURN;
        let case = &self.case;
        assert!(self.started.elapsed() < 3 * LIMIT, "{case}: {} in flight", self.in_flight);
        let mut work = false;
        while self.in_flight < self.depth && self.submitted < COUNT {
            let (command, data) = self.request();
            let request = Request::new(self.submitted, command, data);
            self.store.submit(now, request);
            (self.submitted, self.in_flight, work) = (self.submitted + 1, self.in_flight + 1, true);
        }
        work |= self.store.advance(now, &mut self.done);
        for done in self.done.drain(..) {
            self.in_flight -= 1;
            assert_eq!(done.status, Status::Ok, "{}: {:?}", self.case, done.command);
        }
        work
    }

    fn set_notifications(&mut self, _: bool) {}

    fn next_event(&self) -> Option<Nanos> {
        self.store.next_event()
    }

    fn wait(&mut self, timeout: Option<Nanos>) -> bool {
        if self.is_over() || self.rings(Duration::ZERO) {
            return true;
        }
        if let Some(timeout) = timeout {
            self.clock += timeout;
            return false;
        }
        assert!(self.rings(LIMIT), "{}: {} requests are left", self.case, self.in_flight);
        true
    }
}

/// Each medium, with each layer that there is for it.
const MEDIA: [&str; 11] = [
    "{ ram = '4MiB' }",
    "{ file = 'raw' }",
    "{ file = 'raw', direct = true }",
    "{ ordered = 'ordered', durability = 'flush' }",
    "{ ordered = 'ordered', durability = 'barrier' }",
    "{ ordered = 'ordered', durability = 'ordered' }",
    "{ qcow2 = 'image', durability = 'flush' }",
    "{ qcow2 = 'image', durability = 'barrier' }",
    "{ qcow2 = 'image', durability = 'ordered' }",
    "{ qcow2 = 'image', durability = 'ordered', max-lag = '100us', max-lag-bytes = '64KiB' }",
    "{ qcow2 = 'upper', durability = 'flush' }",
];

/// The files of [`MEDIA`].
fn make(folder: &Path) {
    let at = |name: &str| folder.join(name);
    std::fs::File::create(at("raw")).unwrap().set_len(SIZE).unwrap();
    let options = CreateOptions { size: Some(SIZE), ..CreateOptions::default() };
    create(&at("image"), &options).unwrap();
    let backing = Some(("image".to_owned(), Some(stasis_qcow2::Format::Qcow2)));
    create(&at("upper"), &CreateOptions { size: None, backing, ..options }).unwrap();
    stasis_ordered_disk::OrderedDisk::create(&at("ordered"), SIZE).unwrap();
}

#[test]
fn no_request_is_ever_left() {
    // A file system in memory refuses direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    make(folder.path());
    let mut seed = 0;
    for medium in MEDIA {
        for model in ["null", "fixed:30us"] {
            let polls = [Poll::Always, Poll::Adaptive, Poll::Never];
            for (poll, depth) in polls.into_iter().flat_map(|poll| [1, 2, 24].map(|d| (poll, d))) {
                seed += 1;
                let case = format!("{model} on {medium}, {poll:?}, depth {depth}");
                let table = format!("name = 'd'\nmodel = '{model}'\nmedium = {medium}");
                let spec: DriveSpec = toml::from_str(&table).unwrap();
                let new =
                    super::drives::new(&spec, 0, 0, folder.path(), folder.path(), Duration::ZERO);
                let new = new.unwrap();
                let store = (new.open)().unwrap_or_else(|error| panic!("{case}: {error}"));
                let mut load = Load {
                    store,
                    clock: 0,
                    depth,
                    in_flight: 0,
                    submitted: 0,
                    random: Xoshiro256PlusPlus::seed_from_u64(seed),
                    done: Vec::new(),
                    started: Instant::now(),
                    case,
                };
                let mut polling = Polling::new(poll);
                while !load.is_over() {
                    polling.step(&mut load, false);
                }
            }
        }
    }
}
