//! The pages of the index: which of them the drive's memory holds, and which it reads and writes.
//!
//! The store's own index says what a key has. Here is only what a drive moves for that whose memory has
//! room for a part of its index: pages of entries by a hash of the key, which leave memory in the order
//! in which they were asked for, and lie in the log beside values.
//!
//! Invariant: a page that is not in memory is in the log, or was never changed.

use std::collections::{BTreeMap, VecDeque};

use super::key::Key;

const NONE: u32 = u32::MAX;
/// A page has no place in the log.
const NOWHERE: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Away,
    Cached,
    /// Changed, and about to be written: it is still in memory.
    Leaving,
    Writing,
}

#[derive(Debug, Clone, Copy)]
struct Page {
    /// Its place in the log.
    at: u64,
    state: State,
    /// The log has another content.
    changed: bool,
    /// Entries have changed while it was away: it is written again once it is back.
    stale: bool,
    /// A write of it is under way: there is one at a time.
    flies: bool,
    // Among the cached: the one that was asked for before it, and after it.
    older: u32,
    newer: u32,
}

/// A page that is to be read for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRead {
    /// Its number.
    pub page: u32,
    /// Its first byte.
    pub offset: u64,
    /// Number of blocks.
    pub length: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct IndexPages {
    pages: Vec<Page>,
    /// Pages that memory has room for.
    room: u32,
    cached: u32,
    oldest: u32,
    newest: u32,
    leaving: VecDeque<u32>,
    /// By their new places.
    writing: BTreeMap<u64, u32>,
}

impl IndexPages {
    /// Creates `pages` pages, with room in memory for `room` of them.
    pub fn new(pages: u32, room: u32) -> Self {
        let away = Page {
            at: NOWHERE,
            state: State::Away,
            changed: false,
            stale: false,
            flies: false,
            older: NONE,
            newer: NONE,
        };
        Self {
            pages: vec![away; pages as usize],
            room,
            cached: 0,
            oldest: NONE,
            newest: NONE,
            leaving: VecDeque::new(),
            writing: BTreeMap::new(),
        }
    }

