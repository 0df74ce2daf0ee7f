//! The event queue: a binary heap ordered by (time, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Nanos;

#[derive(Debug)]
struct Entry<T> {
    at: Nanos,
    sequence: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// Events in the order in which they happen.
///
/// Events of the same time leave in the order in which they were put in.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `event` in, to happen at `at` (ns).
    pub fn push(&mut self, at: Nanos, event: T) {
        self.heap.push(Reverse(Entry { at, sequence: self.pushed, event }));
        self.pushed += 1;
    }

    /// The time of the next event (ns).
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next event with its time, if it happens at or before `now`.
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        Some((entry.at, entry.event))
    }

    /// Number of waiting events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the simplest reference: a stable sort by time.
        #[test]
        fn events_leave_in_order_of_time_then_insertion(
            times in prop::collection::vec(0u64..50, 0..100),
        ) {
            let mut queue = EventQueue::new();
            let mut expected: Vec<_> = times.iter().copied().zip(0..).collect();
            expected.iter().for_each(|&(at, event)| queue.push(at, event));
            expected.sort();
            prop_assert_eq!(queue.len(), expected.len());
            let mut seen = Vec::new();
            for now in 0..50 {
                while let Some(popped) = queue.pop_due(now) {
                    prop_assert_eq!(popped.0, now);
                    seen.push(popped);
                }
            }
            prop_assert_eq!(seen, expected);
            prop_assert!(queue.is_empty());
        }
    }
}
