//! The read cache: units that the host read, in the controller's memory.
//!
//! Invariants: a unit has one entry at most; an entry is of data on its way as long as the request
//! that fetches it is under way, and of data that is there afterwards; there are at most `room`
//! entries. Of equal policies an entry's place depends on the order of the requests only.

use std::collections::VecDeque;
use std::ops::Range;

use stasis_block::clock::Nanos;
use stasis_block::inside::ReadCacheInside;
use stasis_nand::hash::bits;

use crate::buffer::{table::Table, IN_FLIGHT, NONE};
use crate::ftl::RequestId;
use crate::link::Link;
use crate::narrow::{count, remainder};
use crate::spec::{CachedWrites, ReadCacheSpec, Replacement};

/// Sequential streams of reads that are followed at a time.
const STREAMS: usize = 16;
/// Stream of the seed that chooses the entries which random replacement gives up.
const VICTIMS: u64 = 0x7669_6374;

#[derive(Debug, Clone, Copy)]
struct Entry {
    unit: u32,
    before: u32,
    after: u32,
    // The request that fetches it, or `NONE` once it is there.
    filler: RequestId,
}

/// The state of a unit in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The unit is in the cache.
    Hit,
    /// This request fetches it.
    Coming(RequestId),
    /// The unit is not in the cache.
    Miss,
}

/// A piece of a request that waits for a unit which another one fetches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiter {
    pub filler: RequestId,
    pub id: RequestId,
    pub unit: u32,
}

/// A sequence of reads: where the next one begins, and how far was read ahead (bytes).
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    end: u64,
    ahead: u64,
}

/// Counts since the start of the drive, in units.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub hits: u64,
    pub waited: u64,
    pub misses: u64,
    pub ahead: u64,
}

/// The read cache; see the [module](self).
#[derive(Debug)]
pub(crate) struct ReadCache {
    replacement: Replacement,
    pub writes: CachedWrites,
    room: u32,
    seed: u64,
    // Entries that were given up at random.
    drawn: u64,
    entries: Vec<Entry>,
    free: Vec<u32>,
    table: Table,
    oldest: u32,
    newest: u32,
    used: u32,
    read_ahead: u64,
    streams: [Stream; STREAMS],
    // The stream that is given up next.
    turn: usize,
    pub memory: Link,
    // Requests whose data leaves the memory, the next first.
    pub leaving: VecDeque<(Nanos, RequestId)>,
    pub waiters: Vec<Waiter>,
    pub counts: Counts,
}

impl ReadCache {
    /// The figures of the cache, with units of `unit` bytes, since its counts were `before`.
    pub(crate) fn inside(&self, unit: u32, before: &Counts) -> ReadCacheInside {
        let now = &self.counts;
        ReadCacheInside {
            room: u64::from(self.room()) * u64::from(unit),
            held: u64::from(self.used()) * u64::from(unit),
            hit_units: now.hits - before.hits,
            waited_units: now.waited - before.waited,
            missed_units: now.misses - before.misses,
            ahead_units: now.ahead - before.ahead,
        }
    }

    /// An empty cache of a drive with units of `unit` bytes.
    pub fn new(spec: &ReadCacheSpec, unit: u64, seed: u64) -> Self {
        let room = u32::try_from(spec.size / unit.max(1)).unwrap_or(NONE - 1).max(1);
        Self {
            replacement: spec.replacement,
            writes: spec.writes,
            room,
            seed: seed ^ VICTIMS,
            drawn: 0,
            entries: Vec::with_capacity(room as usize),
            free: Vec::new(),
            table: Table::new(),
            oldest: NONE,
            newest: NONE,
            used: 0,
            read_ahead: spec.read_ahead,
            streams: [Stream::default(); STREAMS],
            turn: 0,
            memory: Link::new(spec.rate),
            leaving: VecDeque::with_capacity(IN_FLIGHT),
            waiters: Vec::with_capacity(IN_FLIGHT),
            counts: Counts::default(),
        }
    }

    /// Returns the time at which data next leaves the memory; `Nanos::MAX`: never.
    pub fn next_event(&self) -> Nanos {
        self.leaving.front().map_or(Nanos::MAX, |(at, _)| *at)
    }

