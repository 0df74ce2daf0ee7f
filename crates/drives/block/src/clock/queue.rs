//! The event queue, ordered by (time, sequence): a run of events that came in their order, and a
//! binary heap of the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

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
    /// Events put in by ascending time: at its ends, they cost nothing to sort.
    run: VecDeque<Entry<T>>,
    /// The others.
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { run: VecDeque::new(), heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `event` in, to happen at `at` (ns).
    #[inline]
    pub fn push(&mut self, at: Nanos, event: T) {
        let entry = Entry { at, sequence: self.pushed, event };
        self.pushed += 1;
        if self.run.back().is_none_or(|last| last.at <= at) {
            self.run.push_back(entry);
        } else {
            self.heap.push(Reverse(entry));
        }
    }

    /// The time of the next event (ns).
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        let run = self.run.front().map(|entry| entry.at);
        match self.heap.peek() {
            None => run,
            Some(Reverse(entry)) => Some(run.map_or(entry.at, |at| at.min(entry.at))),
        }
    }

    /// The next event with its time, if it happens at or before `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next_at()? > now {
            return None;
        }
        let from_run = match (self.run.front(), self.heap.peek()) {
            (first, Some(Reverse(other))) => first.is_some_and(|first| first < other),
            (_, None) => true,
        };
        let entry = match from_run {
            true => self.run.pop_front()?,
            false => self.heap.pop()?.0,
        };
        Some((entry.at, entry.event))
    }

    /// Number of waiting events.
    pub fn len(&self) -> usize {
        self.run.len() + self.heap.len()
    }

    /// Returns whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the simplest reference: a stable sort by time, before each event that leaves.
        #[test]
        fn events_leave_in_order_of_time_then_insertion(
            times in prop::collection::vec((0u64..50, 0usize..3), 0..100),
        ) {
            let (mut queue, mut expected) = (EventQueue::new(), Vec::new());
            for (event, (at, leaving)) in times.into_iter().enumerate() {
                queue.push(at, event);
                expected.push((at, event));
                for _ in 0..leaving {
                    expected.sort();
                    let first = expected.first().copied();
                    prop_assert_eq!(queue.next_at(), first.map(|(at, _)| at));
                    let due = first.filter(|(at, _)| *at <= 25);
                    prop_assert_eq!(queue.pop_due(25), due);
                    expected.drain(..usize::from(due.is_some()));
                }
            }
            prop_assert_eq!(queue.len(), expected.len());
            expected.sort();
            for event in expected {
                prop_assert_eq!(queue.pop_due(u64::MAX), Some(event));
            }
            prop_assert!(queue.is_empty());
        }
    }
}
