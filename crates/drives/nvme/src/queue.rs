//! Submission and completion queues (NVMe 1.4 section 4.1).
//!
//! Invariants, whatever the host writes to doorbells: heads and tails are entries of their ring; a
//! ring in memory is never overrun, one entry of it stays free.

use std::collections::VecDeque;

use crate::capsule_fault::CapsuleFault;
use crate::command::{CompletionEntry, SubmissionEntry, CQE_SIZE, SQE_SIZE};
use crate::{Memory, OutOfMemoryRange};

/// Place of the entries of a queue, each of `SIZE` bytes.
#[derive(Debug)]
enum Place<const SIZE: usize> {
    /// In the host's memory, from this address on.
    Memory(u64),
    /// In capsules, which come and go with messages (NVMe over Fabrics 1.1 section 2).
    Capsules(VecDeque<[u8; SIZE]>),
}

/// A ring of commands that the host fills and the controller empties.
#[derive(Debug)]
pub struct SubmissionQueue {
    place: Place<SQE_SIZE>,
    /// Faults of the data blocks of commands in capsules, one for each of them.
    faults: VecDeque<Option<CapsuleFault>>,
    /// Entries; one always stays free.
    pub size: u16,
    /// Entry that the controller fetches next.
    pub head: u16,
    /// Entry that the host fills next, as far as known.
    pub tail: u16,
    /// The completion queue its commands complete to.
    pub cq: u16,
    /// The first of two fused commands, whose second one has not come yet.
    pub fused: Option<SubmissionEntry>,
    /// True if a fault has stopped it: no command of it is fetched or completed.
    pub is_stopped: bool,
}

impl SubmissionQueue {
    /// A queue in the host's memory.
    pub fn new(base: u64, size: u16, cq: u16) -> Self {
        Self::at(Place::Memory(base), size, cq)
    }

    /// A queue whose commands come in capsules.
    pub fn of_capsules(size: u16, cq: u16) -> Self {
        Self::at(Place::Capsules(VecDeque::new()), size, cq)
    }

    fn at(place: Place<SQE_SIZE>, size: u16, cq: u16) -> Self {
        let faults = VecDeque::new();
        Self { place, faults, size, head: 0, tail: 0, cq, fused: None, is_stopped: false }
    }

    /// Takes a command that came in a capsule, with the fault of its data block, if it has one. Returns
    /// whether there was room for it.
    pub fn push(&mut self, raw: [u8; SQE_SIZE], fault: Option<CapsuleFault>) -> bool {
        match &mut self.place {
            Place::Capsules(entries) if entries.len() < self.size.into() => {
                entries.push_back(raw);
                self.faults.push_back(fault);
                true
            }
            _ => false,
        }
    }

    pub fn is_empty(&self) -> bool {
        match &self.place {
            Place::Memory(_) => self.head == self.tail,
            Place::Capsules(entries) => entries.is_empty(),
        }
    }

    /// Moves the head past an entry that is not fetched.
    pub fn pass(&mut self) {
        self.head = next(self.head, self.size);
    }

    /// Copies the entry at the head and moves the head past it; with the fault of its data block.
    pub fn fetch(
        &mut self,
        memory: &dyn Memory,
    ) -> Result<([u8; SQE_SIZE], Option<CapsuleFault>), OutOfMemoryRange> {
        let mut raw = [0; SQE_SIZE];
        debug_assert!(self.head < self.size && self.tail < self.size);
        debug_assert!(!self.is_empty());
        match &mut self.place {
            Place::Memory(base) => {
                memory.read(entry_address(*base, self.head, SQE_SIZE)?, &mut raw)?;
            }
            // The caller has checked that a capsule waits.
            Place::Capsules(entries) => raw = entries.pop_front().unwrap_or(raw),
        }
        self.head = next(self.head, self.size);
        let fault = match self.faults.is_empty() {
            true => None,
            false => self.faults.pop_front().flatten(),
        };
        Ok((raw, fault))
    }
}

