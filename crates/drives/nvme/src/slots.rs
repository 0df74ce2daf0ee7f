//! The requests that the drive holds, and which commands they belong to.

use std::collections::{BTreeMap, VecDeque};

use slab::Slab;
use stasis_block::memory::{PendingRequest, Requests, Segment};
use stasis_block::{Command, Operation, Request, Tag};

use crate::command::CommandId;
use crate::computing::Work;
use crate::controller_id::ControllerId;
use crate::key_value::Pair;
use crate::listing::Listings;
use crate::protection::Passage;
use crate::status::StatusCode;

/// To whom a request's completion matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Nobody any more: its command was aborted, or the controller reset.
    Orphan,
    /// To a command of one request.
    Command(CommandId),
    /// To a command of several requests.
    Part {
        /// The index of its group.
        group: usize,
        /// Which of the command's ranges it is.
        part: u32,
    },
    /// To a command whose completion tells the slot's LBA: of a Zone Append the place of the data,
    /// of a Retrieve the length of the value.
    Telling(CommandId),
    /// To a vector command of several requests.
    Elements {
        /// The index of its group.
        group: usize,
        /// The elements of the vector that the request covers, a bit for each.
        mask: u64,
    },
    /// To the shutdown of a controller, that waits for the drive's cache.
    Shutdown(ControllerId),
    /// To the Format NVM command under way, of a controller.
    Format(ControllerId),
    /// To a Get LBA Status that scans.
    Scan(CommandId),
    /// To the collection of a namespace's pairs.
    Collection,
    /// To the device self-test under way.
    SelfTest,
    /// To the sanitize operation under way.
    Sanitize,
}

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// An access; the data read goes to the guest.
    Deliver,
    /// A comparison of the data read with the guest's data.
    Compare,
    /// A copy: the data read goes to the controller's memory, from byte `at` of the memory namespace
    /// on.
    ToMemory { at: u64 },
    /// A page of the index of pairs; and why the command that asks for nothing else is refused then,
    /// if it is.
    Page { page: u32, refusal: Option<StatusCode> },
    /// A piece of a format, or of a self-test: zones and chunks stay as they are meanwhile.
    Format,
}

/// The relation of a request to the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Covers {
    /// Nothing.
    #[default]
    Nothing,
    /// Its data may be in the cache when it is complete.
    Cached,
    /// So many writes are durable when it is complete.
    Writes(u64),
}

/// State of a request in flight.
#[derive(Debug)]
pub struct Slot {
    pub owner: Owner,
    pub operation: Operation,
    pub purpose: Purpose,
    pub nsid: u32,
    /// First logical block.
    pub lba: u64,
    /// First byte in the namespace, and how many.
    pub offset: u64,
    pub length: u64,
    /// Length in bytes of what the drive gets or gives; 0 where that is nothing.
    pub bytes: usize,
    /// Places in guest memory of a read's data.
    pub segments: Vec<Segment>,
    /// Places of its metadata, if that is apart.
    pub metadata_segments: Vec<Segment>,
    /// The way of blocks with metadata.
    pub passage: Option<Passage>,
    /// The relation to the volatile write cache.
    pub covers: Covers,
}

impl Slot {
    /// A request that moves no data.
    pub fn new(owner: Owner, command: &Command, nsid: u32, lba: u64) -> Self {
        Self {
            owner,
            operation: command.operation,
            purpose: Purpose::Deliver,
            nsid,
            lba,
            offset: command.offset,
            length: command.length,
            bytes: 0,
            segments: Vec::new(),
            metadata_segments: Vec::new(),
            passage: None,
            covers: Covers::Nothing,
        }
    }

    /// Returns whether a command waits for it.
    pub fn is_awaited(&self) -> bool {
        !matches!(self.owner, Owner::Orphan | Owner::SelfTest | Owner::Sanitize)
    }
}

