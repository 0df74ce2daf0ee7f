//! The ends of steps that are under way, earliest first.

/// Children of each node: they fill a cache line.
const ARITY: usize = 4;

/// A heap of numbers with the least first.
///
/// The place of what was taken last stays empty until something is put in, as
/// mostly happens next: that then needs one way through the heap, not two.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: Vec<u128>,
    // Whether the first place is empty.
    vacant: bool,
}

impl Agenda {
    /// The least.
    pub fn peek(&self) -> Option<u128> {
        if self.vacant {
            return self.heap.iter().skip(1).take(ARITY).min().copied();
        }
        self.heap.first().copied()
    }

    /// Takes the least out.
    pub fn pop(&mut self) -> Option<u128> {
        if self.vacant {
            self.vacant = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        let first = self.heap.first().copied();
        self.vacant = first.is_some();
        first
    }

    pub fn push(&mut self, event: u128) {
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
        fn the_least_comes_first(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0u128..40), 0..300),
        ) {
            let (mut agenda, mut sorted) = (Agenda::default(), Vec::new());
            for step in steps {
                match step {
                    Some(event) => {
                        agenda.push(event);
                        sorted.push(event);
                        sorted.sort();
                    }
                    None => {
                        let least = (!sorted.is_empty()).then(|| sorted.remove(0));
                        prop_assert_eq!(agenda.pop(), least);
                    }
                }
                prop_assert_eq!(agenda.peek(), sorted.first().copied());
            }
        }
    }
}
