//! Work that a store asks its drive for. Most of it is collection: the emptiest segment's pairs are
//! copied to the end of the log, and it is free again.

use crate::layout::RESERVE;

use super::collection::{Stage, Victim};
use super::log::Writer;
use super::{Content, Store};

/// Maximum number of copies under way.
const MAX_COPIES: usize = 8;
/// Bytes of a copy, where values are no longer.
const COPY: u64 = 128 << 10;

/// Work that a store asks its drive for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Bytes are to be copied within the drive, at the end of the log that collection writes; then
    /// [`Store::copied`].
    Copy {
        /// The first byte.
        from: u64,
        /// Its new place.
        to: u64,
        /// Number of units.
        length: u64,
    },
    /// Bytes are to be written that are of no use to the store, a page of the index or what stays
    /// empty; then [`Store::written`].
    Write {
        /// The end of the log that they lie at.
        writer: Writer,
        /// The first byte.
        offset: u64,
        /// Number of units.
        length: u64,
    },
    /// All that was written is to be durable; then [`Store::flushed`]. Nothing is to be done where
    /// writes are durable as they end.
    Flush,
    /// Bytes are needed no more; then [`Store::discarded`].
    Discard {
        /// The first byte.
        offset: u64,
        /// Number of units.
        length: u64,
    },
}

impl Store {
    /// The next work for the drive, if there is some now. To be asked after each call that changes
    /// the store, until there is none.
    pub fn next_task(&mut self) -> Option<Task> {
        loop {
            if let Some(write) = self.next_page().or_else(|| self.next_fill()) {
                return Some(write);
            }
            let Some(Victim { segment, next, failed, flushed, stage }) = self.collection.victim
            else {
                if self.log.free() > RESERVE {
                    return None;
                }
                let segment = self.log.emptiest()?;
                self.log.begin_collection(segment);
                self.collection.victim = Some(Victim {
                    segment,
                    next: self.layout.start(segment),
                    failed: false,
                    flushed: false,
                    stage: Stage::Copies,
                });
                continue;
            };
            let (start, end) = (self.layout.start(segment), self.layout.start(segment + 1));
            match stage {
                Stage::Flush | Stage::Discard => return None,
                Stage::BeforeFlush => {
                    self.collection.enter(Stage::Flush);
                    return Some(Task::Flush);
                }
                // A copy has failed, or the flush.
                Stage::Reads if self.log.live(segment) > 0 => {
                    self.log.keep(segment);
                    self.collection.victim = None;
                    continue;
                }
                Stage::Reads if self.log.is_read(segment) => return None,
                // Without a flush nothing is discarded: what is there is written over.
                Stage::Reads if !flushed => {
                    self.log.give_back(segment);
                    self.collection.victim = None;
                    continue;
                }
                Stage::Reads => {
                    self.collection.enter(Stage::Discard);
                    return Some(Task::Discard { offset: start, length: self.layout.segment });
                }
                Stage::Copies => {}
            }
            if let Some((from, length)) = self.run(next..end).filter(|_| !failed) {
                if self.collection.copies.len() >= MAX_COPIES {
                    return None;
                }
                let Some((to, length)) = self.room_for(from, length) else {
                    // Copies that failed have used up the reserve.
                    self.collection.fail();
                    continue;
                };
                self.collection.copies.insert(to, (from, length));
                if let Some(victim) = &mut self.collection.victim {
                    victim.next = from + length;
                }
                self.statistics.collected += length;
                return Some(Task::Copy { from, to, length });
            }
            if !self.collection.copies.is_empty() {
                return None;
            }
            // Pairs that hosts have stored anew are durable before the old ones are discarded.
            self.log.fill_pages();
            self.collection.enter(Stage::BeforeFlush);
        }
    }

    /// The next bytes that are written empty.
    fn next_fill(&mut self) -> Option<Task> {
        let (writer, offset, length) = self.log.next_fill()?;
        self.statistics.filled += length;
        Some(Task::Write { writer, offset, length })
    }

