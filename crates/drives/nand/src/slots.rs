//! Operations in flight, and the lists that they stand in.

use stasis_block::clock::Nanos;

use super::holders::Held;
use super::{Breakdown, Op, OpDone, OpStatus};
use crate::prefetch;

/// No operation.
pub(super) const NONE: u32 = u32::MAX;

/// The need of an operation for its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// To send its command.
    Command,
    /// To send its command and its data.
    DataIn,
    /// To send its data from the cache register.
    DataOut,
    /// To send its data from the data register, which keeps the plane busy.
    DataOutHolding,
}

/// An operation in flight. It stands in one list at a time: a unit's, a
/// channel's, a group's, or that of the finished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub op: Op,
    /// Its place in the order of submission.
    pub number: u64,
    pub submitted: Nanos,
    /// Start of its current step or wait, and at last its end (ns).
    pub since: Nanos,
    /// Times, up to `since`, for which others have had the part that the operation waits for.
    pub mark: Held,
    pub times: Breakdown,
    pub status: OpStatus,
    pub retries: u8,
    pub phase: Phase,
    /// The operation is the fine pass of a word line.
    pub fine: bool,
    /// There is nothing to transfer: the cells did not answer.
    pub silent: bool,
    /// The next of its multi-plane operation.
    pub mate: u32,
    pub(super) next: u32,
    prev: u32,
}

/// First and last of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub head: u32,
    tail: u32,
}

impl List {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub fn is_empty(self) -> bool {
        self.head == NONE
    }
}

/// The operations in flight.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    // The free ones, linked by `next`.
    free: u32,
    in_flight: usize,
}

impl Slots {
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, in_flight: 0 }
    }

    pub fn len(&self) -> usize {
        self.in_flight
    }

    /// The operations in flight, in the order of submission.
    pub fn by_number(&self) -> Vec<u32> {
        let mut used = vec![true; self.slots.len()];
        let mut free = self.free;
        while free != NONE {
            used[free as usize] = false;
            free = self.slots[free as usize].next;
        }
        let mut used: Vec<u32> =
            (0..self.slots.len() as u32).filter(|&index| used[index as usize]).collect();
        used.sort_by_key(|&index| self[index].number);
        used
    }

    #[inline]
    pub fn insert(&mut self, now: Nanos, number: u64, mark: Held, op: Op) -> u32 {
        let slot = Slot {
            op,
            number,
            submitted: now,
            since: now,
            mark,
            times: Breakdown::default(),
            status: OpStatus::Ok,
            retries: 0,
            phase: Phase::Command,
            fine: false,
            silent: false,
            mate: NONE,
            next: NONE,
            prev: NONE,
        };
        self.in_flight += 1;
        let index = self.free;
        if index == NONE {
            self.slots.push(slot);
            return self.slots.len() as u32 - 1;
        }
        self.free = self.slots[index as usize].next;
        self.slots[index as usize] = slot;
        index
    }

    /// Takes out an operation that is in no list, as its caller sees it.
    #[inline]
    pub fn remove(&mut self, index: u32) -> OpDone {
        let slot = &mut self.slots[index as usize];
        slot.next = self.free;
        self.free = index;
        self.in_flight -= 1;
        debug_assert_eq!(slot.times.total(), slot.since - slot.submitted, "{slot:?}");
        OpDone {
            number: slot.number,
            token: slot.op.token,
            op: slot.op,
            at: slot.since,
            status: slot.status,
            times: slot.times,
            retries: slot.retries,
        }
    }

    /// An operation will soon be needed; nothing if it is NONE.
    pub fn prefetch(&self, index: u32) {
        prefetch(&self.slots, index as usize);
    }

    /// Puts an operation last.
    #[inline]
    pub fn push(&mut self, list: &mut List, index: u32) {
        let tail = list.tail;
        self[index].next = NONE;
        self[index].prev = tail;
        if tail == NONE {
            list.head = index;
        } else {
            self[tail].next = index;
        }
        list.tail = index;
    }

    /// Puts an operation behind those that wait for longer, and among those that
    /// wait as long in the order of submission.
    #[inline]
    pub fn push_ready(&mut self, list: &mut List, index: u32) {
        let key = |slot: &Slot| (slot.since, slot.number);
        let mut before = list.tail;
        while before != NONE && key(&self[before]) > key(&self[index]) {
            before = self[before].prev;
        }
        if before == list.tail {
            return self.push(list, index);
        }
        let after = if before == NONE { list.head } else { self[before].next };
        self[index].prev = before;
        self[index].next = after;
        self[after].prev = index;
        if before == NONE {
            list.head = index;
        } else {
            self[before].next = index;
        }
    }

    /// Takes the first out.
    #[inline]
    pub fn pop(&mut self, list: &mut List) -> u32 {
        let head = list.head;
        if head == NONE {
            return NONE;
        }
        list.head = self[head].next;
        if list.head == NONE {
            list.tail = NONE;
        } else {
            let new = list.head;
            self[new].prev = NONE;
        }
        head
    }

    /// The present wait of an operation ends at `now`; `held` is for how long others have had what it
    /// waited for.
    pub fn waited(&mut self, index: u32, now: Nanos, held: Held) {
        let slot = &mut self[index];
        let (gc, writes) = (held.gc - slot.mark.gc, held.writes - slot.mark.writes);
        debug_assert!(gc + writes <= now - slot.since);
        slot.times.gc += gc;
        slot.times.behind_writes += writes;
        slot.times.behind_reads += now - slot.since - gc - writes;
        slot.since = now;
    }

    /// The present step of an operation ends at `now`; returns the breakdown, and the step's time
    /// (ns).
    pub fn spent(&mut self, index: u32, now: Nanos) -> (&mut Breakdown, Nanos) {
        let slot = &mut self[index];
        let took = now - slot.since;
        slot.since = now;
        (&mut slot.times, took)
    }
}

impl std::ops::Index<u32> for Slots {
    type Output = Slot;

    fn index(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Slots {
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }
}
