//! The part of the map that is in memory: lines of entries, in two segments by
//! how recently they were used (segmented LRU: Karedla, Love and Wherry,
//! Computer 1994). A line that is used again is protected; one that is protected too long goes back
//! among the rest, and the oldest of the rest leaves first.

use crate::buffer::table::Table;
use crate::buffer::NONE;
use crate::narrow::count;

#[derive(Debug, Clone, Copy)]
struct Entry {
    line: u32,
    newer: u32,
    older: u32,
    dirty: bool,
    protected: bool,
}

/// A list in the order of use.
#[derive(Debug, Clone, Copy)]
struct Segment {
    newest: u32,
    oldest: u32,
    used: u32,
}

/// Lines in memory; see the [module](self).
#[derive(Debug)]
pub(super) struct Cache {
    room: u32,
    protected_room: u32,
    entries: Vec<Entry>,
    free: Vec<u32>,
    table: Table,
    // The probationary segment, and the protected one.
    segments: [Segment; 2],
}

const EMPTY: Segment = Segment { newest: NONE, oldest: NONE, used: 0 };

impl Cache {
    /// Room for so many lines.
    pub fn new(room: u32) -> Self {
        let room = room.max(1);
        Self {
            room,
            // Half is probationary: a scan does not evict lines that are used often.
            protected_room: room / 2,
            entries: Vec::new(),
            free: Vec::new(),
            table: Table::new(),
            segments: [EMPTY; 2],
        }
    }

    /// Number of cached lines.
    pub fn used(&self) -> u32 {
        self.segments[0].used + self.segments[1].used
    }

    /// Uses a line; returns whether it is cached.
    pub fn touch(&mut self, line: u32) -> bool {
        let Some(index) = self.table.get(line) else { return false };
        self.unlink(index);
        let protects = self.protected_room > 0;
        self.link(index, protects);
        if self.segments[1].used > self.protected_room {
            let oldest = self.segments[1].oldest;
            self.unlink(oldest);
            self.link(oldest, false);
        }
        true
    }

    /// Marks a line as changed, if it is in the cache. Returns whether it is.
    pub fn dirty(&mut self, line: u32) -> bool {
        let Some(index) = self.table.get(line) else { return false };
        self.entries[index as usize].dirty = true;
        true
    }

    /// A line is as in flash, if it is here.
    pub fn clean(&mut self, line: u32) {
        if let Some(index) = self.table.get(line) {
            self.entries[index as usize].dirty = false;
        }
    }

    /// Returns whether a line is here and was changed.
    #[cfg(test)]
    pub fn is_dirty(&self, line: u32) -> bool {
        self.table.get(line).is_some_and(|index| self.entries[index as usize].dirty)
    }

    /// Takes in a line; returns the evicted line, if it was changed.
    pub fn insert(&mut self, line: u32, dirty: bool) -> Option<u32> {
        if let Some(index) = self.table.get(line) {
            self.entries[index as usize].dirty |= dirty;
            return None;
        }
        let evicted = if self.used() < self.room { None } else { self.evict() };
        let entry = Entry { line, newer: NONE, older: NONE, dirty, protected: false };
        let index = self.free.pop().unwrap_or(count(self.entries.len()));
        if index as usize == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[index as usize] = entry;
        }
        self.table.insert(line, index);
        self.link(index, false);
        evicted
    }

    fn evict(&mut self) -> Option<u32> {
        let [trial, protected] = &self.segments;
        let index = if trial.oldest == NONE { protected.oldest } else { trial.oldest };
        self.unlink(index);
        self.free.push(index);
        let Entry { line, dirty, .. } = self.entries[index as usize];
        self.table.remove(line);
        dirty.then_some(line)
    }

    /// Every line that was changed; and all are gone.
    pub fn lose(&mut self, mut changed: impl FnMut(u32)) {
        for segment in &mut self.segments {
            let mut index = segment.newest;
            while index != NONE {
                let entry = self.entries[index as usize];
                if entry.dirty {
                    changed(entry.line);
                }
                index = entry.older;
            }
            *segment = EMPTY;
        }
        self.entries.clear();
        self.free.clear();
        self.table.clear();
    }

    fn link(&mut self, index: u32, protected: bool) {
        let segment = &mut self.segments[usize::from(protected)];
        let older = std::mem::replace(&mut segment.newest, index);
        segment.used += 1;
        match older {
            NONE => segment.oldest = index,
            older => self.entries[older as usize].newer = index,
        }
        let entry = &mut self.entries[index as usize];
        (entry.newer, entry.older, entry.protected) = (NONE, older, protected);
    }

    fn unlink(&mut self, index: u32) {
        let Entry { newer, older, protected, .. } = self.entries[index as usize];
        let segment = &mut self.segments[usize::from(protected)];
        segment.used -= 1;
        match newer {
            NONE => segment.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => segment.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    /// Lists and table agree; for tests.
    pub fn check(&self) {
        let mut found = 0;
        for (protected, segment) in [false, true].into_iter().zip(&self.segments) {
            let (mut index, mut used, mut last) = (segment.newest, 0, NONE);
            while index != NONE {
                let entry = &self.entries[index as usize];
                assert_eq!((entry.protected, entry.newer), (protected, last));
                assert_eq!(self.table.get(entry.line), Some(index));
                (last, index, used) = (index, entry.older, used + 1);
            }
            assert_eq!((used, last), (segment.used, segment.oldest));
            found += used;
        }
        assert!(found <= self.room && self.segments[1].used <= self.protected_room);
        assert_eq!(found as usize + self.free.len(), self.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_leaves_what_is_used_often() {
        let mut cache = Cache::new(8);
        for line in 0..4 {
            assert!(!cache.touch(line));
            assert_eq!(cache.insert(line, line == 0), None);
            assert!(cache.touch(line));
        }
        let evicted: Vec<u32> = (100..200).filter_map(|line| cache.insert(line, true)).collect();
        assert_eq!(evicted, (100..196).collect::<Vec<_>>());
        assert!((0..4).all(|line| cache.touch(line)));
        cache.check();
        let mut changed = Vec::new();
        cache.lose(|line| changed.push(line));
        changed.sort_unstable();
        assert_eq!(changed, [0, 196, 197, 198, 199]);
        assert!(!cache.touch(0) && cache.used() == 0);
        cache.check();
    }
}