    /// The next page of the index that is to be written, if there is room for it.
    fn next_page(&mut self) -> Option<Task> {
        let length = self.layout.index?.page;
        let pages = self.pages.as_mut()?;
        if !pages.leaves() {
            return None;
        }
        let offset = self.log.take(Writer::Host, length)?;
        pages.begin_write(offset);
        self.statistics.index_written += length;
        Some(Task::Write { writer: Writer::Host, offset, length })
    }

    /// The write of a page of the index to `offset`, or of what stays empty, has ended.
    pub fn written(&mut self, offset: u64, done: bool) {
        self.log.end_write(offset);
        let (Some(index), Some(pages)) = (self.layout.index, self.pages.as_mut()) else { return };
        if let Some((page, before)) = pages.end_write(offset, done) {
            if let Some(before) = before {
                self.values.remove(&before);
                self.log.remove(before, index.page);
            }
            self.values.insert(offset, Content::Page(page));
            self.log.add(offset, index.page);
        }
    }

    /// The first run of values that pairs have, and that one copy takes: its first byte and length.
    fn run(&self, range: std::ops::Range<u64>) -> Option<(u64, u64)> {
        let most = COPY.max(self.layout.largest());
        let mut values = self.values(range);
        let (from, first) = values.next()?;
        let mut length = first;
        for (offset, bytes) in values {
            if offset != from + length || length + bytes > most {
                break;
            }
            length += bytes;
        }
        Some((from, length))
    }

    /// A place for as much of a run as there is room for: whole values.
    fn room_for(&mut self, from: u64, length: u64) -> Option<(u64, u64)> {
        let (_, first) = self.values(from..from + length).next()?;
        let room = self.log.room(Writer::Collection, first)?;
        let mut fits = 0;
        for (_, bytes) in self.values(from..from + length) {
            if fits + bytes > room {
                break;
            }
            fits += bytes;
        }
        Some((self.log.take(Writer::Collection, fits)?, fits))
    }

    /// The copy to `to` has ended. `done`: whether the bytes are there.
    pub fn copied(&mut self, to: u64, done: bool) {
        let Some((from, length)) = self.collection.copies.remove(&to) else { return };
        if !done {
            self.log.end_write(to);
            return self.collection.fail();
        }
        self.collection.copied.push((from, to, length));
    }

    /// The flush of [`Task::Flush`] has ended. `done`: whether all that was written is durable. Then
    /// pairs lie in their new places; those that were stored anew or deleted meanwhile are where they
    /// are, or gone.
    pub fn flushed(&mut self, done: bool) {
        if self.collection.victim.is_none_or(|victim| victim.stage != Stage::Flush) {
            return;
        }
        for (from, to, length) in std::mem::take(&mut self.collection.copied) {
            self.log.end_write(to);
            if !done {
                continue;
            }
            let moved: Vec<(u64, u64)> = self.values(from..from + length).collect();
            for (offset, bytes) in moved {
                self.relocate(offset, to + (offset - from), bytes);
            }
        }
        if let Some(victim) = &mut self.collection.victim {
            (victim.flushed, victim.stage) = (done, Stage::Reads);
        }
    }

    /// The discard of the segment that begins with byte `offset` has ended. One that has failed
    /// changes nothing: what is there is written over.
    pub fn discarded(&mut self, offset: u64) {
        let segment = self.layout.segment_of(offset);
        if self
            .collection
            .victim
            .as_ref()
            .is_some_and(|victim| victim.stage == Stage::Discard && victim.segment == segment)
        {
            self.collection.victim = None;
            self.statistics.segments_collected += 1;
            self.log.give_back(segment);
        }
    }

    /// Returns whether room can come without a host's doing: something is under way, or can be
    /// collected.
    pub fn can_make_room(&self) -> bool {
        self.collection.victim.is_some() || self.writes > 0 || self.log.emptiest().is_some()
    }
}
