//! Property: no request that a server took is ever left, for any medium, layer on it, model, way of
//! looking for work and depth. The clock moves when something is due, and hardly otherwise: a
//! request that only a late look would find counts as left.
//!
//! Two promises of a store keep it, and each alone would hide a break of the other: what no
//! descriptor announces is an event ([`Store::next_event`]), and progress below a layer is work
//! ([`Store::advance`]). Each has a test that trusts this one only.

use std::path::Path;
use std::time::{Duration, Instant};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::BorrowedFd;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Request, Status};
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
/// Longest time in reality that a medium may take before it counts as one that will never ring.
const MAX_WAIT: Duration = Duration::from_secs(60);

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
    /// True if something happened in the last turn, by the drive's own count.
    progressed: bool,
}

impl Load {
    fn new(store: Store, depth: usize, seed: u64, case: String) -> Self {
        Self {
            store,
            clock: 0,
            depth,
            in_flight: 0,
            submitted: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            done: Vec::new(),
            started: Instant::now(),
            case,
            progressed: false,
        }
    }

    /// Submits requests up to the depth; returns whether there were any.
    fn submit(&mut self, now: Nanos) -> bool {
        let before = self.submitted;
        while self.in_flight < self.depth && self.submitted < COUNT {
            let (command, data) = self.request();
            self.store.submit(now, Request::new(self.submitted, command, data));
            (self.submitted, self.in_flight) = (self.submitted + 1, self.in_flight + 1);
        }
        self.submitted > before
    }

    /// Takes the requests that have ended; returns as [`Store::advance`].
    fn advance(&mut self, now: Nanos) -> bool {
        let work = self.store.advance(now, &mut self.done);
        for done in self.done.drain(..) {
            self.in_flight -= 1;
            assert_eq!(done.status, Status::Ok, "{}: {:?}", self.case, done.command);
        }
        work
    }

    /// Submissions and completions so far, of the guest's requests and on the drive below.
    fn progress(&self) -> (u32, usize, u64) {
        (self.submitted, self.in_flight, self.store.drive.lock().progress())
    }

    /// Waits as [`Store::next_event`] and the descriptors allow, and not otherwise.
    fn wait_for_event(&mut self) {
        match self.store.next_event() {
            _ if self.rings(Duration::ZERO) => {}
            Some(at) => self.clock = self.clock.max(at),
            None => assert!(self.rings(MAX_WAIT), "{}: {} are left", self.case, self.in_flight),
        }
    }

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

    /// Returns whether a descriptor of the medium rings within `limit`.
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
        assert!(self.started.elapsed() < 3 * MAX_WAIT, "{case}: {} in flight", self.in_flight);
        let before = self.progress();
        let work = self.submit(now) | self.advance(now);
        self.progressed = self.progress() != before;
        work
    }

    fn set_notifications(&mut self, _: bool) {}

    fn next_event(&self) -> Option<Nanos> {
        self.store.next_event()
    }

    fn wait(&mut self, timeout: Option<Nanos>) -> bool {
        assert!(!self.progressed, "{}: the thread sleeps between two steps of work", self.case);
        if self.is_over() || self.rings(Duration::ZERO) {
            return true;
        }
        if let Some(timeout) = timeout {
            self.clock += timeout;
            return false;
        }
        assert!(self.rings(MAX_WAIT), "{}: {} requests are left", self.case, self.in_flight);
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

/// A load on each medium, timed by each model and at each depth.
fn each_load(mut run: impl FnMut(Load)) {
    // A file system in memory refuses direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    make(folder.path());
    let mut seed = 0;
    for medium in MEDIA {
        for (model, depth) in ["null", "fixed:30us"].iter().flat_map(|m| [1, 2, 24].map(|d| (m, d)))
        {
            seed += 1;
            let case = format!("{model} on {medium}, depth {depth}");
            let table = format!("name = 'd'\nmodel = '{model}'\nmedium = {medium}");
            let spec: DriveSpec = toml::from_str(&table).unwrap();
            let new = super::open_drive::new(
                &spec,
                super::open_drive::How::Plain,
                0,
                0,
                folder.path(),
                folder.path(),
                Duration::ZERO,
            );
            let store = (new.unwrap().new.open)().unwrap_or_else(|error| panic!("{case}: {error}"));
            run(Load::new(store, depth, seed, case));
        }
    }
}

#[test]
fn no_request_is_ever_left() {
    for poll in [Poll::Always, Poll::Adaptive, Poll::Never] {
        each_load(|mut load| {
            load.case += &format!(", {poll:?}");
            let mut polling = Polling::new(poll);
            while !load.is_over() {
                polling.step(&mut load, false);
            }
        });
    }
}

/// A caller that looks only where an event is due or a descriptor rings: whether there was work
/// does not count. Without it, a thread's second look finds what the store did not announce.
#[test]
fn events_and_descriptors_announce_all_there_is() {
    each_load(|mut load| {
        while !load.is_over() {
            load.submit(load.clock);
            load.wait_for_event();
            load.advance(load.clock);
        }
    });
}

/// A turn with progress, be it on the drive below a layer only, is one with work: another follows
/// before the thread sleeps. Without it, events alone would see to the rest, later.
#[test]
fn progress_below_a_layer_is_work() {
    let mut below_only = 0;
    each_load(|mut load| {
        while !load.is_over() {
            load.submit(load.clock);
            load.wait_for_event();
            let before = load.progress();
            let work = load.advance(load.clock);
            let after = load.progress();
            assert!(work || after == before, "{}: progress without work", load.case);
            below_only += u32::from(after.1 == before.1 && after.2 != before.2);
        }
    });
    assert!(below_only > 0, "no layer had work below it alone");
}
