//! A key-value store on a flash drive: a million pairs, stored, overwritten and retrieved.

#[path = "../../key-value/tests/support/reference.rs"]
#[allow(dead_code)] // it has loads of lengths that differ, too
mod reference;

use reference::{reference, Lengths, Load};
use stasis_block::clock::Nanos;
use stasis_block::{splitmix, Command, Completion, Fate, Operation, Random};
use stasis_key_value::{Condition, Key, Layout, Place, Store, Task};
use stasis_models::{BuildContext, Model, ModelSpec};

const KEYS: u64 = 1_000_000;
const VALUE: u32 = 1024;
const OVERWRITES: u64 = 4_000_000;
const SEGMENT: u64 = 4 << 20;
const SEGMENTS: u64 = 310;
/// Commands of the host under way.
const DEPTH: usize = 32;

/// A command that the drive has.
enum Job {
    Store { number: u64, version: u64, place: Place },
    Retrieve { number: u64, offset: u64 },
    Copy { from: u64, to: u64, length: u64 },
    Flush { offset: u64, length: u64 },
    Discard { offset: u64 },
}

/// The store, the drive's times, and its bytes.
struct Drive {
    store: Store,
    model: Box<dyn Model>,
    bytes: Vec<u8>,
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
    of_host: usize,
    /// The version that each pair has.
    versions: Vec<u64>,
    now: Nanos,
    done: Vec<Completion>,
}

fn key(number: u64) -> Key {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&splitmix::mix(number).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    Key::new(&bytes).unwrap()
}

fn value(number: u64, version: u64) -> [u8; VALUE as usize] {
    let mut value = [0; VALUE as usize];
    for (part, index) in value.chunks_exact_mut(8).zip(0..) {
        part.copy_from_slice(&splitmix::nth(number ^ version << 32, index).to_le_bytes());
    }
    value
}

impl Drive {
    fn new() -> Self {
        let bytes = SEGMENT * SEGMENTS;
        let table = format!("model = {{ kind = 'flash', capacity = {bytes}, plp = true }}");
        let mut table: toml::Table = toml::from_str(&table).unwrap();
        let spec: ModelSpec = table.remove("model").unwrap().try_into().unwrap();
        let context = BuildContext { seed: 1, capacity: bytes, path: 0 };
        let layout = Layout::new(bytes, SEGMENT, 512, (VALUE, KEYS as u32), 0).unwrap();
        Self {
            store: Store::new(layout),
            model: spec.build(&context).unwrap(),
            bytes: vec![0; bytes as usize],
            jobs: Vec::new(),
            free: Vec::new(),
            of_host: 0,
            versions: vec![0; KEYS as usize],
            now: 0,
            done: Vec::new(),
        }
    }

