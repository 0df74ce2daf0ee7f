//! The requests that the drive holds, and which chains they belong to.

use slab::Slab;
use stasis_block::memory::{PendingRequest, Requests, Segment};
use stasis_block::Operation;

/// A request of the guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainId {
    /// Its queue.
    pub queue: u16,
    /// Its first descriptor.
    pub head: u16,
    /// Address of its status byte.
    pub status: u64,
    /// Bytes to write before the status.
    pub writable: usize,
}

/// To whom a request's completion matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Nobody any more: its queue was stopped, or the device reset.
    Orphan,
    /// To a chain of one request.
    Chain(ChainId),
    /// To a chain of several requests, by the index of its group.
    Part(usize),
}

/// State of a request.
#[derive(Debug)]
pub struct Slot {
    pub owner: Owner,
    pub operation: Operation,
    /// Length in bytes of the data that moves; 0 where none does.
    pub bytes: usize,
    /// Destination of a read's data in guest memory.
    pub segments: Vec<Segment>,
}

impl PendingRequest for Slot {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A chain of several requests: it completes with the last of them.
#[derive(Debug)]
struct Group {
    /// `None` if nobody waits for it any more.
    chain: Option<ChainId>,
    pending: u32,
    failed: bool,
}

/// All requests, and the chains of several of them.
#[derive(Debug, Default)]
pub struct Slots {
    pub requests: Requests<Slot>,
    groups: Slab<Group>,
}

impl Slots {
    /// Makes a chain that `pending` requests belong to, at least one.
    pub fn insert_group(&mut self, chain: ChainId, pending: u32) -> usize {
        let group = Group { chain: Some(chain), pending, failed: false };
        self.groups.insert(group)
    }

    /// Marks one request of a group as done. With the last, returns the chain that it completes,
    /// and whether any of the group failed.
    pub fn part_done(&mut self, index: usize, failed: bool) -> Option<(ChainId, bool)> {
        let group = self.groups.get_mut(index)?;
        group.failed |= failed;
        group.pending -= 1;
        if group.pending > 0 {
            return None;
        }
        let (chain, failed) = (group.chain.take(), group.failed);
        self.groups.remove(index);
        Some((chain?, failed))
    }

    /// Makes orphans of the requests of queue `queue`, or of all queues.
    pub fn abandon(&mut self, queue: Option<u16>) {
        let goes = |chain: &ChainId| queue.is_none_or(|queue| chain.queue == queue);
        for slot in self.requests.iter_mut() {
            if matches!(&slot.owner, Owner::Chain(chain) if goes(chain)) {
                slot.owner = Owner::Orphan;
            }
        }
        for (_, group) in &mut self.groups {
            group.chain = group.chain.filter(|chain| !goes(chain));
        }
    }
}
