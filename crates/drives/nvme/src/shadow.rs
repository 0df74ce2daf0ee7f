//! Shadow doorbells: doorbells in guest memory, which the driver need not ring
//! (NVMe 1.4 sections 5.7 and 7.13).
//!
//! Beside each shadow doorbell the controller keeps an event index. When the
//! driver moves a shadow doorbell from `old` to `new`, it rings the register
//! too if the event index lies in `old..new` on the ring. So an index *at* the
//! current value makes the next move ring, and an index just *behind* it makes
//! none ring until the value has gone once around, which it cannot before the
//! controller has looked at it again: a ring of N entries holds N - 1.

use std::mem::offset_of;

use stasis_block::Doorbells;
use stasis_nvme_layout::queue::DoorbellPair;
use stasis_nvme_layout::IntoBytes;

use crate::{Memory, OutOfMemoryRange};

/// The two buffers that the driver gave with Doorbell Buffer Config.
#[derive(Debug, Clone, Copy)]
pub struct Shadow {
    doorbells: u64,
    event_indices: u64,
}

impl Shadow {
    /// Both addresses are multiples of the page size.
    pub fn new(doorbells: u64, event_indices: u64) -> Self {
        Self { doorbells, event_indices }
    }

    /// The tail of submission queue `queue`.
    pub fn tail(&self, memory: &dyn Memory, queue: u16) -> Result<u32, OutOfMemoryRange> {
        read(memory, self.doorbells + tail_offset(queue))
    }

    /// The head of completion queue `queue`.
    pub fn head(&self, memory: &dyn Memory, queue: u16) -> Result<u32, OutOfMemoryRange> {
        read(memory, self.doorbells + head_offset(queue))
    }

    /// Sets a new submission queue's shadow doorbell to its tail, 0: it may
    /// hold the last value of a queue of the same number.
    pub fn clear_tail(&self, memory: &dyn Memory, queue: u16) -> Result<(), OutOfMemoryRange> {
        write(memory, self.doorbells + tail_offset(queue), 0)
    }

    /// Sets a new completion queue's shadow doorbell to its head, 0.
    pub fn clear_head(&self, memory: &dyn Memory, queue: u16) -> Result<(), OutOfMemoryRange> {
        write(memory, self.doorbells + head_offset(queue), 0)
    }

    /// Sets the tail from which on the driver must ring the doorbell; `tail` is the current one.
    pub fn set_tail_event(
        &self,
        memory: &dyn Memory,
        queue: u16,
        tail: u16,
        size: u16,
        policy: Doorbells,
    ) -> Result<(), OutOfMemoryRange> {
        let index = match policy {
            Doorbells::Exact => tail,
            Doorbells::Lazy => behind(tail, size),
        };
        write(memory, self.event_indices + tail_offset(queue), index)
    }

    /// Sets the head from which on the driver must ring the doorbell; `head` is the current one:
    /// the next, where the controller waits for room, or none.
    pub fn set_head_event(
        &self,
        memory: &dyn Memory,
        queue: u16,
        head: u16,
        size: u16,
        waits: bool,
    ) -> Result<(), OutOfMemoryRange> {
        let index = if waits { head } else { behind(head, size) };
        write(memory, self.event_indices + head_offset(queue), index)
    }

    /// Reads all shadow doorbells of `queues` queue pairs, from 0 on, at once, into `pairs`.
    pub fn read_all(
        &self,
        memory: &dyn Memory,
        queues: usize,
        pairs: &mut [DoorbellPair],
    ) -> Result<(), OutOfMemoryRange> {
        let count = pairs.len().min(queues);
        memory.read(self.doorbells, pairs[..count].as_mut_bytes())
    }
}

fn tail_offset(queue: u16) -> u64 {
    u64::from(queue) * size_of::<DoorbellPair>() as u64
}

fn head_offset(queue: u16) -> u64 {
    tail_offset(queue) + offset_of!(DoorbellPair, cq_head) as u64
}

/// The index before `index` in a ring of `size`.
fn behind(index: u16, size: u16) -> u16 {
    index.checked_sub(1).unwrap_or(size - 1)
}

fn read(memory: &dyn Memory, address: u64) -> Result<u32, OutOfMemoryRange> {
    let mut raw = [0; 4];
    memory.read(address, &mut raw)?;
    Ok(u32::from_le_bytes(raw))
}

fn write(memory: &dyn Memory, address: u64, value: u16) -> Result<(), OutOfMemoryRange> {
    memory.write(address, &u32::from(value).to_le_bytes())
}