impl PendingRequest for Slot {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A command of several requests: it completes with the last of them.
#[derive(Debug)]
pub struct Group {
    /// `None` if the command no longer waits for the request.
    pub command: Option<CommandId>,
    pub pending: usize,
    /// The failure of the lowest part that failed, and the block that failed.
    pub failure: Option<(u32, (StatusCode, u64))>,
    /// True if the completion names that part.
    pub tells_part: bool,
    /// Failed elements of a vector, a bit for each, for the completion.
    pub failed: u64,
}

/// End of a command of several requests.
#[derive(Debug, Clone, Copy)]
pub struct GroupEnd {
    pub command: CommandId,
    /// With the block that it concerns.
    pub failure: Option<(StatusCode, u64)>,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
}

/// A Store that waits for room in its namespace's log.
#[derive(Debug)]
pub struct WaitingStore {
    pub command: CommandId,
    pub nsid: u32,
    pub pair: Pair,
    /// The value, up to whole units.
    pub data: Vec<u8>,
}

/// All requests, the commands of several of them, and those that wait for room.
#[derive(Debug, Default)]
pub struct Slots {
    pub requests: Requests<Slot>,
    groups: Slab<Group>,
    // In the order in which they came.
    stores: VecDeque<WaitingStore>,
    // Requests that follow others, by the tags of those.
    held: BTreeMap<Tag, Request>,
    /// Commands of computational programs, which end by themselves.
    pub work: Work,
    /// Commands that wait for a list.
    pub lists: Listings,
}

/// Stores that wait, and requests that wait for a page of the index.
impl Slots {
    /// A request follows another one, which the drive has.
    pub fn hold(&mut self, tag: Tag, request: Request) {
        self.held.insert(tag, request);
    }

    /// Returns the request that follows one that has ended, if there is one.
    pub fn follower(&mut self, tag: Tag) -> Option<Request> {
        self.held.remove(&tag)
    }

    /// One waits behind the others.
    pub fn wait(&mut self, store: WaitingStore) {
        self.stores.push_back(store);
    }

    /// Length of the value in bytes of the first one that waits for a namespace.
    pub fn waiting_length(&self, nsid: u32) -> Option<u32> {
        self.stores.iter().find(|store| store.nsid == nsid).map(|store| store.pair.length())
    }

    /// The first one that waits for a namespace waits no longer.
    pub fn next_waiting(&mut self, nsid: u32) -> Option<WaitingStore> {
        let index = self.stores.iter().position(|store| store.nsid == nsid)?;
        self.stores.remove(index)
    }

    /// Returns whether one waits.
    pub fn has_waiting(&self) -> bool {
        !self.stores.is_empty()
    }

    /// Bytes of data of all requests, and of what waits.
    pub fn bytes(&self) -> usize {
        let stores = self.stores.iter().map(|store| store.data.len()).sum::<usize>();
        self.requests.bytes() + stores + self.work.bytes()
    }
}

impl Slots {
    /// Makes a command that `pending` requests belong to, at least one. With
    /// `tells_part` a failure's completion names the failed part.
    pub fn insert_group(&mut self, command: CommandId, pending: usize, tells_part: bool) -> usize {
        let group = Group { command: Some(command), pending, failure: None, tells_part, failed: 0 };
        self.groups.insert(group)
    }

    /// Ends one request of a group. With the last one, returns the command that completes, and its
    /// status.
    pub fn part_done(
        &mut self,
        index: usize,
        part: u32,
        failure: Option<(StatusCode, u64)>,
    ) -> Option<GroupEnd> {
        let group = self.groups.get_mut(index)?;
        let lower = group.failure.is_none_or(|(first, _)| part < first);
        if let Some(failure) = failure.filter(|_| lower) {
            group.failure = Some((part, failure));
        }
        group.pending -= 1;
        if group.pending > 0 {
            return None;
        }
        let command = group.command.take();
        let (part, failure) = group.failure.unzip();
        let result = match part {
            Some(part) if group.tells_part => part.into(),
            _ => group.failed,
        };
        self.groups.remove(index);
        Some(GroupEnd { command: command?, failure, result })
    }

    /// As [`Slots::part_done`] for a request that covers `mask` of a vector's
    /// elements.
    pub fn elements_done(
        &mut self,
        index: usize,
        mask: u64,
        failure: Option<(StatusCode, u64)>,
    ) -> Option<GroupEnd> {
        if failure.is_some() {
            self.groups.get_mut(index)?.failed |= mask;
        }
        self.part_done(index, mask.trailing_zeros(), failure)
    }

    /// The namespace of a command that waits for requests.
    pub fn namespace_of(&self, command: CommandId) -> Option<u32> {
        let of_group = |group: usize| self.groups.get(group).and_then(|group| group.command);
        let belongs = |slot: &&Slot| match slot.owner {
            Owner::Command(id) | Owner::Telling(id) | Owner::Scan(id) => id == command,
            Owner::Part { group, .. } | Owner::Elements { group, .. } => {
                of_group(group) == Some(command)
            }
            Owner::Orphan
            | Owner::Shutdown(_)
            | Owner::Format(_)
            | Owner::Collection
            | Owner::SelfTest
            | Owner::Sanitize => false,
        };
        let found = self.requests.iter().find(belongs).map(|slot| slot.nsid);
        let waits = || self.stores.iter().find(|store| store.command == command);
        let apart = || self.work.commands().chain(self.lists.commands());
        let works = || apart().find(|(id, _)| *id == command);
        let found = found.or_else(|| waits().map(|store| store.nsid));
        found.or_else(|| works().map(|(_, nsid)| nsid))
    }

