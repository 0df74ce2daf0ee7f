//! A load of pairs: keys and values are stored and retrieved, and every byte is compared.
//!
//! The pairs are those of a key-value namespace without its controller: a store of the crate
//! `key-value` turns them into writes, reads, copies, flushes and discards of the drive. The values'
//! bytes are kept in memory, at the places that the drive's commands have.
//!
//! Promises:
//! - A load is a function of its description, the drive's size and a seed.
//! - A value is what was stored last, wherever collection has moved it, or is counted as wrong.

mod bytes;
mod spec;

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::{splitmix, Command, Fate, Operation, Random, LOG_STREAM};
use stasis_key_value::{Condition, Key, Layout, PageRead, Place, Statistics, Store, Task, Writer};

pub use self::spec::{PairsError, PairsSpec};

use self::bytes::Bytes;
use crate::permutation::Permutation;
use crate::{Io, TraceError, Workload};

/// The submitter of the host's commands.
const HOST: u16 = 0;
/// The submitter of those that collection and the index need.
const DRIVE: u16 = 1;

/// The stream of what is written at an end of the log.
fn stream_of(writer: Writer) -> u16 {
    LOG_STREAM + writer as u16
}

/// A command that the drive has.
#[derive(Debug, Clone, Copy)]
enum Job {
    Store {
        number: u64,
        version: u32,
        place: Place,
    },
    Retrieve {
        number: u64,
        offset: u64,
    },
    Copy {
        from: u64,
        to: u64,
        length: u64,
    },
    Flush,
    /// A discard of everything.
    Clear,
    Discard {
        offset: u64,
    },
    /// A page of the index; then a pair is retrieved, if one is.
    Page {
        read: PageRead,
        retrieves: Option<u64>,
    },
    Write {
        offset: u64,
    },
}

/// A part of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Each key is stored once.
    Store,
    /// Keys are stored again, drawn uniformly.
    Overwrite,
    /// Values are retrieved: of all keys in an order that is drawn, and then uniformly.
    Retrieve,
}

/// Names of the phases, in their order.
const PHASES: [(Phase, &str); 3] =
    [(Phase::Store, "store"), (Phase::Overwrite, "overwrite"), (Phase::Retrieve, "retrieve")];

/// Counts of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Commands of the host that have ended.
    pub count: u64,
    /// Times at which the first began, and the last ended (ns).
    pub from: Nanos,
    /// See `from`.
    pub until: Nanos,
    /// Counts of the store.
    pub log: Statistics,
}

/// Counts of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Counts of each phase, by its name.
    pub phases: Vec<(&'static str, PhaseCounts)>,
    /// Values that were not those stored.
    pub wrong: u64,
    /// Commands of the host that the drive has failed.
    pub failed: u64,
}

/// The load; see the [module](self).
#[derive(Debug)]
pub struct PairLoad {
    spec: PairsSpec,
    store: Store,
    bytes: Bytes,
    /// The version that each pair has; 0: it is not there.
    versions: Vec<u32>,
    random: Random,
    order: Permutation,
    path: Nanos,
    now: Nanos,
    // The drive's own commands, and the host's, with the times of their submission.
    own: VecDeque<(Nanos, Io)>,
    host: VecDeque<(Nanos, Io)>,
    jobs: Vec<Option<Job>>,
    free: Vec<u64>,
    /// Commands of the host that have not ended.
    in_flight: u32,
    /// A store that waits for room, with its version.
    waiting: Option<(u64, u32)>,
    phase: usize,
    /// Commands of the phase that have begun.
    begun: u64,
    counts: PairCounts,
    before: Statistics,
}

impl PairLoad {
    /// A load on a drive of `capacity` bytes with blocks of `block_size`. `path`: the time that
    /// software needs from a completion to the next submission (ns).
    ///
    /// # Errors
    /// Such pairs have no room on such a drive.
    pub fn new(
        spec: &PairsSpec,
        (capacity, block_size): (u64, u64),
        seed: u64,
        path: Nanos,
    ) -> Result<Self, PairsError> {
        let layout = spec.layout(capacity, block_size)?;
        let mut load = Self {
            store: Store::new(layout),
            bytes: Bytes::new(&layout),
            versions: vec![0; spec.keys as usize],
            random: Random::new(seed),
            order: Permutation::new(spec.keys.into(), seed),
            path,
            now: 0,
            own: VecDeque::new(),
            host: VecDeque::new(),
            jobs: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            waiting: None,
            phase: 0,
            begun: 0,
            counts: PairCounts {
                phases: PHASES.map(|(_, name)| (name, PhaseCounts::default())).to_vec(),
                ..PairCounts::default()
            },
            before: Statistics::default(),
            spec: spec.clone(),
        };
        load.go_on();
        Ok(load)
    }

