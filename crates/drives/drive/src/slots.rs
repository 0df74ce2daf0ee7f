//! The commands in flight. A command's slot is its name at the model and at the medium, independent
//! of the caller's tags.

use stasis_block::clock::Nanos;
use stasis_block::medium::MediumError;
use stasis_block::{Command, Tag};

/// A command in flight.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) tag: Tag,
    pub(crate) queue: u16,
    pub(crate) command: Command,
    pub(crate) submit: Nanos,
    /// Its number among the submissions.
    pub(crate) order: u64,
    /// Outcome at the medium, with the command's buffer; `None` until then.
    pub(crate) outcome: Option<(Result<(), MediumError>, Vec<u8>)>,
}

/// Slots, reused once they are free.
#[derive(Debug)]
pub(crate) struct Slots<T = Slot> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, slot: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(slot)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
