//! Store, Retrieve, Delete, Exist and List (KV 1.0 section 3.2).

use stasis_block::{Command, Operation};
use stasis_key_value::{Condition, Key, Refusal};

use crate::command::{location, SubmissionEntry};
use crate::config::Config;
use crate::io::{Io, IoCommand, IoExecute};
use crate::key_value::CSI;
use crate::listing::Listing;
use crate::narrow::{count16, size};
use crate::registered::{CHANGES_CONTENTS, SUPPORTED};
use crate::slots::{Owner, Slot, WaitingStore};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{slices, Memory};

use super::namespace::status_of;
use super::pair::Pair;

const fn command(opcode: u8, changes: u32, counts_as: Operation, execute: IoExecute) -> IoCommand {
    IoCommand {
        opcode,
        effects: SUPPORTED | changes,
        announced: |config: &Config, set| set == CSI && config.has_pairs(),
        identify: 0,
        counts_as: Some(counts_as),
        during_sanitize: false,
        execute,
    }
}

pub const STORE: IoCommand = command(0x01, CHANGES_CONTENTS, Operation::Write, store);
pub const RETRIEVE: IoCommand = command(0x02, 0, Operation::Read, retrieve);
pub const LIST: IoCommand = command(0x06, 0, Operation::Read, list);
pub const DELETE: IoCommand = command(0x10, CHANGES_CONTENTS, Operation::Discard, delete);
pub const EXIST: IoCommand = command(0x14, 0, Operation::Verify, exist);

/// Bits of the options in Dword 11 of Store (figure 26).
mod option {
    pub const MUST_EXIST: u32 = 1 << 8;
    pub const MUST_NOT_EXIST: u32 = 1 << 9;
}

/// The key of a command: its length in Dword 11, its first eight bytes in Dwords 2 and 3, the others
/// in Dwords 14 and 15.
fn key(command: &SubmissionEntry) -> Result<Key, Failure> {
    let mut bytes = [0; 16];
    let dwords = [command.cdw2, command.cdw3, command.cdw14, command.cdw15];
    for (part, dword) in bytes.chunks_exact_mut(4).zip(dwords) {
        part.copy_from_slice(&dword.to_le_bytes());
    }
    let length = (command.cdw11 & 0xff) as usize;
    let key = bytes.get(..length).and_then(Key::new);
    key.ok_or(StatusCode::InvalidKeySize.at(location::CDW11))
}

fn no_such_key() -> Failure {
    StatusCode::KeyDoesNotExist.at(location::CDW2)
}

fn refused(refusal: Refusal) -> Failure {
    let at = match refusal {
        Refusal::ValueTooLong | Refusal::CapacityExceeded => location::CDW10,
        Refusal::KeyExists | Refusal::KeyDoesNotExist => location::CDW2,
    };
    status_of(refusal).at(at)
}

/// Stores a pair (section 3.2.5). The option of compression has no effect: values are never
/// compressed.
fn store(io: &mut Io, memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    io.writable_namespace(command.nsid)?;
    let key = key(command)?;
    let options = (command.cdw11 & option::MUST_EXIST, command.cdw11 & option::MUST_NOT_EXIST);
    let condition = match options {
        (0, 0) => Condition::Always,
        (_, 0) => Condition::IfThere,
        (0, _) => Condition::IfNotThere,
        _ => return Err(StatusCode::InvalidField.at(location::CDW11 + 1)),
    };
    let length = command.cdw10;
    let pairs = io.pairs(command.nsid)?;
    pairs.store.check(&key, length, condition).map_err(refused)?;
    // The page of its key is read beside: the entry changes in memory.
    if let Some(page) = pairs.store.look_up(&key) {
        io.read_page(page, command.nsid, Owner::Collection, (0, None));
    }
    let pairs = io.pairs(command.nsid)?;
    if length == 0 {
        let place = pairs.store.place(0).ok_or(StatusCode::InternalError)?;
        pairs.store.store(key, place, condition).map_err(refused)?;
        return Ok(Outcome::Done(0));
    }
    let bytes = size(pairs.store.layout().rounded(length));
    io.lend(|io, lease| {
        lease.segments = io.commands.buffers.segments_of(memory, command, length as usize)?;
        lease.data = io.commands.buffers.take(bytes);
        let value = &mut lease.data[..length as usize];
        stasis_block::memory::gather(memory, &lease.segments, value)?;
        // Directives are of the NVM command set: the dwords that they stand in are reserved here.
        let plain = SubmissionEntry { cdw12: 0, cdw13: 0, ..*command };
        io.place(&plain, bytes as u64)?;
        let (pair, nsid) = (Pair { key, condition, length }, command.nsid);
        let data = lease.take_data();
        io.store_pair(WaitingStore { command: command.id(), nsid, pair, data });
        Ok(Outcome::Pending)
    })
}

