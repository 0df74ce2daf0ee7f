//! One node of a tree: a few entries in the order of their keys.

pub(super) const NIL: u32 = u32::MAX;
/// Entries of a node: of 8 to 32, the quickest with a thousand queues (24 to 32).
pub(super) const WIDTH: usize = 24;
/// A node with fewer takes from its neighbour, or goes into it.
pub(super) const FEWEST: usize = WIDTH / 4;
/// Two together that have no more become one: there is room for some to come.
pub(super) const JOINED: usize = WIDTH * 3 / 4;

/// In a leaf: a key, its measure, its value. Above: what is greater than the
/// keys of the child before and not greater than this child's, the least measure
/// in the child, the child.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<M> {
    pub(super) key: u128,
    pub(super) measure: M,
    pub(super) below: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Node<M> {
    pub(super) len: usize,
    pub(super) below: [u32; WIDTH],
    pub(super) keys: [u128; WIDTH],
    pub(super) measures: [M; WIDTH],
}

impl<M: Ord + Copy + Default> Node<M> {
    pub(super) fn new() -> Self {
        let (below, keys, measures) = ([NIL; WIDTH], [0; WIDTH], [M::default(); WIDTH]);
        Self { len: 0, below, keys, measures }
    }

    pub(super) fn entry(&self, at: usize) -> Entry<M> {
        Entry { key: self.keys[at], measure: self.measures[at], below: self.below[at] }
    }

    /// Its own entry in the node above.
    pub(super) fn above(&self, number: u32) -> Entry<M> {
        Entry { key: self.keys[0], measure: self.least(), below: number }
    }

    pub(super) fn set(&mut self, at: usize, entry: Entry<M>) {
        let Entry { key, measure, below } = entry;
        (self.keys[at], self.measures[at], self.below[at]) = (key, measure, below);
    }

    /// How many keys are less. All are looked at: there is no branch to guess
    /// wrong.
    pub(super) fn less(&self, key: u128) -> usize {
        self.keys[..self.len].iter().map(|&other| usize::from(other < key)).sum()
    }

    /// How many keys are not greater.
    pub(super) fn up_to(&self, key: u128) -> usize {
        self.keys[..self.len].iter().map(|&other| usize::from(other <= key)).sum()
    }

    /// Which child a key is in, or comes into.
    pub(super) fn child(&self, key: u128) -> usize {
        self.up_to(key).saturating_sub(1)
    }

    pub(super) fn least(&self) -> M {
        let rest = self.measures[..self.len].iter().skip(1);
        rest.fold(self.measures[0], |least, &other| least.min(other))
    }

    /// There is room.
    pub(super) fn put(&mut self, at: usize, entry: Entry<M>) {
        self.keys.copy_within(at..self.len, at + 1);
        self.measures.copy_within(at..self.len, at + 1);
        self.below.copy_within(at..self.len, at + 1);
        self.set(at, entry);
        self.len += 1;
    }

    pub(super) fn take(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.len, at);
        self.measures.copy_within(at + 1..self.len, at);
        self.below.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Keeps the first `len` entries, and returns the others.
    pub(super) fn split(&mut self, len: usize) -> Self {
        let mut rest = Self::new();
        rest.len = self.len - len;
        rest.keys[..rest.len].copy_from_slice(&self.keys[len..self.len]);
        rest.measures[..rest.len].copy_from_slice(&self.measures[len..self.len]);
        rest.below[..rest.len].copy_from_slice(&self.below[len..self.len]);
        self.len = len;
        rest
    }

    /// Takes the entries of another in at the end, which makes it `len`.
    pub(super) fn append(&mut self, other: &Self, len: usize) {
        self.keys[self.len..len].copy_from_slice(&other.keys[..other.len]);
        self.measures[self.len..len].copy_from_slice(&other.measures[..other.len]);
        self.below[self.len..len].copy_from_slice(&other.below[..other.len]);
        self.len = len;
    }
}
