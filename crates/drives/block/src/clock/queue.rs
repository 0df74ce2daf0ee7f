//! The event queue: a binary heap ordered by (time, sequence), with
//! cancellation by identity.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::Nanos;

/// Names one event in a queue, for [`EventQueue::cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u64);

#[derive(Debug)]
struct Entry<T> {
    at: Nanos,
    id: EventId,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
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
        (self.at, self.id).cmp(&(other.at, other.id))
    }
}

/// Events in the order in which they happen.
///
/// Events of the same time leave in the order in which they were put in.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    cancelled: HashSet<EventId>,
    next_id: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), cancelled: HashSet::new(), next_id: 0 }
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `event` in, to happen at `at` (ns).
    pub fn push(&mut self, at: Nanos, event: T) -> EventId {
        let id = EventId(self.next_id);
        self.next_id += 1;
        self.heap.push(Reverse(Entry { at, id, event }));
        id
    }

    /// Takes an event out that has not happened yet. The caller answers for
    /// `id` still being in the queue.
    pub fn cancel(&mut self, id: EventId) {
        self.cancelled.insert(id);
        self.drop_cancelled();
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
        self.drop_cancelled();
        Some((entry.at, entry.event))
    }

    /// Number of waiting events.
    pub fn len(&self) -> usize {
        self.heap.len() - self.cancelled.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // Keeps the invariant that the heap's top is never a cancelled event.
    fn drop_cancelled(&mut self) {
        while let Some(Reverse(top)) = self.heap.peek() {
            if self.cancelled.is_empty() || !self.cancelled.remove(&top.id) {
                break;
            }
            self.heap.pop();
        }
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
            cancel in prop::collection::vec(any::<bool>(), 100),
        ) {
            let mut queue = EventQueue::new();
            let ids: Vec<_> = times.iter().enumerate().map(|(i, &t)| queue.push(t, i)).collect();
            let mut expected = Vec::new();
            for (i, &t) in times.iter().enumerate() {
                if cancel[i] { queue.cancel(ids[i]); } else { expected.push((t, i)); }
            }
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
