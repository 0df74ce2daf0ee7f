//! Requests in the order of C-LOOK: upwards from where the last one was, then
//! again from the lowest (Seltzer, Chen and Ousterhout, "Disk Scheduling
//! Revisited", USENIX Winter 1990; Worthington, Ganger and Patt, SIGMETRICS 1994).
//!
//! Of the requests at one position, a sweep takes those that were there when it
//! came by: a stream of requests at one place holds nothing else up. A flush has
//! no place: it stands where the sweep is when it arrives, so it goes after
//! everything that waited before it.

use stasis_clock::Nanos;

use crate::forest::{Forest, Root};
use crate::pool::{Held, Pool};

// (position, sequence, slot), by (deadline, sequence, slot).
type Key = (u64, u64, u32);
pub(crate) type Requests = Forest<Key, Key>;

#[derive(Debug)]
pub(crate) struct Sweep {
    root: Root,
    len: usize,
    // Of the last request taken.
    position: u64,
    sequence: u64,
    // Of requests at `position`, those up to here belong to this sweep; `MAX`
    // until it begins.
    limit: u64,
}

impl Default for Sweep {
    fn default() -> Self {
        Self { root: Root::default(), len: 0, position: 0, sequence: 0, limit: u64::MAX }
    }
}

impl Sweep {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, requests: &mut Requests, pool: &mut Pool, slot: u32) {
        if pool.get(slot).nowhere {
            pool.move_to(slot, self.position);
        }
        let held = pool.get(slot);
        let key = (held.place, held.sequence, slot);
        requests.insert(&mut self.root, key, (held.deadline, held.sequence, slot));
        self.len += 1;
    }

    /// The slot of the next in order.
    pub(crate) fn next(&self, requests: &Requests) -> Option<u32> {
        self.next_of_sweep(requests).or_else(|| requests.first(self.root).map(|key| key.2))
    }

    /// The slot of the next in order, if this sweep has one.
    pub(crate) fn next_of_sweep(&self, requests: &Requests) -> Option<u32> {
        let found = requests.first_from(self.root, (self.position, self.sequence + 1, 0))?;
        if found.0 > self.position || found.1 <= self.limit {
            return Some(found.2);
        }
        let above = (self.position.checked_add(1)?, 0, 0);
        requests.first_from(self.root, above).map(|key| key.2)
    }

    /// The one whose deadline is first: its deadline and slot.
    pub(crate) fn earliest(&self, requests: &Requests) -> Option<(Nanos, u32)> {
        requests.least(self.root).map(|(deadline, _, slot)| (deadline, slot))
    }

    /// Sends a request that stands here to the drive; the sweep goes on from
    /// there.
    pub(crate) fn send(&mut self, requests: &mut Requests, pool: &mut Pool, slot: u32) -> Held {
        let held = pool.send(slot);
        let taken = requests.remove(&mut self.root, (held.place, held.sequence, slot));
        debug_assert!(taken, "a request is taken from where it stands");
        self.len -= 1;
        let elsewhere = held.place != self.position || held.sequence < self.sequence;
        if elsewhere || self.limit == u64::MAX || held.sequence > self.limit {
            self.limit = pool.newest();
        }
        self.position = held.place;
        self.sequence = held.sequence;
        held
    }
}
