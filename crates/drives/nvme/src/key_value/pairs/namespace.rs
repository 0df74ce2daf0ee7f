//! The pairs of a namespace, and the effects of requests on them.

use std::collections::BTreeMap;

use stasis_block::{Command, Operation, Status, LOG_STREAM};
use stasis_key_value::{KeptPairs, Place, Refusal, Store, Task, Writer};

use super::pair::Pair;
use crate::config::Namespace;
use crate::slots::{Owner, Purpose, Slot};
use crate::status::StatusCode;

/// The pairs of a key-value namespace.
#[derive(Debug)]
pub struct KeyValueNamespace {
    pub store: Store,
    // Pairs whose values are being written, by the values' first bytes.
    writes: BTreeMap<u64, (Pair, Place)>,
    // Stores that were cleared, and take up memory yet.
    gone: Vec<Store>,
}

/// The stream of what is written at an end of the log.
pub fn stream_of(writer: Writer) -> u16 {
    LOG_STREAM + writer as u16
}

/// The status of a pair that is not stored (KV 1.0 section 3.2.5).
pub fn status_of(refusal: Refusal) -> StatusCode {
    match refusal {
        Refusal::KeyExists => StatusCode::KeyExists,
        Refusal::KeyDoesNotExist => StatusCode::KeyDoesNotExist,
        Refusal::ValueTooLong => StatusCode::InvalidValueSize,
        Refusal::CapacityExceeded => StatusCode::CapacityExceeded,
    }
}

impl KeyValueNamespace {
    /// No pairs. The configuration has been checked with `transfer`, the maximum of a command's data
    /// in bytes.
    pub fn new(namespace: &Namespace, transfer: u32) -> Option<Self> {
        let key_value = namespace.key_value.as_ref()?;
        let layout = key_value.layout(namespace.bytes(), namespace.block_size, transfer).ok()?;
        Some(Self { store: Store::new(layout), writes: BTreeMap::new(), gone: Vec::new() })
    }

    /// Returns the state of the pairs, if the namespace was ever used.
    pub fn kept(&self) -> Option<KeptPairs> {
        let unused = Store::new(*self.store.layout()).kept();
        Some(self.store.kept()).filter(|kept| *kept != unused)
    }

    /// Restores a state into an empty namespace.
    ///
    /// # Errors
    /// The reason why it cannot be in that state.
    pub fn restore(&mut self, kept: &KeptPairs) -> Result<(), &'static str> {
        self.store.restore(kept)
    }

    /// All pairs are gone, with the bytes of their values.
    pub fn clear(&mut self) {
        let new = Store::new(*self.store.layout());
        self.gone.push(std::mem::replace(&mut self.store, new));
        self.writes.clear();
    }

    /// Gives back the memory of at most `count` pairs that were cleared; returns whether there are more.
    pub fn forget(&mut self, count: usize) -> bool {
        if let Some(gone) = self.gone.last_mut() {
            if !gone.take_apart(count) {
                self.gone.pop();
            }
        }
        !self.gone.is_empty()
    }

    /// The value of a pair goes to its place.
    pub fn enter(&mut self, pair: Pair, place: Place) {
        self.writes.insert(place.offset, (pair, place));
    }

    /// The next command of collection for the drive, if there is one now.
    pub fn next_command(&mut self) -> Option<Command> {
        Some(match self.store.next_task()? {
            Task::Copy { from, to, length } => {
                let copy = Command::new(Operation::Copy, to, length);
                Command { source: from, stream: stream_of(Writer::Collection), ..copy }
            }
            Task::Write { writer, offset, length } => {
                let write = Command::new(Operation::Write, offset, length);
                Command { stream: stream_of(writer), ..write }
            }
            Task::Flush => Command::flush(),
            Task::Discard { offset, length } => Command::new(Operation::Discard, offset, length),
        })
    }

    /// The drive has done a request, or failed; or it never gets it. Returns why a pair is not
    /// stored whose value is written.
    pub fn leave(&mut self, slot: &Slot, status: Status) -> Option<StatusCode> {
        let done = status == Status::Ok;
        match slot.operation {
            Operation::Write if self.writes.contains_key(&slot.offset) => {
                let (pair, place) = self.writes.remove(&slot.offset)?;
                if !done {
                    self.store.abandon(place);
                    return None;
                }
                let stored = self.store.store(pair.key, place, pair.condition);
                return stored.err().map(status_of);
            }
            Operation::Write => self.store.written(slot.offset, done),
            Operation::Read => match slot.purpose {
                Purpose::Page { page, refusal } => {
                    self.store.page_read(page, slot.offset);
                    return refusal;
                }
                _ => self.store.end_read(slot.offset),
            },
            Operation::Copy => self.store.copied(slot.offset, done),
            Operation::Discard => self.store.discarded(slot.offset),
            Operation::Flush if slot.owner == Owner::Collection => self.store.flushed(done),
            _ => {}
        }
        None
    }
}
