//! The requests that the drive holds, and which chains they belong to.

use stasis_block::{Operation, Tag};
use stasis_memory::Segment;

/// Most requests that the drive holds at a time: 64 queues of 1024 entries.
const MOST: usize = 64 << 10;

/// A request of the guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainId {
    /// Its queue.
    pub queue: u16,
    /// Its first descriptor.
    pub head: u16,
    /// Where its status goes.
    pub status: u64,
    /// Bytes to write before the status.
    pub writable: usize,
}

/// To whom a request's completion matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Nobody: the slot is free.
    Free,
    /// Nobody any more: its queue was stopped, or the device reset.
    Orphan,
    /// To a chain of one request.
    Chain(ChainId),
    /// To a chain of several requests, by the index of its group.
    Part(usize),
}

/// What is known of a request.
#[derive(Debug)]
pub struct Slot {
    pub owner: Owner,
    pub operation: Operation,
    /// Length in bytes of the data that moves; 0 where none does.
    pub bytes: usize,
    /// Where in guest memory a read's data goes.
    pub segments: Vec<Segment>,
}

/// A chain of several requests: it completes with the last of them.
#[derive(Debug)]
struct Group {
    /// `None` if nobody waits for it any more.
    chain: Option<ChainId>,
    left: u32,
    failed: bool,
}

/// All requests, by their tags: small numbers, used again.
#[derive(Debug, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<Tag>,
    bytes: usize,
    groups: Vec<Group>,
    free_groups: Vec<usize>,
}

impl Slots {
    /// Requests in flight.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes of data of the requests in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether `more` requests can be put in.
    pub fn has_room(&self, more: usize) -> bool {
        self.len() + more <= MOST
    }

    /// Puts a request in, and names it.
    pub fn insert(&mut self, slot: Slot) -> Tag {
        self.bytes += slot.bytes;
        match self.free.pop() {
            Some(tag) => {
                self.slots[tag as usize] = slot;
                tag
            }
            None => {
                self.slots.push(slot);
                // So that freeing never allocates.
                self.free.reserve(self.slots.len());
                (self.slots.len() - 1) as Tag
            }
        }
    }

    /// Takes out the request named `tag`, if there is one.
    pub fn remove(&mut self, tag: Tag) -> Option<Slot> {
        let slot = self.slots.get_mut(tag as usize)?;
        if slot.owner == Owner::Free {
            return None;
        }
        let operation = slot.operation;
        let free = Slot { owner: Owner::Free, operation, bytes: 0, segments: Vec::new() };
        let slot = std::mem::replace(slot, free);
        self.bytes -= slot.bytes;
        self.free.push(tag);
        Some(slot)
    }

    /// Makes a chain that `left` requests belong to, at least one.
    pub fn insert_group(&mut self, chain: ChainId, left: u32) -> usize {
        let group = Group { chain: Some(chain), left, failed: false };
        match self.free_groups.pop() {
            Some(index) => {
                self.groups[index] = group;
                index
            }
            None => {
                self.groups.push(group);
                self.free_groups.reserve(self.groups.len());
                self.groups.len() - 1
            }
        }
    }

    /// One request of a group is done. With the last, says which chain that
    /// completes, and whether any of it failed.
    pub fn part_done(&mut self, index: usize, failed: bool) -> Option<(ChainId, bool)> {
        let group = self.groups.get_mut(index)?;
        group.failed |= failed;
        group.left -= 1;
        if group.left > 0 {
            return None;
        }
        let (chain, failed) = (group.chain.take(), group.failed);
        self.free_groups.push(index);
        Some((chain?, failed))
    }

    /// Makes orphans of what belongs to queue `queue`, or to any.
    pub fn abandon(&mut self, queue: Option<u16>) {
        let goes = |chain: &ChainId| queue.is_none_or(|queue| chain.queue == queue);
        for slot in &mut self.slots {
            if matches!(&slot.owner, Owner::Chain(chain) if goes(chain)) {
                slot.owner = Owner::Orphan;
            }
        }
        for group in &mut self.groups {
            group.chain = group.chain.filter(|chain| !goes(chain));
        }
    }
}
