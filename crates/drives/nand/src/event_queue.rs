//! The ends of steps that are under way, earliest first: a timing wheel, with a heap for later
//! ends.
//!
//! A ring of buckets covers the time from the event that was taken last on. Most steps end
//! within it, so that putting an event in and taking one out cost the same however many
//! there are (Varghese and Lauck, SOSP 1987). Buckets are narrow enough that most hold one
//! event at most; a bit for each marks those that are not empty.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stasis_block::clock::Nanos;

/// A bucket is 2^9 ns wide, about the time between two events of a busy array.
const SHIFT: u32 = 9;
/// Buckets: together 2 ms, so that few programs and no reads lie beyond.
const BUCKETS: usize = 64 * 64;
/// No event.
const NONE: u32 = u32::MAX;
/// Later than every event.
const NOTHING: (Nanos, u32) = (Nanos::MAX, u32::MAX);

/// An event in a bucket.
#[derive(Debug, Clone, Copy)]
struct Node {
    at: Nanos,
    who: u32,
    // The next in the bucket, or among the unused.
    next: u32,
}

/// Events in the order of (time, who).
#[derive(Debug)]
pub(super) struct EventQueue {
    nodes: Vec<Node>,
    // The first of the unused nodes.
    free: u32,
    // The first node of each bucket that is not empty.
    heads: Vec<u32>,
    // A bit for each bucket that is not empty, and one for each word with such a bit.
    occupied: [u64; BUCKETS / 64],
    summary: u64,
    // The number of the bucket that the ring begins with, counted from time 0.
    begin: u64,
    // Events outside the ring when they were put in.
    beyond: BinaryHeap<Reverse<(Nanos, u32)>>,
    // The first event, or NOTHING, and whether it is in a bucket.
    first: (Nanos, u32),
    in_ring: bool,
}

impl EventQueue {
    /// An empty one, with memory for so many events.
    pub fn new(events: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(events),
            free: NONE,
            heads: vec![NONE; BUCKETS],
            occupied: [0; BUCKETS / 64],
            summary: 0,
            begin: 0,
            beyond: BinaryHeap::with_capacity(events),
            first: NOTHING,
            in_ring: false,
        }
    }

    /// Removes all events.
    pub fn clear(&mut self) {
        self.nodes.clear();
        (self.free, self.occupied, self.summary) = (NONE, [0; BUCKETS / 64], 0);
        self.beyond.clear();
        (self.first, self.in_ring) = (NOTHING, false);
    }

    /// The time of the first.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        (self.first != NOTHING).then_some(self.first.0)
    }

    /// Who is first.
    pub fn next_who(&self) -> Option<u32> {
        (self.first != NOTHING).then_some(self.first.1)
    }

    /// Takes the first out: its time, and who.
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        let taken = self.first;
        if taken == NOTHING {
            return None;
        }
        let bucket = taken.0 >> SHIFT;
        if self.in_ring {
            self.unlink(bucket as usize % BUCKETS, taken);
        } else {
            self.beyond.pop();
        }
        // Nothing in the ring is earlier.
        self.begin = self.begin.max(bucket);
        let ring = self.first_of_ring();
        let beyond = self.beyond.peek().map_or(NOTHING, |event| event.0);
        (self.first, self.in_ring) = if ring < beyond { (ring, true) } else { (beyond, false) };
        Some(taken)
    }

    pub fn push(&mut self, at: Nanos, who: u32) {
        let event = (at, who);
        // An event earlier than the ring can as well be kept in `beyond`.
        let within = (at >> SHIFT).wrapping_sub(self.begin) < BUCKETS as u64;
        if within {
            self.link((at >> SHIFT) as usize % BUCKETS, event);
        } else {
            self.beyond.push(Reverse(event));
        }
        if event < self.first {
            (self.first, self.in_ring) = (event, within);
        }
    }

    fn link(&mut self, bucket: usize, (at, who): (Nanos, u32)) {
        let bit = 1 << (bucket % 64);
        let word = &mut self.occupied[bucket / 64];
        let next = if *word & bit == 0 { NONE } else { self.heads[bucket] };
        *word |= bit;
        self.summary |= 1 << (bucket / 64);
        let node = Node { at, who, next };
        self.heads[bucket] = self.free;
        if self.free == NONE {
            self.heads[bucket] = self.nodes.len() as u32;
            self.nodes.push(node);
        } else {
            let place = &mut self.nodes[self.free as usize];
            self.free = place.next;
            *place = node;
        }
    }

    /// Takes an event that is in a bucket out of it.
    fn unlink(&mut self, bucket: usize, event: (Nanos, u32)) {
        let (mut before, mut index) = (NONE, self.heads[bucket]);
        while (self.nodes[index as usize].at, self.nodes[index as usize].who) != event {
            (before, index) = (index, self.nodes[index as usize].next);
        }
        let next = std::mem::replace(&mut self.nodes[index as usize].next, self.free);
        self.free = index;
        if before != NONE {
            self.nodes[before as usize].next = next;
            return;
        }
        self.heads[bucket] = next;
        if next == NONE {
            let word = &mut self.occupied[bucket / 64];
            *word &= !(1 << (bucket % 64));
            self.summary &= !(u64::from(*word == 0) << (bucket / 64));
        }
    }

    /// The first event in the ring, or NOTHING.
    fn first_of_ring(&self) -> (Nanos, u32) {
        let Some(bucket) = self.first_bucket() else { return NOTHING };
        let mut node = self.nodes[self.heads[bucket] as usize];
        let mut first = (node.at, node.who);
        while node.next != NONE {
            node = self.nodes[node.next as usize];
            first = first.min((node.at, node.who));
        }
        first
    }

    /// The first bucket of the ring that is not empty.
    fn first_bucket(&self) -> Option<usize> {
        let begin = self.begin as usize % BUCKETS;
        let word = begin / 64;
        let here = self.occupied[word] >> (begin % 64);
        if here != 0 {
            return Some(begin + here.trailing_zeros() as usize);
        }
        // The words behind it, and round to its own, whose first bits come last.
        let behind = self.summary.rotate_right(word as u32 + 1);
        if behind == 0 {
            return None;
        }
        let word = (word + 1 + behind.trailing_zeros() as usize) % (BUCKETS / 64);
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list; times within a bucket, within the ring, beyond it, and
        /// before the event taken last.
        #[test]
        fn the_first_comes_first(
            steps in prop::collection::vec(
                prop::option::weighted(0.6, (0u64..20, 0u32..4, 0u32..24)), 0..300),
            clock in prop_oneof![Just(0u64), Just(u64::MAX - (1 << 24)), any::<u64>()],
        ) {
            let (mut queue, mut sorted) = (EventQueue::new(0), Vec::new());
            let mut clock = clock;
            for step in steps {
                match step {
                    Some((time, who, shift)) => {
                        let event = (clock.saturating_add(time << shift), who);
                        queue.push(event.0, event.1);
                        sorted.push(event);
                        sorted.sort_unstable();
                    }
                    None => {
                        let first = (!sorted.is_empty()).then(|| sorted.remove(0));
                        prop_assert_eq!(queue.pop(), first);
                        // Now and then the clock stays behind.
                        clock = first.filter(|first| first.0 % 8 > 0).map_or(clock, |it| it.0);
                    }
                }
                prop_assert_eq!(queue.next_at(), sorted.first().map(|event| event.0));
            }
        }
    }
}
