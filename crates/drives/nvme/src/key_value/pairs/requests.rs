//! From pairs to requests of the drive: values that are written, and the work of collection.

use stasis_block::{Command, Operation, Tag};
use stasis_key_value::{PageRead, Place, Writer};

use crate::command::{location, CommandId, SubmissionEntry};
use crate::io::Io;
use crate::narrow::size;
use crate::slots::{Owner, Purpose, Slot, WaitingStore};
use crate::status::{Failure, Outcome, StatusCode};

use super::namespace::{stream_of, KeyValueNamespace};
use super::pair::Pair;

impl Io {
    /// The pairs of a namespace, for a command on them.
    ///
    /// # Errors
    /// There is no such namespace, it is being formatted, or has no pairs.
    pub fn pairs(&mut self, nsid: u32) -> Result<&mut KeyValueNamespace, Failure> {
        self.namespaces.accessible(nsid)?;
        let pairs = self.namespaces.key_value_mut(nsid);
        pairs.ok_or(StatusCode::InvalidOpcode.at(location::OPCODE))
    }

    /// Writes a pair whose value the host has given, at once or when there is room.
    pub fn store_pair(&mut self, store: WaitingStore) {
        self.commands.slots.wait(store);
        self.go_on_key_value();
    }

    /// Hands the drive the requests for pairs: values that wait for room, and collection.
    pub fn go_on_key_value(&mut self) {
        if !self.namespaces.has_pairs() {
            return;
        }
        for nsid in 1..=self.namespaces.count() {
            while self.commands.slots.requests.has_room(1) && self.next_of_pairs(nsid) {}
        }
    }

    /// Takes one step for a namespace's pairs: hands a request to the drive, or refuses a value
    /// that has no room. Returns false if there is no step now.
    fn next_of_pairs(&mut self, nsid: u32) -> bool {
        let Some(pairs) = self.namespaces.key_value_mut(nsid) else { return false };
        if let Some(length) = self.commands.slots.waiting_length(nsid) {
            if let Some(place) = pairs.store.place(length) {
                if let Some(store) = self.commands.slots.next_waiting(nsid) {
                    pairs.enter(store.pair, place);
                    self.write_value(store, place);
                }
                return true;
            }
        }
        if let Some(command) = pairs.next_command() {
            let slot = Slot::new(Owner::Collection, &command, nsid, 0);
            if command.operation != Operation::Write {
                self.request(0, slot, command);
                return true;
            }
            // A page of the index, or what stays empty: what counts is in the controller's memory.
            let bytes = size(command.length);
            let mut data = self.commands.buffers.take(bytes);
            data.fill(0);
            self.send_request(0, Slot { bytes, ..slot }, command, data);
            return true;
        }
        if pairs.store.can_make_room() {
            return false;
        }
        // Copies have failed, and no room comes by itself.
        let Some(WaitingStore { command, data, .. }) = self.commands.slots.next_waiting(nsid)
        else {
            return false;
        };
        self.commands.buffers.give(data);
        self.commands.ended.push((command, StatusCode::CapacityExceeded));
        true
    }

    /// Reads a page of the index from the drive, for an owner, whose completion has Dword 0
    /// `dword0`, or is refused for a reason.
    pub fn read_page(
        &mut self,
        page: PageRead,
        nsid: u32,
        owner: Owner,
        (dword0, refusal): (u64, Option<StatusCode>),
    ) -> Tag {
        let PageRead { page, offset, length } = page;
        let read = Command::new(Operation::Read, offset, length);
        let bytes = size(length);
        let data = self.commands.buffers.take(bytes);
        let purpose = Purpose::Page { page, refusal };
        let slot = Slot { purpose, bytes, ..Slot::new(owner, &read, nsid, dword0) };
        self.send_request(0, slot, read, data)
    }

    /// Ends a command that needs nothing of the drive but a page of the index, if any, with its
    /// result once that has been read.
    pub fn end_after(
        &mut self,
        page: Option<PageRead>,
        command: &SubmissionEntry,
        result: Result<u32, Failure>,
    ) -> Result<Outcome, Failure> {
        let Some(page) = page else { return result.map(|dword0| Outcome::Done(dword0.into())) };
        let (dword0, refusal) = match result {
            Ok(dword0) => (dword0.into(), None),
            Err(_) => (0, Some(StatusCode::KeyDoesNotExist)),
        };
        let owner = Owner::Telling(command.id());
        self.read_page(page, command.nsid, owner, (dword0, refusal));
        Ok(Outcome::Pending)
    }

    /// A request that the drive gets once it has read a page of the index.
    pub fn send_behind(
        &mut self,
        page: PageRead,
        queue: u16,
        slot: Slot,
        command: Command,
        data: Vec<u8>,
    ) {
        let nsid = slot.nsid;
        let request = self.make_request(queue, slot, command, data);
        let tag = self.read_page(page, nsid, Owner::Collection, (0, None));
        self.commands.slots.hold(tag, request);
    }

    fn write_value(&mut self, store: WaitingStore, place: Place) {
        let WaitingStore { command, nsid, pair: Pair { .. }, data } = store;
        let CommandId { sq, .. } = command;
        let bytes = data.len();
        let write = Command::new(Operation::Write, place.offset, bytes as u64);
        let fua = !self.has_write_cache(command.controller);
        let write = Command { fua, stream: stream_of(Writer::Host), ..write };
        let slot = Slot { bytes, ..Slot::new(Owner::Command(command), &write, nsid, 0) };
        self.send_request(sq, slot, write, data);
    }
}