/// A ring of completions that the controller fills and the host empties.
#[derive(Debug)]
pub struct CompletionQueue {
    place: Place<CQE_SIZE>,
    /// Entries; one always stays free.
    pub size: u16,
    /// Entry that the host reads next, as far as known.
    pub head: u16,
    /// Entry that the controller fills next.
    pub tail: u16,
    phase: bool,
    /// Its interrupt vector, if interrupts are enabled.
    pub vector: Option<u16>,
    /// Submission queues that complete to it.
    pub users: u16,
    /// Completions for which it has no room yet. Bounded, for no command is
    /// fetched while any waits.
    pub held: VecDeque<CompletionEntry>,
}

impl CompletionQueue {
    /// A queue in the host's memory.
    pub fn new(base: u64, size: u16, vector: Option<u16>) -> Self {
        Self { vector, ..Self::at(Place::Memory(base), size) }
    }

    /// A queue whose entries go in capsules, without a phase.
    pub fn of_capsules(size: u16) -> Self {
        Self { phase: false, ..Self::at(Place::Capsules(VecDeque::new()), size) }
    }

    fn at(place: Place<CQE_SIZE>, size: u16) -> Self {
        let held = VecDeque::new();
        Self { place, size, head: 0, tail: 0, phase: true, vector: None, users: 0, held }
    }

    /// The next entry that goes in a capsule.
    pub fn pop(&mut self) -> Option<[u8; CQE_SIZE]> {
        match &mut self.place {
            Place::Memory(_) => None,
            Place::Capsules(entries) => entries.pop_front(),
        }
    }

    /// Returns whether there is no room. There is for capsules: no more than there were commands.
    pub fn is_full(&self) -> bool {
        matches!(self.place, Place::Memory(_)) && next(self.tail, self.size) == self.head
    }

    /// The phase of the completion that comes behind all that are held.
    pub fn next_phase(&self) -> bool {
        let laps = (usize::from(self.tail) + self.held.len()) / usize::from(self.size.max(1));
        self.phase ^ (laps % 2 == 1)
    }

    /// Writes `entry` at the tail. The caller has checked for room.
    pub fn put(
        &mut self,
        memory: &dyn Memory,
        entry: CompletionEntry,
    ) -> Result<(), OutOfMemoryRange> {
        debug_assert!(self.head < self.size && self.tail < self.size);
        debug_assert!(!self.is_full());
        let raw = entry.to_bytes(self.phase);
        let base = match &mut self.place {
            Place::Memory(base) => *base,
            Place::Capsules(entries) => {
                entries.push_back(raw);
                return Ok(());
            }
        };
        let at = entry_address(base, self.tail, CQE_SIZE)?;
        // The phase last: a host that runs at the same time sees the whole entry with it.
        let (body, status) = raw.split_at(CQE_SIZE - 2);
        memory.write(at, body)?;
        let last = at.checked_add(body.len() as u64);
        let last = last.ok_or(OutOfMemoryRange { address: at, length: CQE_SIZE })?;
        memory.store(last, u16::from_le_bytes([status[0], status[1]]))?;
        self.tail = next(self.tail, self.size);
        if self.tail == 0 {
            self.phase = !self.phase;
        }
        Ok(())
    }

    /// Takes over the host's head, if it is one it can have: between the old
    /// head and the tail.
    pub fn set_head(&mut self, head: u32) -> bool {
        let Ok(head) = u16::try_from(head) else { return false };
        let distance = |to: u16| {
            (u32::from(to) + u32::from(self.size) - u32::from(self.head)) % u32::from(self.size)
        };
        if head >= self.size || distance(head) > distance(self.tail) {
            return false;
        }
        self.head = head;
        true
    }
}

/// The index after `index` in a ring of `size`.
fn next(index: u16, size: u16) -> u16 {
    if index + 1 >= size {
        0
    } else {
        index + 1
    }
}

fn entry_address(base: u64, index: u16, entry_size: usize) -> Result<u64, OutOfMemoryRange> {
    base.checked_add(u64::from(index) * entry_size as u64)
        .ok_or(OutOfMemoryRange { address: base, length: entry_size })
}