    fn submit(&mut self, job: Job, command: Command) {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        });
        self.of_host += usize::from(matches!(job, Job::Store { .. } | Job::Retrieve { .. }));
        self.jobs[tag as usize] = Some(job);
        self.model.submit(self.now, tag, &command);
    }

    /// Hands to the drive what collection asks for.
    fn collect(&mut self) {
        while let Some(task) = self.store.next_task() {
            match task {
                Task::Copy { from, to, length } => {
                    let copy = Command::new(Operation::Copy, to, length);
                    let job = Job::Copy { from, to, length };
                    self.submit(job, Command { source: from, fua: true, ..copy });
                }
                Task::Discard { offset, length } => {
                    // As the NVMe controller does.
                    self.submit(Job::Flush { offset, length }, Command::flush());
                }
            }
        }
    }

    fn range(offset: u64, length: u64) -> std::ops::Range<usize> {
        offset as usize..(offset + length) as usize
    }

    /// Goes on to the next time at which the drive has done something.
    fn advance(&mut self) {
        self.now = self.model.next_event().expect("commands are under way");
        let mut done = std::mem::take(&mut self.done);
        self.model.advance(self.now, &mut done);
        for completion in done.drain(..) {
            assert_eq!(completion.fate, Fate::Done);
            let job = self.jobs[completion.tag as usize].take().unwrap();
            self.free.push(completion.tag);
            self.of_host -= usize::from(matches!(job, Job::Store { .. } | Job::Retrieve { .. }));
            match job {
                Job::Store { number, version, place } => {
                    let range = Self::range(place.offset, VALUE.into());
                    self.bytes[range].copy_from_slice(&value(number, version));
                    self.store.store(key(number), place, Condition::Always).unwrap();
                    self.versions[number as usize] = version;
                }
                Job::Retrieve { number, offset } => {
                    let expected = value(number, self.versions[number as usize]);
                    assert!(self.bytes[Self::range(offset, VALUE.into())] == expected, "{number}");
                    self.store.end_read(offset);
                }
                Job::Copy { from, to, length } => {
                    self.bytes.copy_within(Self::range(from, length), to as usize);
                    self.store.copied(to, true);
                }
                Job::Flush { offset, length } => {
                    let discard = Command::new(Operation::Discard, offset, length);
                    self.submit(Job::Discard { offset }, discard);
                }
                Job::Discard { offset } => {
                    self.bytes[Self::range(offset, SEGMENT)].fill(0xdd);
                    self.store.discarded(offset);
                }
            }
        }
        self.done = done;
        self.collect();
    }

    fn put(&mut self, number: u64, version: u64) {
        self.store.check(&key(number), VALUE, Condition::Always).unwrap();
        while self.of_host >= DEPTH {
            self.advance();
        }
        let place = loop {
            match self.store.place(VALUE) {
                Some(place) => break place,
                None => self.advance(),
            }
        };
        let write = Command::new(Operation::Write, place.offset, VALUE.into());
        self.submit(Job::Store { number, version, place }, write);
        self.collect();
    }

    fn get(&mut self, number: u64) {
        while self.of_host >= DEPTH {
            self.advance();
        }
        let found = self.store.retrieve(&key(number), VALUE).unwrap();
        let (offset, length) = found.read.unwrap();
        let read = Command::new(Operation::Read, offset, length);
        self.submit(Job::Retrieve { number, offset }, read);
    }

    fn drain(&mut self) {
        while self.of_host > 0 {
            self.advance();
        }
    }
}

#[test]
#[ignore = "a million pairs and six million commands: make slow-test"]
fn a_million_pairs_on_flash_are_as_written_and_collected_as_the_reference() {
    let mut drive = Drive::new();
    let mut random = Random::new(7);
    (0..KEYS).for_each(|number| drive.put(number, 1));
    drive.drain();
    let stored = drive.now;
    let before = drive.store.statistics();
    drive.model.start(stored);
    for version in 0..OVERWRITES {
        drive.put(random.below(KEYS), 2 + version);
    }
    drive.drain();
    let (after, overwritten) = (drive.store.statistics(), drive.now);
    let inside = serde_json::to_value(drive.model.inside(overwritten)).unwrap();
    for number in 0..KEYS {
        drive.get(splitmix::mix(number) % KEYS);
        drive.get(number);
    }
    drive.drain();
    assert_eq!(drive.store.len() as u64, KEYS);

    let host = after.stored - before.stored;
    let measured = (host + after.collected - before.collected) as f64 / host as f64;
    let lengths = Lengths::Fixed(u64::from(VALUE) / 512);
    let (segments, segment) = (SEGMENTS, SEGMENT);
    let load = Load { segments, segment, keys: KEYS, overwrites: OVERWRITES, lengths };
    let expected = reference(load);
    let rate = |count: u64, from: Nanos, to: Nanos| count as f64 / ((to - from) as f64 / 1e9);
    println!(
        "write amplification of the log {measured:.3}, of the reference {expected:.3}; of the drive \
         below {}; stores a second: first {:.0}, overwriting {:.0}; retrieves {:.0}",
        inside["write_amplification"],
        rate(KEYS, 0, stored),
        rate(OVERWRITES, stored, overwritten),
        rate(2 * KEYS, overwritten, drive.now),
    );
    assert!((measured / expected - 1.0).abs() < 0.05, "{measured} for {expected}");
}