    /// The page of a key.
    pub fn page_of(&self, key: &Key) -> u32 {
        // FNV-1a with a finish that spreads it over all bits.
        let fnv = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = key.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fnv);
        let hash = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(hash) * self.pages.len() as u128) >> 64) as u32
    }

    fn of(&mut self, page: u32) -> &mut Page {
        &mut self.pages[page as usize]
    }

    /// A command needs a page: `Some` with its place if that is to be read first.
    pub fn ask(&mut self, page: u32) -> Option<u64> {
        let Page { at, state, .. } = *self.of(page);
        match state {
            State::Cached => self.unlink(page),
            State::Away if at != NOWHERE => return Some(at),
            _ => {}
        }
        self.insert(page);
        None
    }

    /// Takes in a page that has been read.
    pub fn arrive(&mut self, page: u32) {
        if self.of(page).state == State::Away {
            let entry = self.of(page);
            entry.changed |= std::mem::take(&mut entry.stale);
            self.insert(page);
        }
    }

    /// An entry of a page has changed.
    pub fn change(&mut self, page: u32) {
        let Page { at, state, .. } = *self.of(page);
        if state == State::Away && at != NOWHERE {
            self.of(page).stale = true;
            return;
        }
        self.of(page).changed = true;
        // A page that is being written has left with its old content.
        if matches!(state, State::Away | State::Writing) {
            self.insert(page);
        }
    }

    /// Puts a page in memory, as the most recently used.
    fn insert(&mut self, page: u32) {
        let newest = self.newest;
        let entry = self.of(page);
        (entry.state, entry.older, entry.newer) = (State::Cached, newest, NONE);
        match newest {
            NONE => self.oldest = page,
            newest => self.of(newest).newer = page,
        }
        self.newest = page;
        self.cached += 1;
        // One leaves for each that comes, so that a page that cannot be written is not tried on and on.
        if self.cached > self.room {
            let oldest = self.oldest;
            self.unlink(oldest);
            let leaves = self.of(oldest).changed;
            self.of(oldest).state = if leaves { State::Leaving } else { State::Away };
            if leaves {
                self.leaving.push_back(oldest);
            }
        }
    }

    fn unlink(&mut self, page: u32) {
        let Page { older, newer, .. } = *self.of(page);
        match older {
            NONE => self.oldest = newer,
            older => self.of(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.of(newer).older = older,
        }
        self.cached -= 1;
    }

    /// Returns whether a page is to be written now.
    pub fn leaves(&mut self) -> bool {
        while let Some(&page) = self.leaving.front() {
            let Page { state, flies, .. } = *self.of(page);
            if state == State::Leaving {
                return !flies;
            }
            // It was asked for again.
            self.leaving.pop_front();
        }
        false
    }

    /// The next page that is to be written goes to a place.
    pub fn begin_write(&mut self, at: u64) {
        let Some(page) = self.leaving.pop_front() else { return };
        let entry = self.of(page);
        (entry.state, entry.changed, entry.flies) = (State::Writing, false, true);
        self.writing.insert(at, page);
    }

    /// The write of a page to a place has ended. Returns its place before, if it was there, and
    /// whether it is there now.
    pub fn end_write(&mut self, at: u64, done: bool) -> Option<(u32, Option<u64>)> {
        let page = self.writing.remove(&at)?;
        self.of(page).flies = false;
        if !done {
            self.of(page).changed = true;
            if self.of(page).state == State::Writing {
                self.insert(page);
            }
            return None;
        }
        let entry = self.of(page);
        if entry.state == State::Writing {
            entry.state = State::Away;
        }
        let before = std::mem::replace(&mut entry.at, at);
        Some((page, (before != NOWHERE).then_some(before)))
    }

    /// Pages that lie in the log, with their places.
    pub fn in_log(&self) -> Vec<(u32, u64)> {
        let there = (0..).zip(&self.pages).filter(|(_, page)| page.at != NOWHERE);
        there.map(|(number, page)| (number, page.at)).collect()
    }

    /// Pages in memory, the one last that was asked for last, with whether the log has another content.
    pub fn in_memory(&self) -> Vec<(u32, bool)> {
        // Those that are about to be written, or are to be, are in memory still.
        let owed = |page: &Page| match page.state {
            State::Away => page.stale,
            State::Cached => false,
            State::Leaving | State::Writing => true,
        };
        let owed = (0..).zip(&self.pages).filter(|(_, page)| owed(page));
        let mut cached: Vec<(u32, bool)> = owed.map(|(number, _)| (number, true)).collect();
        let mut next = self.oldest;
        while next != NONE {
            let Page { changed, newer, .. } = self.pages[next as usize];
            cached.push((next, changed));
            next = newer;
        }
        cached
    }

    /// Takes over the kept pages of an index that nobody has used yet.
    ///
    /// # Errors
    /// The reason why there can be no such index.
    pub fn restore(
        &mut self,
        there: &[(u32, u64)],
        cached: &[(u32, bool)],
    ) -> Result<(), &'static str> {
        const WRONG: &str = "a page of the index is there twice, or is none";
        for &(page, at) in there {
            match self.pages.get_mut(page as usize) {
                Some(entry) if entry.at == NOWHERE && at != NOWHERE => entry.at = at,
                _ => return Err(WRONG),
            }
        }
        let mut visited = vec![false; self.pages.len()];
        for &(page, changed) in cached {
            match visited.get_mut(page as usize) {
                Some(visited) if !*visited => *visited = true,
                _ => return Err(WRONG),
            }
            self.of(page).changed = changed;
            self.insert(page);
        }
        Ok(())
    }

    /// Collection has moved a page.
    pub fn relocate(&mut self, page: u32, to: u64) {
        self.of(page).at = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of the pages in memory, whose first leaves, and the contents that the log
        /// has: versions of entries.
        #[test]
        fn pages_are_read_and_written_as_a_list_has_it(
            steps in prop::collection::vec((0u8..4, 0u32..8), 0..300), room in 1u32..5,
        ) {
            let mut pages = IndexPages::new(8, room);
            let (mut list, mut log, mut next) = (Vec::<u32>::new(), BTreeMap::<u32, (u64, u32)>::new(), 0u64);
            let mut version = [0u32; 8];
            for (action, page) in steps {
                match action {
                    0 | 1 => {
                        let known = list.contains(&page);
                        let away = !known && log.contains_key(&page);
                        let read = pages.ask(page);
                        prop_assert_eq!(read, away.then(|| log[&page].0), "page {}", page);
                        if away {
                            pages.arrive(page);
                        }
                        list.retain(|other| *other != page);
                        list.push(page);
                        if action == 1 {
                            version[page as usize] += 1;
                            pages.change(page);
                        }
                    }
                    2 => {
                        // Changed, wherever it is.
                        version[page as usize] += 1;
                        pages.change(page);
                        if !list.contains(&page) && !log.contains_key(&page) {
                            list.push(page);
                        }
                    }
                    _ => {}
                }
                if list.len() > room as usize {
                    list.remove(0);
                }
                // A page that leaves is written at once.
                while pages.leaves() {
                    next += 1;
                    pages.begin_write(next);
                    let (page, before) = pages.end_write(next, true).unwrap();
                    prop_assert_eq!(before, log.get(&page).map(|old| old.0));
                    prop_assert!(!list.contains(&page));
                    log.insert(page, (next, version[page as usize]));
                }
                // A page that is away, and not behind, is in the log as it is.
                for page in 0..8u32 {
                    let entry = pages.pages[page as usize];
                    let stored = log.get(&page).map_or(0, |old| old.1);
                    if entry.state == State::Away && !entry.stale {
                        prop_assert_eq!(stored, version[page as usize], "page {}", page);
                    }
                    prop_assert_eq!(entry.state == State::Cached, list.contains(&page));
                }
            }
        }
    }

    #[test]
    fn a_page_that_changes_while_it_is_written_is_written_again() {
        let mut pages = IndexPages::new(4, 1);
        pages.ask(0);
        pages.change(0);
        pages.ask(1);
        assert!(pages.leaves());
        pages.begin_write(100);
        assert!(!pages.leaves());
        pages.change(0);
        assert_eq!(pages.end_write(100, true), Some((0, None)));
        // It is in memory with its change, and leaves as the next one comes.
        assert_eq!(pages.ask(0), None);
        pages.ask(2);
        assert!(pages.leaves());
        pages.begin_write(200);
        // A write that has failed leaves the place before, and the page in memory.
        assert_eq!(pages.end_write(200, false), None);
        assert_eq!(pages.ask(0), None);
        pages.ask(3);
        pages.begin_write(300);
        assert_eq!(pages.end_write(300, true), Some((0, Some(100))));
        assert_eq!(pages.ask(0), Some(300));
    }
}
