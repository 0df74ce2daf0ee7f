//! Submission and completion queues (NVMe 1.4 section 4.1).

use std::collections::VecDeque;

use crate::command::{CompletionEntry, CQE_SIZE, SQE_SIZE};
use crate::{Memory, OutOfMemoryRange};

/// A ring of commands that the host fills and the controller empties.
#[derive(Debug)]
pub struct SubmissionQueue {
    base: u64,
    /// Entries; one always stays free.
    pub size: u16,
    /// Where the controller fetches next.
    pub head: u16,
    /// Where the host puts the next one, as far as known.
    pub tail: u16,
    /// The completion queue its commands complete to.
    pub cq: u16,
}

impl SubmissionQueue {
    pub fn new(base: u64, size: u16, cq: u16) -> Self {
        Self { base, size, head: 0, tail: 0, cq }
    }

    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Copies the entry at the head and moves the head past it.
    pub fn fetch(&mut self, memory: &dyn Memory) -> Result<[u8; SQE_SIZE], OutOfMemoryRange> {
        let mut raw = [0; SQE_SIZE];
        memory.read(entry_address(self.base, self.head, SQE_SIZE)?, &mut raw)?;
        self.head = next(self.head, self.size);
        Ok(raw)
    }
}

/// A ring of completions that the controller fills and the host empties.
#[derive(Debug)]
pub struct CompletionQueue {
    base: u64,
    /// Entries; one always stays free.
    pub size: u16,
    /// Where the host reads next, as far as known.
    pub head: u16,
    /// Where the controller puts the next one.
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
    pub fn new(base: u64, size: u16, vector: Option<u16>) -> Self {
        let held = VecDeque::new();
        Self { base, size, head: 0, tail: 0, phase: true, vector, users: 0, held }
    }

    pub fn is_full(&self) -> bool {
        next(self.tail, self.size) == self.head
    }

    /// The phase of the completion that comes behind all that are held.
    pub fn next_phase(&self) -> bool {
        let laps = (usize::from(self.tail) + self.held.len()) / usize::from(self.size.max(1));
        self.phase ^ (laps % 2 == 1)
    }

    /// Writes `entry` at the tail. The caller has checked that there is room.
    pub fn put(
        &mut self,
        memory: &dyn Memory,
        entry: CompletionEntry,
    ) -> Result<(), OutOfMemoryRange> {
        let address = entry_address(self.base, self.tail, CQE_SIZE)?;
        memory.write(address, &entry.to_bytes(self.phase))?;
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