/// Retrieves a value, or as much of it as the host has room for; the completion has its length
/// (section 3.2.4).
fn retrieve(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let key = key(command)?;
    let room = command.cdw10;
    if room > io.config.max_transfer {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    let store = &mut io.pairs(command.nsid)?.store;
    let (page, length) = (store.look_up(&key), store.length(&key));
    let Some(length) = length else { return io.end_after(page, command, Err(no_such_key())) };
    let wanted = length.min(room);
    if wanted == 0 {
        return io.end_after(page, command, Ok(length));
    }
    io.lend(|io, lease| {
        lease.segments = io.commands.buffers.segments_of(memory, command, wanted as usize)?;
        let value = io.pairs(command.nsid)?.store.retrieve(&key, wanted);
        let read = value.and_then(|value| value.read);
        let (offset, bytes) = read.ok_or(StatusCode::InternalError)?;
        let read = Command::new(Operation::Read, offset, bytes);
        let bytes = size(bytes);
        let data = io.commands.buffers.take(bytes);
        // The completion tells the length.
        let owner = Owner::Telling(command.id());
        let slot = Slot::new(owner, &read, command.nsid, length.into());
        let (segments, _) = lease.take_places();
        let slot = Slot { bytes, segments, ..slot };
        match page {
            None => {
                io.send_request(command.sq, slot, read, data);
            }
            Some(page) => io.send_behind(page, command.sq, slot, read, data),
        }
        Ok(Outcome::Pending)
    })
}

/// Deletes a pair (section 3.2.1): the index forgets it, and the drive is asked for no more than a page
/// of that.
fn delete(
    io: &mut Io,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    io.writable_namespace(command.nsid)?;
    let key = key(command)?;
    let store = &mut io.pairs(command.nsid)?.store;
    let (page, was_there) = (store.look_up(&key), store.delete(&key));
    let refused = !was_there && io.features(command.controller).reports_missing_keys(command.nsid);
    let ended = io.end_after(page, command, if refused { Err(no_such_key()) } else { Ok(0) });
    io.go_on_key_value();
    ended
}

/// Returns whether a key is there (section 3.2.2).
fn exist(io: &mut Io, _memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let key = key(command)?;
    let store = &mut io.pairs(command.nsid)?.store;
    let (page, is_there) = (store.look_up(&key), store.contains(&key));
    io.end_after(page, command, if is_there { Ok(0) } else { Err(no_such_key()) })
}

/// Lists as many keys as the host has room for, in the order of their bytes (section 3.2.3): from
/// the command's key on, or from the first one on without one.
fn list(io: &mut Io, memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let room = command.cdw10;
    if command.cdw11 & 0xff != 0 {
        key(command)?;
    }
    if room > io.config.max_transfer || (room as usize) < HEAD {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    io.pairs(command.nsid)?;
    let list = Listing { command: *command, last: Vec::new(), count: 0, data: vec![0; HEAD] };
    let ended = io.go_on_list(memory, list)?;
    Ok(if ended { Outcome::Done(0) } else { Outcome::Pending })
}

/// Number of returned keys, before them.
const HEAD: usize = 4;

impl Io {
    /// Goes on with a List; returns whether that is its end, and the host has it.
    pub fn go_on_list(&mut self, memory: &dyn Memory, mut list: Listing) -> Result<bool, Failure> {
        let command = list.command;
        let most = if self.slices.divides() { slices::ELEMENTS } else { usize::MAX };
        let room = command.cdw10;
        let store = &self.pairs(command.nsid)?.store;
        let first = match (Key::new(&list.last), command.cdw11 & 0xff) {
            (Some(last), _) => Some(last),
            (None, 0) => None,
            (None, _) => Some(key(&command)?),
        };
        let mut keys = store.keys_from(first.as_ref()).peekable();
        // The last one is in the list, if it is there yet.
        let _ = keys.next_if(|key| key.as_bytes() == list.last);
        let mut full = false;
        for key in keys.by_ref().take(most) {
            let bytes = key.as_bytes();
            // Its length in two bytes, itself, and up to whole dwords zeroes.
            let end = (list.data.len() + 2 + bytes.len()).next_multiple_of(4);
            full = end > room as usize;
            if full {
                break;
            }
            list.data.extend(count16(bytes.len()).to_le_bytes());
            list.data.extend(bytes);
            list.data.resize(end, 0);
            list.count += 1;
            list.last.clear();
            list.last.extend(bytes);
        }
        let goes_on = !full && keys.peek().is_some();
        drop(keys);
        if goes_on {
            self.commands.slots.lists.put(list);
            return Ok(false);
        }
        list.data[..HEAD].copy_from_slice(&list.count.to_le_bytes());
        self.send_of(memory, &command, &list.data, room)?;
        Ok(true)
    }
}
