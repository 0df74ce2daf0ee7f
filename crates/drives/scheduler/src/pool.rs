//! The requests that a scheduler holds, waiting or in flight, by slot and tag.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Tag};

use crate::{sectors, QueuedRequest, Refused};

/// A scheduler's record of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) tag: Tag,
    pub(crate) queue: u32,
    // First byte on the drive; for a request without one, the place where its sweep put it.
    pub(crate) place: u64,
    pub(crate) end: u64,
    pub(crate) sectors: u64,
    // A flush or a barrier: it has no place.
    pub(crate) nowhere: bool,
    pub(crate) sync: bool,
    // Its owner prefers it, and waits for it.
    pub(crate) urgent: bool,
    // Its place in the order of arrival, and by when it is to go.
    pub(crate) sequence: u64,
    pub(crate) deadline: Nanos,
    pub(crate) in_flight: bool,
    // Number of those of the same sweep and synchrony, in the order of arrival.
    before: u32,
    after: u32,
}

/// Requests in the order of arrival, through their slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fifo {
    first: u32,
    last: u32,
}

const NIL: u32 = u32::MAX;

impl Default for Fifo {
    fn default() -> Self {
        Self { first: NIL, last: NIL }
    }
}

/// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): tags are
/// numbers of the program's own making, and the order of the map is never seen.
#[derive(Default)]
pub(crate) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }
}

pub(crate) type TagMap<T> = HashMap<Tag, T, BuildHasherDefault<TagHasher>>;

#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Held>,
    free: Vec<u32>,
    by_tag: TagMap<u32>,
    sequence: u64,
    waiting: usize,
}

impl Pool {
    /// Takes a request in; returns its slot.
    pub(crate) fn add(
        &mut self,
        queue: u32,
        request: &QueuedRequest,
        deadline: Nanos,
    ) -> Result<u32, Refused> {
        let QueuedRequest { tag, command, sync, urgent, .. } = *request;
        let Command { operation, offset, length, .. } = command;
        let slot = self.free.last().copied().unwrap_or(self.slots.len() as u32);
        match self.by_tag.entry(tag) {
            std::collections::hash_map::Entry::Occupied(_) => return Err(Refused::Tag(tag)),
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(slot),
        };
        self.sequence += 1;
        self.waiting += 1;
        let held = Held {
            tag,
            queue,
            place: offset,
            end: offset.saturating_add(length),
            sectors: sectors(&command),
            nowhere: matches!(operation, Operation::Flush | Operation::Barrier),
            sync,
            urgent: urgent && sync,
            sequence: self.sequence,
            deadline,
            in_flight: false,
            before: NIL,
            after: NIL,
        };
        if self.free.pop().is_some() {
            self.slots[slot as usize] = held;
        } else {
            self.slots.push(held);
        }
        Ok(slot)
    }

    pub(crate) fn get(&self, slot: u32) -> &Held {
        &self.slots[slot as usize]
    }

    /// The first of those that stand in this fifo.
    pub(crate) fn first(&self, fifo: &Fifo) -> Option<u32> {
        (fifo.first != NIL).then_some(fifo.first)
    }

    pub(crate) fn push_back(&mut self, fifo: &mut Fifo, slot: u32) {
        self.slots[slot as usize].before = fifo.last;
        match self.slots.get_mut(fifo.last as usize) {
            Some(last) => last.after = slot,
            None => fifo.first = slot,
        }
        fifo.last = slot;
    }

    /// Takes a request out of a line, wherever it stands there.
    pub(crate) fn remove_from(&mut self, fifo: &mut Fifo, slot: u32) {
        let Held { before, after, .. } = self.slots[slot as usize];
        match self.slots.get_mut(before as usize) {
            Some(held) => held.after = after,
            None => fifo.first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(held) => held.before = before,
            None => fifo.last = before,
        }
    }

    /// Puts a request somewhere else than where it came for.
    pub(crate) fn move_to(&mut self, slot: u32, place: u64) {
        self.slots[slot as usize].place = place;
    }

    /// The last place in the order of arrival that was given out.
    pub(crate) fn newest(&self) -> u64 {
        self.sequence
    }

    /// The request leaves for the drive.
    pub(crate) fn send(&mut self, slot: u32) -> Held {
        self.waiting -= 1;
        let held = &mut self.slots[slot as usize];
        held.in_flight = true;
        *held
    }

    /// The drive is done with it. `None` for a tag that is not in flight.
    pub(crate) fn complete(&mut self, tag: Tag) -> Option<Held> {
        let slot = *self.by_tag.get(&tag)?;
        let held = self.slots[slot as usize];
        if !held.in_flight {
            return None;
        }
        self.by_tag.remove(&tag);
        self.free.push(slot);
        Some(held)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}