    /// Discards the data of the drive first, where another load may have left some.
    #[must_use]
    pub fn on_used_drive(mut self) -> Self {
        let Layout { segment, segments, .. } = *self.layout();
        let discard = Command::new(Operation::Discard, 0, segment * u64::from(segments));
        self.submit(Job::Clear, discard);
        // Before what it has begun, which waits at the same time.
        let clear = self.own.pop_back();
        clear.into_iter().for_each(|clear| self.own.push_front(clear));
        self
    }

    /// Returns the layout of the pairs on the drive.
    pub fn layout(&self) -> &Layout {
        self.store.layout()
    }

    /// Returns whether all of it has ended.
    pub fn is_over(&self) -> bool {
        self.phase == PHASES.len()
    }

    /// Counts until now.
    pub fn counts(&self) -> &PairCounts {
        &self.counts
    }

    /// Commands of a phase.
    fn length(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Store => self.spec.keys.into(),
            Phase::Overwrite => self.spec.overwrites,
            Phase::Retrieve => self.spec.retrieves,
        }
    }

    /// Bytes of the key with a number: the number at their end, and a hash of it before.
    fn key(&self, number: u64) -> Key {
        let size = usize::from(self.spec.key_size);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&splitmix::mix(number.wrapping_add(1)).to_be_bytes());
        let number = &number.to_be_bytes()[8 - size.min(8)..];
        bytes[size.saturating_sub(8)..size].copy_from_slice(number);
        // The description has been checked: a key has 1 to 16 bytes.
        Key::new(&bytes[..size]).unwrap_or_else(|| unreachable!("{size} bytes"))
    }

    /// Length of the value of a version of a pair.
    fn value_length(&self, number: u64, version: u32) -> u32 {
        let (least, most) = self.spec.value_sizes();
        let draw = splitmix::nth(number, u64::from(version) << 32 | 0x6c65_6e67);
        least + ((u128::from(draw) * (u128::from(most - least) + 1)) >> 64) as u32
    }

    /// The seed of the bytes of a version of a pair.
    fn content(number: u64, version: u32) -> u64 {
        splitmix::nth(number.wrapping_mul(0x9e37_79b9), version.into())
    }

    fn submit(&mut self, job: Job, command: Command) {
        let number = self.free.pop().unwrap_or(self.jobs.len() as u64);
        if number as usize == self.jobs.len() {
            self.jobs.push(None);
        }
        self.jobs[number as usize] = Some(job);
        let of_host = matches!(
            job,
            Job::Store { .. } | Job::Retrieve { .. } | Job::Page { retrieves: Some(_), .. }
        );
        let thread = if of_host { HOST } else { DRIVE };
        let io = Io { thread, early: false, number, command };
        match of_host {
            true => self.host.push_back((self.now.saturating_add(self.path), io)),
            false => self.own.push_back((self.now, io)),
        }
    }

    /// Begins what can begin: commands of the host as far as there is room, and the drive's own.
    fn go_on(&mut self) {
        loop {
            while let Some(task) = self.store.next_task() {
                self.carry_out(task);
            }
            if !self.begin_one() {
                return;
            }
        }
    }

    fn carry_out(&mut self, task: Task) {
        match task {
            Task::Copy { from, to, length } => {
                let copy = Command::new(Operation::Copy, to, length);
                let copy = Command { source: from, stream: stream_of(Writer::Collection), ..copy };
                self.submit(Job::Copy { from, to, length }, copy);
            }
            Task::Write { writer, offset, length } => {
                let write = Command::new(Operation::Write, offset, length);
                let stream = stream_of(writer);
                self.submit(Job::Write { offset }, Command { stream, ..write });
            }
            Task::Flush => self.submit(Job::Flush, Command::flush()),
            Task::Discard { offset, length } => {
                let discard = Command::new(Operation::Discard, offset, length);
                self.submit(Job::Discard { offset }, discard);
            }
        }
    }

    /// Begins the host's next command, if one can begin. Returns whether one has begun.
    fn begin_one(&mut self) -> bool {
        if let Some((number, version)) = self.waiting {
            return self.place(number, version);
        }
        let Some(&(phase, _)) = PHASES.get(self.phase) else { return false };
        if self.in_flight >= u32::from(self.spec.depth) {
            return false;
        }
        if self.begun == self.length(phase) {
            // Phases do not overlap.
            if self.in_flight > 0 {
                return false;
            }
            self.end_phase();
            return self.phase < PHASES.len();
        }
        if self.begun == 0 {
            self.counts.phases[self.phase].1.from = self.now;
        }
        let keys = u64::from(self.spec.keys);
        let number = match phase {
            Phase::Store => self.begun,
            Phase::Retrieve if self.begun < keys => self.order.of(self.begun),
            _ => self.random.below(keys),
        };
        self.begun += 1;
        self.in_flight += 1;
        let page = self.store.look_up(&self.key(number));
        if phase == Phase::Retrieve {
            match page {
                Some(read) => self.read_page(read, Some(number)),
                None => self.retrieve(number),
            }
            return true;
        }
        if let Some(read) = page {
            self.read_page(read, None);
        }
        let version = (self.begun as u32).wrapping_add(match phase {
            Phase::Store => 0,
            _ => self.spec.keys,
        });
        self.waiting = Some((number, version));
        self.place(number, version);
        true
    }

    fn end_phase(&mut self) {
        let now = self.store.statistics();
        let counts = &mut self.counts.phases[self.phase].1;
        (counts.until, counts.log) = (self.now, now.since(&self.before));
        self.before = now;
        (self.phase, self.begun) = (self.phase + 1, 0);
    }

    fn read_page(&mut self, read: PageRead, retrieves: Option<u64>) {
        let command = Command::new(Operation::Read, read.offset, read.length);
        self.submit(Job::Page { read, retrieves }, command);
    }

    /// Sends the value of a store to the log, if there is room. Returns whether there was.
    fn place(&mut self, number: u64, version: u32) -> bool {
        let length = self.value_length(number, version);
        let Some(place) = self.store.place(length) else { return false };
        self.waiting = None;
        let bytes = self.layout().rounded(length);
        let write = Command::new(Operation::Write, place.offset, bytes);
        let stream = stream_of(Writer::Host);
        self.submit(Job::Store { number, version, place }, Command { stream, ..write });
        true
    }

    fn retrieve(&mut self, number: u64) {
        let found = self.store.retrieve(&self.key(number), u32::MAX);
        let Some((offset, length)) = found.and_then(|value| value.read) else {
            // It could not be stored.
            self.counts.wrong += u64::from(self.versions[number as usize] != 0);
            return self.end_one();
        };
        let read = Command::new(Operation::Read, offset, length);
        self.submit(Job::Retrieve { number, offset }, read);
    }

    /// A command of the host has ended.
    fn end_one(&mut self) {
        self.in_flight -= 1;
        self.counts.phases[self.phase.min(PHASES.len() - 1)].1.count += 1;
    }

    /// The drive has done a command, or failed.
    fn end(&mut self, job: Job, fate: Fate) {
        let done = !matches!(fate, Fate::Failed { .. });
        match job {
            Job::Store { number, version, place } => {
                if done {
                    self.bytes.write(place, Self::content(number, version));
                    match self.store.store(self.key(number), place, Condition::Always) {
                        Ok(()) => self.versions[number as usize] = version,
                        Err(_) => self.counts.failed += 1,
                    }
                } else {
                    self.store.abandon(place);
                    self.counts.failed += 1;
                }
                self.end_one();
            }
            Job::Retrieve { number, offset } => {
                let version = self.versions[number as usize];
                let length = self.value_length(number, version);
                let place = Place { offset, length };
                let same = self.bytes.matches(place, Self::content(number, version));
                match fate {
                    Fate::Failed { .. } => self.counts.failed += 1,
                    Fate::Done if same => {}
                    _ => self.counts.wrong += 1,
                }
                self.store.end_read(offset);
                self.end_one();
            }
            Job::Copy { from, to, length } => {
                if done {
                    self.bytes.copy(from, to, length);
                }
                self.store.copied(to, done);
            }
            Job::Clear => {}
            Job::Flush => self.store.flushed(done),
            Job::Discard { offset } => {
                self.bytes.forget(offset);
                self.store.discarded(offset);
            }
            Job::Page { read, retrieves } => {
                self.store.page_read(read.page, read.offset);
                if let Some(number) = retrieves {
                    self.retrieve(number);
                }
            }
            Job::Write { offset } => self.store.written(offset, done),
        }
    }

    /// The next to be submitted: whether it is the drive's own, and when.
    fn next(&self) -> Option<(bool, Nanos)> {
        let own = self.own.front().map(|(at, _)| (true, *at));
        let host = self.host.front().map(|(at, _)| (false, *at));
        match (own, host) {
            (Some(own), Some(host)) => Some(if own.1 <= host.1 { own } else { host }),
            (own, host) => own.or(host),
        }
    }
}

impl Workload for PairLoad {
    fn next_at(&self) -> Option<Nanos> {
        self.next().map(|(_, at)| at)
    }

    fn take(&mut self) -> Result<Option<Io>, TraceError> {
        let Some((own, at)) = self.next() else { return Ok(None) };
        self.now = self.now.max(at);
        let queue = if own { &mut self.own } else { &mut self.host };
        Ok(queue.pop_front().map(|(_, io)| io))
    }

    fn complete(&mut self, at: Nanos, io: &Io, fate: Fate) {
        self.now = self.now.max(at);
        let Some(job) = self.jobs.get_mut(io.number as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(io.number);
        self.end(job, fate);
        self.go_on();
    }

    fn fraction(&self, _: Nanos) -> Option<f64> {
        let all: u64 = PHASES.iter().map(|(phase, _)| self.length(*phase)).sum();
        let done: u64 = self.counts.phases.iter().map(|(_, counts)| counts.count).sum();
        Some(done as f64 / all.max(1) as f64)
    }
}
