//! One node of a tree: a few entries in the order of their keys.

pub(super) const NIL: u32 = u32::MAX;
/// Entries of a node: of 8 to 32, the quickest with a thousand queues (24 to 32).
pub(super) const WIDTH: usize = 24;
/// A node with fewer takes from its neighbour, or goes into it.
pub(super) const FEWEST: usize = WIDTH / 4;
/// Two together that have no more become one: there is room for some to come.
pub(super) const JOINED: usize = WIDTH * 3 / 4;

/// In a leaf: a key, its value. Above: a bound greater than the keys of the child before and not
/// greater than this child's, the child.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: u128,
    pub(super) below: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) len: usize,
    pub(super) below: [u32; WIDTH],
    pub(super) keys: [u128; WIDTH],
}

impl Node {
    pub(super) fn new() -> Self {
        Self { len: 0, below: [NIL; WIDTH], keys: [0; WIDTH] }
    }

    /// Returns the node's own entry in the node above.
    pub(super) fn above(&self, number: u32) -> Entry {
        Entry { key: self.keys[0], below: number }
    }

    pub(super) fn set(&mut self, at: usize, entry: Entry) {
        (self.keys[at], self.below[at]) = (entry.key, entry.below);
    }

    /// Number of keys that are less. All are looked at: there is no branch to guess wrong.
    pub(super) fn less(&self, key: u128) -> usize {
        self.keys[..self.len].iter().map(|&other| usize::from(other < key)).sum()
    }

    /// Index of the child that a key is in, or comes into.
    pub(super) fn child(&self, key: u128) -> usize {
        let up_to: usize = self.keys[..self.len].iter().map(|&k| usize::from(k <= key)).sum();
        up_to.saturating_sub(1)
    }

    /// Inserts an entry; the caller knows that there is room.
    pub(super) fn put(&mut self, at: usize, entry: Entry) {
        self.keys.copy_within(at..self.len, at + 1);
        self.below.copy_within(at..self.len, at + 1);
        self.set(at, entry);
        self.len += 1;
    }

    pub(super) fn take(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.len, at);
        self.below.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Keeps the first `len` entries, and returns the others.
    pub(super) fn split(&mut self, len: usize) -> Self {
        let mut rest = Self::new();
        rest.len = self.len - len;
        rest.keys[..rest.len].copy_from_slice(&self.keys[len..self.len]);
        rest.below[..rest.len].copy_from_slice(&self.below[len..self.len]);
        self.len = len;
        rest
    }

    /// Takes the entries of another in at the end, which makes it `len`.
    pub(super) fn append(&mut self, other: &Self, len: usize) {
        self.keys[self.len..len].copy_from_slice(&other.keys[..other.len]);
        self.below[self.len..len].copy_from_slice(&other.below[..other.len]);
        self.len = len;
    }
}