    /// Units that it has room for.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Returns the number of units in the cache or on their way.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// The host reads a unit.
    pub fn look_up(&mut self, unit: u32) -> Lookup {
        let Some(index) = self.table.get(unit) else { return Lookup::Miss };
        if self.replacement == Replacement::Lru {
            self.unlink(index);
            self.link(index);
        }
        match self.entries[index as usize].filler {
            NONE => Lookup::Hit,
            filler => Lookup::Coming(filler),
        }
    }

    /// Returns whether the unit is there, or on its way.
    pub fn has(&self, unit: u32) -> bool {
        self.table.get(unit).is_some()
    }

    /// Adds an entry for a unit without one: `filler` fetches the unit, or the unit is there
    /// ([`NONE`]). Another entry leaves if there is no room.
    pub fn insert(&mut self, unit: u32, filler: RequestId) {
        debug_assert!(!self.has(unit), "a unit has one entry");
        if self.used == self.room {
            self.give_up(self.victim());
        }
        let entry = Entry { unit, before: NONE, after: NONE, filler };
        let index = self.free.pop().unwrap_or(count(self.entries.len()));
        match self.entries.get_mut(index as usize) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        self.used += 1;
        self.table.insert(unit, index);
        self.link(index);
    }

    /// A unit was written as a whole, and its new data is there.
    pub fn update(&mut self, unit: u32) {
        match self.table.get(unit) {
            Some(index) => self.entries[index as usize].filler = NONE,
            None => self.insert(unit, NONE),
        }
    }

    /// Notes the end of a request that fetches units: `there` says whether the units that the
    /// request still fetches are in the cache.
    pub fn arrived(&mut self, units: Range<u32>, filler: RequestId, there: bool) {
        for unit in units {
            let Some(index) = self.table.get(unit) else { continue };
            let entry = &mut self.entries[index as usize];
            if entry.filler != filler {
                continue;
            }
            entry.filler = NONE;
            if !there {
                self.give_up(index);
            }
        }
    }

    /// The data of units changes: they are no longer there.
    pub fn remove(&mut self, units: Range<u32>) {
        if units.len() > self.entries.len() {
            // By entry, where a request covers more than the cache has.
            for index in 0..count(self.entries.len()) {
                let unit = self.entries[index as usize].unit;
                if units.contains(&unit) && self.table.get(unit) == Some(index) {
                    self.give_up(index);
                }
            }
            return;
        }
        for unit in units {
            if let Some(index) = self.table.get(unit) {
                self.give_up(index);
            }
        }
    }