    /// Returns the commands of a controller that wait for requests of a namespace.
    pub fn commands_of(&self, controller: ControllerId, nsid: u32) -> Vec<CommandId> {
        let command = |slot: &Slot| match slot.owner {
            Owner::Command(id) | Owner::Telling(id) | Owner::Scan(id) => Some(id),
            Owner::Part { group, .. } | Owner::Elements { group, .. } => {
                self.groups.get(group)?.command
            }
            Owner::Orphan
            | Owner::Shutdown(_)
            | Owner::Format(_)
            | Owner::Collection
            | Owner::SelfTest
            | Owner::Sanitize => None,
        };
        let requests = self.requests.iter().filter(|slot| slot.nsid == nsid).filter_map(command);
        let waiting = self.stores.iter().filter(|store| store.nsid == nsid);
        let works = self.work.commands().chain(self.lists.commands());
        let works = works.filter(|(_, other)| *other == nsid).map(|(id, _)| id);
        let requests = requests.chain(waiting.map(|store| store.command)).chain(works);
        requests.filter(|id| id.controller == controller).collect()
    }

    /// Makes orphans of the requests of the commands that `which` selects, and
    /// calls `each` for every such command once. Those that wait do so no longer.
    pub fn abandon(&mut self, which: impl Fn(CommandId) -> bool, mut each: impl FnMut(CommandId)) {
        self.work.abandon(&which, &mut each);
        self.lists.abandon(&which, &mut each);
        self.stores.retain(|store| {
            let goes = which(store.command);
            if goes {
                each(store.command);
            }
            !goes
        });
        for slot in self.requests.iter_mut() {
            if let Owner::Command(command) | Owner::Telling(command) | Owner::Scan(command) =
                slot.owner
            {
                if which(command) {
                    slot.owner = Owner::Orphan;
                    each(command);
                }
            }
        }
        for (_, group) in &mut self.groups {
            if let Some(command) = group.command.filter(|&command| which(command)) {
                group.command = None;
                each(command);
            }
        }
    }

    /// Makes orphans of everything of a controller.
    pub fn abandon_all(&mut self, controller: ControllerId) {
        self.abandon(|id| id.controller == controller, |_| ());
        for slot in self.requests.iter_mut() {
            if let Owner::Shutdown(owner) | Owner::Format(owner) = slot.owner {
                if owner == controller {
                    slot.owner = Owner::Orphan;
                }
            }
        }
    }

    /// Returns whether the shutdown of a controller waits for a request.
    pub fn shutdown_waits(&self, controller: ControllerId) -> bool {
        self.any(|slot| slot.owner == Owner::Shutdown(controller))
    }

    /// The controller to which the request `tag` matters, if it does to one.
    pub fn controller_of(&self, tag: Tag) -> Option<ControllerId> {
        match self.requests.get(tag)?.owner {
            Owner::Orphan | Owner::Collection | Owner::SelfTest | Owner::Sanitize => None,
            Owner::Command(id) | Owner::Telling(id) | Owner::Scan(id) => Some(id.controller),
            Owner::Part { group, .. } | Owner::Elements { group, .. } => {
                self.groups.get(group)?.command.map(|id| id.controller)
            }
            Owner::Shutdown(controller) | Owner::Format(controller) => Some(controller),
        }
    }

    /// Returns whether a request that the drive has not got yet is to reach it, though a controller
    /// was reset: it is another one's, or of an operation of the subsystem.
    pub fn outlives_reset(&self, tag: Tag) -> bool {
        let of_subsystem = |slot: &Slot| {
            matches!(slot.owner, Owner::Collection | Owner::SelfTest | Owner::Sanitize)
        };
        self.controller_of(tag).is_some() || self.requests.get(tag).is_some_and(of_subsystem)
    }

    /// Returns whether there is a request of which `is` holds.
    pub fn any(&self, is: impl Fn(&Slot) -> bool) -> bool {
        self.requests.iter().any(is)
    }
}
