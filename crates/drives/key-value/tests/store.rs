//! A store against a map, on a drive that ends what it is asked in any order, and that does it at the
//! latest moment or the earliest.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use stasis_block::Random;
use stasis_key_value::{Condition, Key, Layout, PageRead, Place, Refusal, Store, Task};

const UNIT: u64 = 512;

/// A command that the drive has not ended.
enum Pending {
    Read {
        offset: u64,
        length: u64,
        expected: Vec<u8>,
        done: Option<Vec<u8>>,
    },
    Write {
        key: Key,
        place: Place,
        condition: Condition,
        value: Vec<u8>,
        fails: bool,
    },
    Copy {
        from: u64,
        to: u64,
        length: u64,
        fails: bool,
        done: bool,
    },
    Discard {
        offset: u64,
    },
    Page {
        read: PageRead,
        then: Option<(Key, u32)>,
    },
    Fill {
        offset: u64,
        fails: bool,
    },
    /// With what was written when it began.
    Flush {
        written: Durable,
        fails: bool,
    },
}

/// Contents after a loss of power: bytes, and the stores that have ended.
#[derive(Clone)]
struct Durable {
    bytes: Vec<u8>,
    stored: BTreeMap<Key, u64>,
}

struct Machine {
    store: Store,
    bytes: Vec<u8>,
    durable: Durable,
    /// The last store of each key by its number, and how many there were.
    stored: BTreeMap<Key, u64>,
    stores: u64,
    pending: Vec<Pending>,
    waiting: VecDeque<(Key, Condition, Vec<u8>)>,
    /// The pairs that are to be there.
    map: BTreeMap<Key, Vec<u8>>,
    random: Random,
    /// True if its controller ends, and another one goes on.
    ends: bool,
    /// Number of failures among a hundred writes and copies.
    failures: u64,
    refused: u64,
}

fn units(value: &[u8]) -> u64 {
    (value.len() as u64).next_multiple_of(UNIT)
}