    /// Empties the cache, and forgets the units on their way.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.free.clear();
        self.table.clear();
        (self.oldest, self.newest, self.used, self.drawn) = (NONE, NONE, 0, 0);
        (self.streams, self.turn) = ([Stream::default(); STREAMS], 0);
        self.memory.reset();
        self.leaving.clear();
        self.waiters.clear();
    }

    /// The host reads these bytes of a drive of `capacity`: the bytes to read ahead, if there are
    /// any. They are fetched once half as many as are kept ahead are missing.
    pub fn read_ahead(&mut self, bytes: Range<u64>, capacity: u64) -> Option<Range<u64>> {
        if self.read_ahead == 0 || bytes.is_empty() {
            return None;
        }
        let follows = |stream: &Stream| stream.end == bytes.start && stream.end > 0;
        let Some(stream) = self.streams.iter_mut().find(|stream| follows(stream)) else {
            self.streams[self.turn] = Stream { end: bytes.end, ahead: bytes.end };
            self.turn = (self.turn + 1) % STREAMS;
            return None;
        };
        stream.end = bytes.end;
        let start = stream.ahead.max(bytes.end);
        let end = bytes.end.saturating_add(self.read_ahead).min(capacity);
        let due = end.saturating_sub(start) >= self.read_ahead / 2 || end == capacity;
        if !due || start >= end {
            return None;
        }
        stream.ahead = end;
        Some(start..end)
    }

    /// The entry that leaves next.
    fn victim(&self) -> u32 {
        match self.replacement {
            Replacement::Lru | Replacement::Fifo => self.oldest,
            // All entries are in use.
            Replacement::Random => remainder(bits(self.seed, self.drawn), self.room),
        }
    }

    fn give_up(&mut self, index: u32) {
        self.drawn += 1;
        self.table.remove(self.entries[index as usize].unit);
        self.unlink(index);
        self.free.push(index);
        self.used -= 1;
    }

    /// An entry becomes the newest.
    fn link(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.newest, index);
        let entry = &mut self.entries[index as usize];
        (entry.before, entry.after) = (before, NONE);
        match before {
            NONE => self.oldest = index,
            before => self.entries[before as usize].after = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry { before, after, .. } = self.entries[index as usize];
        match before {
            NONE => self.oldest = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.entries[after as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cache(replacement: Replacement, room: u64) -> ReadCache {
        let spec = ReadCacheSpec { replacement, ..ReadCacheSpec::of(room * 4096) };
        ReadCache::new(&spec, 4096, 1)
    }

    proptest! {
        /// Against a list, whose first leaves: LRU moves what is read to its end.
        #[test]
        fn what_is_there_is_what_a_list_has(
            lru: bool,
            room in 1..40u64,
            steps in prop::collection::vec((0u32..60, 0u32..8), 1..600),
        ) {
            let replacement = if lru { Replacement::Lru } else { Replacement::Fifo };
            let mut cache = cache(replacement, room);
            let mut list: VecDeque<u32> = VecDeque::new();
            for (unit, step) in steps {
                let place = list.iter().position(|&other| other == unit);
                match step {
                    0 => {
                        cache.remove(unit..unit + 3);
                        list.retain(|other| !(unit..unit + 3).contains(other));
                    }
                    1 => {
                        cache.remove(unit..unit + 1_000);
                        list.retain(|other| *other < unit);
                    }
                    _ => {
                        let found = cache.look_up(unit);
                        prop_assert_eq!(found == Lookup::Hit, place.is_some());
                        if let (Some(place), true) = (place, lru) {
                            list.remove(place);
                            list.push_back(unit);
                        }
                        if place.is_none() {
                            cache.insert(unit, NONE);
                            list.push_back(unit);
                            if list.len() as u64 > room {
                                list.pop_front();
                            }
                        }
                    }
                }
                prop_assert_eq!(cache.used() as usize, list.len());
            }
        }
    }

    #[test]
    fn random_replacement_keeps_its_room_and_repeats() {
        let fill = |seed| {
            let mut cache = cache(Replacement::Random, 50);
            cache.seed = seed;
            (0..500).for_each(|unit| cache.insert(unit, NONE));
            (0..500).filter(|&unit| cache.has(unit)).collect::<Vec<u32>>()
        };
        assert_eq!(fill(1).len(), 50);
        assert_eq!(fill(1), fill(1));
        assert_ne!(fill(1), fill(2));
    }

    #[test]
    fn a_unit_is_there_once_it_was_fetched_and_was_not_written_meanwhile() {
        let mut cache = cache(Replacement::Lru, 8);
        (0..4).for_each(|unit| cache.insert(unit, 7));
        assert_eq!(cache.look_up(0), Lookup::Coming(7));
        cache.remove(1..2);
        cache.update(2);
        cache.remove(3..4);
        cache.insert(3, 8);
        cache.arrived(0..4, 7, true);
        let found = [0, 1, 2, 3].map(|unit| cache.look_up(unit));
        assert_eq!(found, [Lookup::Hit, Lookup::Miss, Lookup::Hit, Lookup::Coming(8)]);
        cache.arrived(0..4, 8, false);
        assert_eq!(cache.look_up(3), Lookup::Miss);
    }

    #[test]
    fn sequences_are_read_ahead_by_halves() {
        let spec = ReadCacheSpec { read_ahead: 32, ..ReadCacheSpec::of(4096) };
        let mut cache = ReadCache::new(&spec, 1, 1);
        assert_eq!(cache.read_ahead(100..104, 1_000), None);
        assert_eq!(cache.read_ahead(500..504, 1_000), None);
        assert_eq!(cache.read_ahead(104..108, 1_000), Some(108..140));
        assert_eq!(cache.read_ahead(504..508, 1_000), Some(508..540));
        for end in [112, 116, 120] {
            assert_eq!(cache.read_ahead(end - 4..end, 1_000), None);
        }
        assert_eq!(cache.read_ahead(120..124, 1_000), Some(140..156));
        assert_eq!(cache.read_ahead(980..990, 1_000), None);
        assert_eq!(cache.read_ahead(990..996, 1_000), Some(996..1_000));
        assert_eq!(cache.read_ahead(996..1_000, 1_000), None);
    }
}
