//! The store: an index of keys, and the commands on it.

mod collection;
mod index_pages;
mod kept;
mod key;
mod log;
mod tasks;

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use crate::layout::Layout;

use self::collection::Collection;
use self::index_pages::IndexPages;
use self::log::Log;

pub use self::index_pages::PageRead;
pub use self::key::{Key, MAX_KEY};
pub use self::log::Writer;
pub use self::tasks::Task;

/// Place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its first byte; of an empty value 0.
    pub offset: u64,
    /// Its length in bytes, not rounded.
    pub length: u32,
}

impl Place {
    /// The place of a value that is written to, or read from, the drive.
    pub(crate) fn is_written(&self) -> bool {
        self.length > 0
    }
}

/// A value that is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// Its length in bytes.
    pub length: u32,
    /// The bytes that are to be read, in units: then [`Store::end_read`] with the first. `None`:
    /// there is nothing to read.
    pub read: Option<(u64, u64)>,
}

/// Condition under which a pair is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// If its key is there.
    IfThere,
    /// If its key is not there.
    IfNotThere,
}

/// Why a pair is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The key is there.
    KeyExists,
    /// The key is not there.
    KeyDoesNotExist,
    /// Its value is longer than [`Layout::max_value`].
    ValueTooLong,
    /// There are [`Layout::max_keys`] keys, or no room for the value.
    CapacityExceeded,
}

/// Counts of a store since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes that were written for hosts, in units.
    pub stored: u64,
    /// Bytes that collection has copied.
    pub collected: u64,
    /// Segments that it has made free.
    pub segments_collected: u64,
    /// Commands that found the page of their key in memory.
    pub index_hits: u64,
    /// Bytes of pages of the index that were read for commands.
    pub index_read: u64,
    /// Bytes of pages of the index that were written.
    pub index_written: u64,
    /// Bytes that were written empty: the rest of a segment, or of a page before a flush.
    pub filled: u64,
}

/// The content of bytes of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    /// The value of a key.
    Value(Key),
    /// A page of the index.
    Page(u32),
}

impl Statistics {
    /// Bytes written to the log for each byte that hosts stored; 1 where nothing was.
    pub fn write_amplification(&self) -> f64 {
        match self.stored {
            0 => 1.0,
            stored => {
                let written = stored + self.collected + self.index_written + self.filled;
                written as f64 / stored as f64
            }
        }
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            stored: self.stored - before.stored,
            collected: self.collected - before.collected,
            segments_collected: self.segments_collected - before.segments_collected,
            index_hits: self.index_hits - before.index_hits,
            index_read: self.index_read - before.index_read,
            index_written: self.index_written - before.index_written,
            filled: self.filled - before.filled,
        }
    }
}

/// A key-value store.
#[derive(Debug)]
pub struct Store {
    pub(crate) layout: Layout,
    pub(crate) index: BTreeMap<Key, Place>,
    // The log's contents, by first bytes; empty values are nowhere.
    pub(crate) values: BTreeMap<u64, Content>,
    // Pages of the index, where memory does not hold all of it.
    pub(crate) pages: Option<IndexPages>,
    // Bytes that pairs have, in units.
    pub(crate) live: u64,
    // Values of hosts that are being written.
    pub(crate) writes: u32,
    pub(crate) log: Log,
    pub(crate) collection: Collection,
    pub(crate) statistics: Statistics,
}

