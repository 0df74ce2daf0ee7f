//! The requests that the drive holds, and which commands they belong to.

use stasis_block::{Operation, Tag};

use crate::prp::Segment;
use crate::status::StatusCode;

/// Most requests that the drive holds at a time: 64 queues of 1024 entries.
const MOST: usize = 64 << 10;

/// A command of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandId {
    /// Its submission queue.
    pub sq: u16,
    /// Its command identifier.
    pub cid: u16,
}

/// To whom a request's completion matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Nobody: the slot is free.
    Free,
    /// Nobody any more: its command was aborted, or the controller reset.
    Orphan,
    /// To a command of one request.
    Command(CommandId),
    /// To a command of several requests, by the index of its group.
    Part(usize),
    /// To the shutdown that waits for the drive's cache.
    Shutdown,
}

/// What is known of a request.
#[derive(Debug)]
pub struct Slot {
    pub owner: Owner,
    pub operation: Operation,
    pub nsid: u32,
    /// First logical block.
    pub lba: u64,
    /// Length in bytes of the data that moves; 0 where none does.
    pub bytes: usize,
    /// Where in guest memory a read's data goes.
    pub segments: Vec<Segment>,
}

/// A command of several requests: it completes with the last of them.
#[derive(Debug)]
pub struct Group {
    /// `None` if nobody waits for it any more.
    pub command: Option<CommandId>,
    pub left: u32,
    /// The first failure among the requests.
    pub failure: Option<StatusCode>,
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
        let free = Slot {
            owner: Owner::Free,
            operation: slot.operation,
            nsid: 0,
            lba: 0,
            bytes: 0,
            segments: Vec::new(),
        };
        let slot = std::mem::replace(slot, free);
        self.bytes -= slot.bytes;
        self.free.push(tag);
        Some(slot)
    }

    /// Makes a command that `left` requests belong to, at least one.
    pub fn insert_group(&mut self, command: CommandId, left: u32) -> usize {
        let group = Group { command: Some(command), left, failure: None };
        match self.free_groups.pop() {
            Some(index) => {
                self.groups[index] = group;
                index
            }
            None => {
                self.groups.push(group);
                self.groups.len() - 1
            }
        }
    }

    /// One request of a group is done. With the last, says which command that
    /// completes and how.
    pub fn part_done(
        &mut self,
        index: usize,
        failure: Option<StatusCode>,
    ) -> Option<(CommandId, Option<StatusCode>)> {
        let group = self.groups.get_mut(index)?;
        group.failure = group.failure.or(failure);
        group.left -= 1;
        if group.left > 0 {
            return None;
        }
        let (command, failure) = (group.command.take(), group.failure);
        self.free_groups.push(index);
        Some((command?, failure))
    }

    /// Makes orphans of what belongs to the commands that `which` picks, and
    /// calls `each` for every such command once.
    pub fn abandon(&mut self, which: impl Fn(CommandId) -> bool, mut each: impl FnMut(CommandId)) {
        for slot in &mut self.slots {
            if let Owner::Command(command) = slot.owner {
                if which(command) {
                    slot.owner = Owner::Orphan;
                    each(command);
                }
            }
        }
        for group in &mut self.groups {
            if let Some(command) = group.command.filter(|&command| which(command)) {
                group.command = None;
                each(command);
            }
        }
    }

    /// Makes orphans of everything.
    pub fn abandon_all(&mut self) {
        self.abandon(|_| true, |_| ());
        for slot in &mut self.slots {
            if slot.owner == Owner::Shutdown {
                slot.owner = Owner::Orphan;
            }
        }
    }

    /// Whether a shutdown waits for a request.
    pub fn shutdown_waits(&self) -> bool {
        self.slots.iter().any(|slot| slot.owner == Owner::Shutdown)
    }
}
