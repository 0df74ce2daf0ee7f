//! The ends of steps that are under way, earliest first.

use stasis_clock::Nanos;

/// Children of each node: they fill a cache line.
const ARITY: usize = 4;

/// A heap of numbers with the least first.
///
/// The place of what was taken last stays empty until something is put in, as
/// mostly happens next: that then needs one way through the heap, not two.
#[derive(Debug)]
pub(super) struct Agenda {
    // The time above, who below.
    heap: Vec<u128>,
    // Whether the first place is empty.
    vacant: bool,
    // What comes first; NOTHING if there is none.
    first: u128,
}

/// Later than every event.
const NOTHING: u128 = u128::MAX;

impl Agenda {
    pub fn new() -> Self {
        Self { heap: Vec::new(), vacant: false, first: NOTHING }
    }

    /// The time of the first.
    pub fn next_at(&self) -> Option<Nanos> {
        (self.first != NOTHING).then_some((self.first >> 64) as Nanos)
    }

    /// Takes the first out: its time, and who.
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        if self.first == NOTHING {
            return None;
        }
        if self.vacant {
            // The last moves to the empty place, unless it is the one to take.
            if let Some(last) = self.heap.pop().filter(|_| self.heap.len() > 1) {
                self.sink(last);
            }
        }
        let taken = std::mem::replace(&mut self.first, NOTHING);
        self.vacant = true;
        if let Some(children) = self.heap.get(1..) {
            for &child in &children[..children.len().min(ARITY)] {
                self.first = self.first.min(child);
            }
        }
        Some(((taken >> 64) as Nanos, taken as u32))
    }

    pub fn push(&mut self, at: Nanos, who: u32) {
        let event = (u128::from(at) << 64) | u128::from(who);
        self.first = self.first.min(event);
        if self.vacant {
            self.vacant = false;
            return self.sink(event);
        }
        let mut at = self.heap.len();
        self.heap.push(event);
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent] <= event {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = event;
    }

    /// Puts `event` into the empty first place.
    fn sink(&mut self, event: u128) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let least = match heap.get(first..first + ARITY) {
                Some(&[a, b, c, d]) => {
                    let left = if b < a { (b, 1) } else { (a, 0) };
                    let right = if d < c { (d, 3) } else { (c, 2) };
                    if right.0 < left.0 {
                        right
                    } else {
                        left
                    }
                }
                _ => match heap[first.min(heap.len())..].iter().zip(0..).min() {
                    Some((&value, child)) => (value, child),
                    None => break,
                },
            };
            if event <= least.0 {
                break;
            }
            heap[at] = least.0;
            at = first + least.1;
        }
        heap[at] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list.
        #[test]
        fn the_first_comes_first(
            steps in prop::collection::vec(prop::option::weighted(0.6, (0u64..20, 0u32..4)), 0..300),
        ) {
            let (mut agenda, mut sorted) = (Agenda::new(), Vec::new());
            for step in steps {
                match step {
                    Some(event) => {
                        agenda.push(event.0, event.1);
                        sorted.push(event);
                        sorted.sort();
                    }
                    None => {
                        let first = (!sorted.is_empty()).then(|| sorted.remove(0));
                        prop_assert_eq!(agenda.pop(), first);
                    }
                }
                prop_assert_eq!(agenda.next_at(), sorted.first().map(|event| event.0));
            }
        }
    }
}