impl Machine {
    fn new(layout: Layout, seed: u64, failures: u64) -> Self {
        let bytes = layout.segment * u64::from(layout.segments);
        Self {
            store: Store::new(layout),
            bytes: vec![0; bytes as usize],
            durable: Durable { bytes: vec![0; bytes as usize], stored: BTreeMap::new() },
            stored: BTreeMap::new(),
            stores: 0,
            pending: Vec::new(),
            waiting: VecDeque::new(),
            map: BTreeMap::new(),
            random: Random::new(seed),
            ends: false,
            failures,
            refused: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn used(&self) -> u64 {
        self.map.values().map(|value| units(value)).sum()
    }

    /// The refusal that a store is to have now, by the map.
    fn refusal(&self, key: &Key, value: &[u8], condition: Condition) -> Option<Refusal> {
        let layout = self.store.layout();
        let before = self.map.get(key);
        if value.len() > layout.max_value as usize {
            return Some(Refusal::ValueTooLong);
        }
        match (condition, before) {
            (Condition::IfThere, None) => return Some(Refusal::KeyDoesNotExist),
            (Condition::IfNotThere, Some(_)) => return Some(Refusal::KeyExists),
            _ => {}
        }
        let full = before.is_none() && self.map.len() == layout.max_keys as usize;
        let others = self.used() - before.map_or(0, |value| units(value));
        (full || others + units(value) > layout.capacity).then_some(Refusal::CapacityExceeded)
    }

    fn store(&mut self, key: Key, value: Vec<u8>, condition: Condition) {
        let checked = self.store.check(&key, value.len() as u32, condition);
        assert_eq!(checked.err(), self.refusal(&key, &value, condition));
        if checked.is_ok() {
            if let Some(read) = self.store.look_up(&key) {
                self.pending.push(Pending::Page { read, then: None });
            }
            self.waiting.push_back((key, condition, value));
        }
        self.go_on();
    }

    /// Retrieves a value once the page of its key is there.
    fn ask(&mut self, key: Key, most: u32) {
        match self.store.look_up(&key) {
            None => self.retrieve(key, most),
            Some(read) => self.pending.push(Pending::Page { read, then: Some((key, most)) }),
        }
        self.go_on();
    }

    fn retrieve(&mut self, key: Key, most: u32) {
        let found = self.store.retrieve(&key, most);
        assert_eq!(found.map(|value| value.length as usize), self.map.get(&key).map(Vec::len));
        let Some(value) = found else { return };
        let expected = self.map[&key][..(value.length.min(most)) as usize].to_vec();
        match value.read {
            None => assert!(expected.is_empty()),
            Some((offset, length)) => {
                assert_eq!(length, units(&expected));
                let early = self.below(2) == 0;
                let done = early.then(|| self.read(offset, length));
                self.pending.push(Pending::Read { offset, length, expected, done });
            }
        }
    }

    fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        self.bytes[offset as usize..(offset + length) as usize].to_vec()
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        let data = self.read(from, length);
        self.bytes[to as usize..][..data.len()].copy_from_slice(&data);
    }

    /// Hands to the drive what there is.
    fn go_on(&mut self) {
        loop {
            if let Some((key, condition, value)) = self.waiting.pop_front() {
                match self.store.place(value.len() as u32) {
                    Some(place) => {
                        let early = self.below(2) == 0;
                        let fails = self.below(100) < self.failures;
                        if early {
                            self.write(place, &value);
                        }
                        let write = Pending::Write { key, place, condition, value, fails };
                        self.pending.push(write);
                        continue;
                    }
                    None => self.waiting.push_front((key, condition, value)),
                }
            }
            match self.store.next_task() {
                Some(Task::Copy { from, to, length }) => {
                    let (early, fails) = (self.below(2) == 0, self.below(100) < self.failures);
                    if early {
                        self.copy(from, to, length);
                    }
                    self.pending.push(Pending::Copy { from, to, length, fails, done: early });
                }
                Some(Task::Write { offset, length, .. }) => {
                    self.bytes[offset as usize..(offset + length) as usize].fill(0xcc);
                    let fails = self.below(100) < self.failures;
                    self.pending.push(Pending::Fill { offset, fails });
                }
                Some(Task::Flush) => {
                    let fails = self.below(100) < self.failures;
                    let written =
                        Durable { bytes: self.bytes.clone(), stored: self.stored.clone() };
                    self.pending.push(Pending::Flush { written, fails });
                }
                Some(Task::Discard { offset, length }) => {
                    // At once: nobody may read it any more.
                    let range = offset as usize..(offset + length) as usize;
                    self.bytes[range.clone()].fill(0xdd);
                    self.durable.bytes[range].fill(0xdd);
                    self.pending.push(Pending::Discard { offset });
                }
                None => return,
            }
        }
    }

    fn write(&mut self, place: Place, value: &[u8]) {
        self.bytes[place.offset as usize..][..value.len()].copy_from_slice(value);
    }

    /// The drive ends one of its commands.
    fn end_one(&mut self) {
        let index = self.below(self.pending.len() as u64) as usize;
        match self.pending.swap_remove(index) {
            Pending::Read { offset, length, expected, done } => {
                let data = done.unwrap_or_else(|| self.read(offset, length));
                assert_eq!(data[..expected.len()], expected);
                self.store.end_read(offset);
            }
            Pending::Write { place, fails: true, .. } => self.store.abandon(place),
            Pending::Write { key, place, condition, value, .. } => {
                self.write(place, &value);
                let refusal = self.refusal(&key, &value, condition);
                assert_eq!(self.store.store(key, place, condition).err(), refusal);
                if refusal.is_none() {
                    self.map.insert(key, value);
                    self.stores += 1;
                    self.stored.insert(key, self.stores);
                }
                self.refused += u64::from(refusal.is_some());
            }
            Pending::Copy { to, fails: true, .. } => self.store.copied(to, false),
            Pending::Copy { from, to, length, done, .. } => {
                if !done {
                    self.copy(from, to, length);
                }
                self.store.copied(to, true);
            }
            Pending::Discard { offset } => self.store.discarded(offset),
            Pending::Page { read: PageRead { page, offset, length }, then } => {
                // A page that is being read is not written over.
                let bytes = &self.bytes[offset as usize..(offset + length) as usize];
                assert!(bytes.iter().all(|&byte| byte == 0xcc), "page {page} at {offset}");
                self.store.page_read(page, offset);
                if let Some((key, most)) = then {
                    self.retrieve(key, most);
                }
            }
            Pending::Fill { offset, fails } => self.store.written(offset, !fails),
            Pending::Flush { fails: true, .. } => self.store.flushed(false),
            Pending::Flush { written, .. } => {
                self.durable = written;
                self.store.flushed(true);
            }
        }
        if self.below(16) == 0 {
            self.check_durable();
        }
        self.go_on();
        assert_eq!(self.store.used(), self.used());
        assert_eq!(self.store.len(), self.map.len());
    }

    fn drain(&mut self) {
        while !self.pending.is_empty() {
            self.end_one();
        }
        if !self.waiting.is_empty() {
            assert!(self.failures > 0, "nothing is under way, and stores wait");
            assert!(!self.store.can_make_room());
            self.waiting.clear();
        }
    }

    /// A loss of power now would leave every pair that was stored before the last flush, and not again
    /// since.
    fn check_durable(&mut self) {
        for (key, number) in &self.durable.stored {
            if self.stored.get(key) != Some(number) {
                continue;
            }
            let Some(value) = self.map.get(key).filter(|value| !value.is_empty()) else { continue };
            let found = self.store.retrieve(key, u32::MAX).and_then(|value| value.read);
            let (offset, _) = found.expect("a pair that is there");
            assert_eq!(self.durable.bytes[offset as usize..][..value.len()], value[..], "{key:?}");
            self.store.end_read(offset);
        }
    }

    /// The controller ends, and another one goes on. Commands under way are lost.
    fn go_on_anew(&mut self) {
        self.pending.clear();
        self.waiting.clear();
        let kept = self.store.kept();
        let mut store = Store::new(*self.store.layout());
        store.restore(&kept).unwrap();
        assert_eq!(store.used(), self.store.used());
        assert!(store.keys_from(None).eq(self.store.keys_from(None)));
        // Nothing is lost or found by keeping it once more.
        assert_eq!(store.kept().pairs, kept.pairs);
        self.store = store;
        self.go_on();
    }

    /// Everything is there, and nothing else.
    fn check_all(&mut self) {
        let keys: Vec<Key> = self.map.keys().copied().collect();
        for key in &keys {
            self.retrieve(*key, u32::MAX);
        }
        self.drain();
        assert!(self.store.keys_from(None).eq(keys.iter()));
        if let Some(middle) = keys.get(keys.len() / 2) {
            assert!(self.store.keys_from(Some(middle)).eq(keys[keys.len() / 2..].iter()));
        }
    }
}

fn key(number: u64) -> Key {
    let length = 1 + (number % 16) as usize;
    let bytes: Vec<u8> = (0..length).map(|at| (number >> (at % 8)) as u8).collect();
    Key::new(&bytes).unwrap()
}

fn layout(spare: u16) -> Layout {
    Layout::new(1 << 20, 16 << 10, UNIT, (4096, 300), spare).unwrap()
}

/// With room for so many pages of the index; 0: for all of it.
fn indexed(spare: u16, pages: u64) -> Layout {
    match pages {
        0 => layout(spare),
        pages => layout(spare).with_index(pages * 4096).unwrap(),
    }
}

fn run(seed: u64, steps: u32, failures: u64, layout: Layout) -> Machine {
    let mut machine = Machine::new(layout, seed, failures);
    machine.steps(steps);
    machine.drain();
    machine.check_all();
    machine
}

impl Machine {
    fn steps(&mut self, steps: u32) {
        let machine = self;
        for step in 0..steps {
            let key = key(machine.below(400));
            match machine.below(10) {
                0..=4 => {
                    // Often the whole drive is full of the longest values.
                    let length = match machine.below(4) {
                        0 => machine.below(4200),
                        1 => machine.below(600),
                        _ => 4096 - machine.below(100),
                    };
                    let value = (0..length).map(|at| (at as u32 ^ step) as u8).collect();
                    let condition = [Condition::Always, Condition::IfThere, Condition::IfNotThere]
                        [machine.below(6).saturating_sub(3) as usize];
                    machine.store(key, value, condition);
                }
                5..=6 => {
                    let most = machine.below(5000) as u32;
                    machine.ask(key, most);
                }
                7 => {
                    if let Some(read) = machine.store.look_up(&key) {
                        machine.pending.push(Pending::Page { read, then: None });
                    }
                    assert_eq!(machine.store.delete(&key), machine.map.remove(&key).is_some());
                    machine.go_on();
                }
                8 if machine.ends && machine.below(50) == 0 => machine.go_on_anew(),
                _ => {}
            }
            // Between nothing and many are under way.
            while machine.pending.len() > 12 || !machine.pending.is_empty() && machine.below(2) == 0
            {
                machine.end_one();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_store_is_a_map(
        seed in any::<u64>(),
        spare in 0u16..400,
        pages in 0u64..4,
        filled in any::<bool>(),
    ) {
        let layout = indexed(spare, pages);
        let layout = if filled { layout.with_page(512) } else { layout };
        let mut machine = Machine::new(layout, seed, 0);
        machine.ends = seed % 2 == 0;
        machine.steps(4_000);
        machine.drain();
        machine.check_all();
    }

    #[test]
    fn writes_and_copies_that_fail_lose_no_pair(seed in any::<u64>(), pages in 0u64..4) {
        run(seed, 1_500, 5, indexed(0, pages));
    }
}

/// The runs above reach what they are there for.
#[test]
fn runs_fill_the_store_and_collect() {
    let machine = run(1, 6_000, 0, layout(0));
    let statistics = machine.store.statistics();
    assert!(statistics.segments_collected > 500, "{statistics:?}");
    assert!(statistics.write_amplification() > 1.5, "{statistics:?}");
    assert!(machine.used() > machine.store.layout().capacity * 9 / 10);
    assert!(machine.refused > 0, "no store was refused at its end");
    assert_eq!((statistics.index_read, statistics.index_written), (0, 0));
    // Two of four pages are in memory.
    let statistics = run(1, 6_000, 0, indexed(0, 2)).store.statistics();
    assert!(statistics.index_read > 100 * 4096, "{statistics:?}");
    assert!(statistics.index_written > 100 * 4096, "{statistics:?}");
    assert!(statistics.index_hits > 1_000, "{statistics:?}");
}

/// A state that no store can be in is refused, whatever it is; another one is a store that works.
#[test]
fn states_are_refused_or_work() {
    let layout = indexed(0, 2);
    let states = [300, 500, 1_000, 2_000].map(|steps| run(9, steps, 0, layout).store.kept());
    let (mut refused, mut resumed) = (0, 0);
    for seed in 0..400 {
        let mut kept = states[seed as usize % 4].clone();
        let mut random = Random::new(seed);
        let mut odd = |usual: u64| match random.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => usual.wrapping_add(1),
            3 => usual.wrapping_add(512),
            4 => usual.wrapping_sub(512),
            _ => random.below(1 << 20) / 512 * 512,
        };
        let at = seed as usize / 8;
        match seed / 8 % 8 {
            0 => {
                let count = kept.pairs.len();
                kept.pairs[at % count].1 = odd(kept.pairs[at % count].1);
            }
            1 => {
                let count = kept.pairs.len();
                kept.pairs[at % count].2 = odd(kept.pairs[at % count].2.into()) as u32;
            }
            2 => kept.pairs[0].0 = ["", "0", "zz", "00", "é"][at % 5].into(),
            3 => kept.free.push(odd(63) as u32),
            4 => kept.open[at % 2] = Some((odd(3) as u32, odd(16_384))),
            5 => kept.pages.push((odd(3) as u32, odd(4096))),
            6 => kept.cached.push((odd(3) as u32, true)),
            _ => drop(kept.pairs.remove(0)),
        }
        let mut store = Store::new(layout);
        match store.restore(&kept) {
            Err(_) => refused += 1,
            Ok(()) => {
                resumed += 1;
                let mut machine = Machine::new(layout, seed, 0);
                // The bytes that it has are not those of these pairs: keys are new.
                machine.store = store;
                machine.bytes.fill(0xcc);
                let keys: Vec<Key> = machine.store.keys_from(None).copied().collect();
                for key in keys {
                    machine.store.delete(&key);
                    machine.go_on();
                }
                machine.drain();
                machine.steps(300);
            }
        }
    }
    assert!(refused > 100 && resumed > 30, "{refused} {resumed}");
}