impl Store {
    /// An empty one.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            index: BTreeMap::new(),
            values: BTreeMap::new(),
            pages: layout.index.map(|index| IndexPages::new(index.pages, index.cached)),
            live: 0,
            writes: 0,
            log: Log::new(layout),
            collection: Collection::default(),
            statistics: Statistics::default(),
        }
    }

    /// Returns the layout on its bytes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Keys that are there.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes that the values of all pairs have, in units.
    pub fn used(&self) -> u64 {
        self.live
    }

    /// Counts since it was made.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns whether a key is there.
    pub fn contains(&self, key: &Key) -> bool {
        self.index.contains_key(key)
    }

    /// The keys from `first` on, or all, in order.
    pub fn keys_from(&self, first: Option<&Key>) -> impl Iterator<Item = &Key> {
        let first = first.map_or(Bound::Unbounded, |key| Bound::Included(*key));
        self.index.range((first, Bound::Unbounded)).map(|(key, _)| key)
    }

    /// Takes a store apart that is not used any more, by at most `count` pairs, as to drop it whole
    /// takes long; returns whether there are more.
    pub fn take_apart(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if self.index.pop_first().is_none() & self.values.pop_first().is_none() {
                return false;
            }
        }
        true
    }

    /// Length of a key's value in bytes, if it is there.
    pub fn length(&self, key: &Key) -> Option<u32> {
        self.index.get(key).map(|place| place.length)
    }

    /// A command on a key needs its page of the index: `Some` if that is to be read first, and then
    /// [`Store::page_read`].
    pub fn look_up(&mut self, key: &Key) -> Option<PageRead> {
        let (index, pages) = (self.layout.index?, self.pages.as_mut()?);
        let page = pages.page_of(key);
        let Some(offset) = pages.ask(page) else {
            self.statistics.index_hits += 1;
            return None;
        };
        self.statistics.index_read += index.page;
        self.log.begin_read(offset);
        Some(PageRead { page, offset, length: index.page })
    }

    /// A page of the index has been read, or could not be: the store's own index has what it says.
    pub fn page_read(&mut self, page: u32, offset: u64) {
        self.log.end_read(offset);
        if let Some(pages) = &mut self.pages {
            pages.arrive(page);
        }
    }

    /// The entry of a key has changed.
    fn change(&mut self, key: &Key) {
        if let Some(pages) = &mut self.pages {
            let page = pages.page_of(key);
            pages.change(page);
        }
    }

    /// The value of a key, of which at most `most` bytes are wanted. `None`: the key is not there.
    pub fn retrieve(&mut self, key: &Key, most: u32) -> Option<Value> {
        let Place { offset, length } = *self.index.get(key)?;
        let bytes = self.layout.rounded(length.min(most));
        let read = (bytes > 0).then_some((offset, bytes));
        if read.is_some() {
            self.log.begin_read(offset);
        }
        Some(Value { length, read })
    }

    /// The read of a value from `offset` on has ended.
    pub fn end_read(&mut self, offset: u64) {
        self.log.end_read(offset);
    }

    /// Checks that a value of `length` bytes can be stored now.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(&self, key: &Key, length: u32, condition: Condition) -> Result<(), Refusal> {
        if length > self.layout.max_value {
            return Err(Refusal::ValueTooLong);
        }
        let before = self.index.get(key);
        match (condition, before) {
            (Condition::IfThere, None) => return Err(Refusal::KeyDoesNotExist),
            (Condition::IfNotThere, Some(_)) => return Err(Refusal::KeyExists),
            _ => {}
        }
        if before.is_none() && self.index.len() >= self.layout.max_keys as usize {
            return Err(Refusal::CapacityExceeded);
        }
        let others = self.live - before.map_or(0, |place| self.layout.rounded(place.length));
        match others + self.layout.rounded(length) > self.layout.capacity {
            true => Err(Refusal::CapacityExceeded),
            false => Ok(()),
        }
    }

    /// A place for a value of `length` bytes, which is to be written there, rounded to units; then
    /// [`Store::store`] or [`Store::abandon`]. `None`: there is no room until collection has made
    /// some.
    pub fn place(&mut self, length: u32) -> Option<Place> {
        let bytes = self.layout.rounded(length);
        let offset = match bytes {
            0 => 0,
            _ => self.log.take(Writer::Host, bytes)?,
        };
        self.writes += u32::from(bytes > 0);
        Some(Place { offset, length })
    }

    /// Gives `key` the value that was written to `place`.
    ///
    /// # Errors
    /// The value cannot be stored any more; the store is as if the value had never been written.
    pub fn store(&mut self, key: Key, place: Place, condition: Condition) -> Result<(), Refusal> {
        if place.is_written() {
            self.statistics.stored += self.layout.rounded(place.length);
        }
        self.abandon(place);
        self.check(&key, place.length, condition)?;
        self.remove(&key);
        self.change(&key);
        self.index.insert(key, place);
        if place.is_written() {
            let bytes = self.layout.rounded(place.length);
            self.values.insert(place.offset, Content::Value(key));
            self.live += bytes;
            self.log.add(place.offset, bytes);
        }
        Ok(())
    }

    /// A value could not be written, or is not wanted any more.
    pub fn abandon(&mut self, place: Place) {
        if place.is_written() {
            self.writes = self.writes.saturating_sub(1);
            self.log.end_write(place.offset);
        }
    }

    /// Deletes a key. Returns whether the key was there.
    pub fn delete(&mut self, key: &Key) -> bool {
        let was_there = self.remove(key);
        if was_there {
            self.change(key);
        }
        was_there
    }

    fn remove(&mut self, key: &Key) -> bool {
        let Some(place) = self.index.remove(key) else { return false };
        if place.is_written() {
            let bytes = self.layout.rounded(place.length);
            self.values.remove(&place.offset);
            self.live -= bytes;
            self.log.remove(place.offset, bytes);
        }
        true
    }

    /// Contents in use within bytes, values and pages of the index: the first byte of each, and how
    /// many in units.
    pub(crate) fn values(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let length = |content: &Content| match content {
            Content::Value(key) => {
                self.index.get(key).map_or(0, |place| self.layout.rounded(place.length))
            }
            Content::Page(_) => self.layout.index.map_or(0, |index| index.page),
        };
        self.values.range(range).map(move |(&offset, content)| (offset, length(content)))
    }

    /// A value, or a page of the index, lies in another place now.
    pub(crate) fn relocate(&mut self, from: u64, to: u64, bytes: u64) {
        let Some(content) = self.values.remove(&from) else { return };
        match content {
            Content::Value(key) => {
                // Its page of the index is not changed for that: where collection has moved values is
                // kept in memory until a store or a deletion changes the page.
                if let Some(place) = self.index.get_mut(&key) {
                    place.offset = to;
                }
            }
            Content::Page(page) => {
                if let Some(pages) = &mut self.pages {
                    pages.relocate(page, to);
                }
            }
        }
        self.values.insert(to, content);
        self.log.remove(from, bytes);
        self.log.add(to, bytes);
    }
}
