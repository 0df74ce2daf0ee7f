//! Requests in the order of C-LOOK: upwards from where the last one was, then
//! again from the lowest (Seltzer, Chen and Ousterhout, "Disk Scheduling
//! Revisited", USENIX Winter 1990; Worthington, Ganger and Patt, SIGMETRICS 1994).
//!
//! A sweep takes, of the requests at one position, those that were there when it came by: a stream
//! of requests at one place holds nothing else up. A flush has no place: it stands where the sweep
//! is when it arrives, so it goes after everything that waited before it.
//!
//! In batches, requests that come during a sweep wait for the next one (FSCAN: Coffman,
//! Klimko and Ryan, "Analysis of Scanning Policies for Reducing Disk Seek Times",
//! SIAM Journal on Computing 1(3), 1972): a stream upwards overtakes nothing.

use stasis_block::clock::Nanos;

use crate::pool::{Fifo, Held, Pool};
use crate::tree_arena::{Root, TreeArena};

// By position and sequence, with their slots.
pub(crate) type Requests = TreeArena;

fn key(position: u64, sequence: u64) -> u128 {
    u128::from(position) << 64 | u128::from(sequence)
}

#[derive(Debug)]
pub(crate) struct ClookQueue {
    root: Root,
    // In batches: the requests that wait for the next one.
    batches: bool,
    coming: Root,
    // The next in order: its key and slot.
    next: Option<(u128, u32)>,
    // Those that the owner waits for, and the others: the time that each of a kind is given is the
    // same, so the first of a line is its latest.
    fifos: [Fifo; 2],
    // Position of the last request taken.
    position: u64,
    sequence: u64,
    // Last of the requests at `position` that belong to this sweep; `MAX` until it begins.
    limit: u64,
}

impl Default for ClookQueue {
    fn default() -> Self {
        let (root, fifos) = (Root::default(), [Fifo::default(); 2]);
        let (batches, coming) = (false, root);
        let (next, position, sequence, limit) = (None, 0, 0, u64::MAX);
        Self { root, batches, coming, next, fifos, position, sequence, limit }
    }
}

impl ClookQueue {
    /// With batches.
    pub(crate) fn in_batches() -> Self {
        Self { batches: true, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    pub(crate) fn push(&mut self, requests: &mut Requests, pool: &mut Pool, slot: u32) {
        let waits = self.batches && !self.root.is_empty();
        if pool.get(slot).nowhere {
            // The next batch goes upwards from the lowest.
            pool.move_to(slot, if waits { u64::MAX } else { self.position });
        }
        let held = pool.get(slot);
        let new = (key(held.place, held.sequence), slot);
        let fifo = usize::from(held.sync);
        let root = if waits { &mut self.coming } else { &mut self.root };
        requests.insert(root, new.0, slot);
        pool.push_back(&mut self.fifos[fifo], slot);
        if waits {
            return;
        }
        // Those of this sweep, then those of the next.
        let order = |key: u128| (!self.sweeps(key), key);
        if self.next.is_none_or(|next| order(new.0) < order(next.0)) {
            self.next = Some(new);
        }
    }

    /// Returns whether the requests at this place belong to this sweep.
    fn sweeps(&self, at: u128) -> bool {
        let here = at > key(self.position, self.sequence) && at <= key(self.position, self.limit);
        here || at > key(self.position, u64::MAX)
    }

    /// The slot of the next in order.
    pub(crate) fn next(&self) -> Option<u32> {
        self.next.map(|(_, slot)| slot)
    }

    /// The slot of the next in order, if this sweep has one.
    pub(crate) fn next_of_sweep(&self) -> Option<u32> {
        self.next.filter(|&(key, _)| self.sweeps(key)).map(|(_, slot)| slot)
    }

    fn find_next(&self, requests: &Requests) -> Option<(u128, u32)> {
        let after = key(self.position, self.sequence + 1);
        let of_sweep = requests.first_from(self.root, after).and_then(|found| {
            // The others here came after the sweep did.
            let others = || requests.first_from(self.root, key(self.position, u64::MAX));
            Some(found).filter(|found| self.sweeps(found.0)).or_else(others)
        });
        of_sweep.or_else(|| requests.first_from(self.root, 0))
    }

    /// The one whose deadline is first: its deadline and slot.
    pub(crate) fn earliest(&self, pool: &Pool) -> Option<(Nanos, u32)> {
        let firsts = self.fifos.iter().filter_map(|fifo| pool.first(fifo));
        let due = |slot: u32| (pool.get(slot).deadline, pool.get(slot).sequence, slot);
        firsts.map(due).min().map(|(deadline, _, slot)| (deadline, slot))
    }

    /// Sends a request that stands here to the drive; the sweep continues from there.
    pub(crate) fn send(&mut self, requests: &mut Requests, pool: &mut Pool, slot: u32) -> Held {
        let held = pool.send(slot);
        let at = key(held.place, held.sequence);
        let taken = requests.remove(&mut self.root, at) || requests.remove(&mut self.coming, at);
        debug_assert!(taken, "a request is taken from where it stands");
        pool.remove_from(&mut self.fifos[usize::from(held.sync)], slot);
        let elsewhere = held.place != self.position || held.sequence < self.sequence;
        if elsewhere || self.limit == u64::MAX || held.sequence > self.limit {
            self.limit = pool.newest();
        }
        self.position = held.place;
        self.sequence = held.sequence;
        if self.root.is_empty() && !self.coming.is_empty() {
            std::mem::swap(&mut self.root, &mut self.coming);
            (self.position, self.sequence, self.limit) = (0, 0, u64::MAX);
        }
        self.next = self.find_next(requests);
        held
    }
}
