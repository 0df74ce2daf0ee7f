//! Ordered sets: the sorted lists of requests.
//!
//! Many trees stand in one arena, so that a queue that is empty costs nothing
//! and nothing is allocated once the arena is as large as it gets. The trees are
//! B+-trees (Comer, "The Ubiquitous B-Tree", Computing Surveys 11(2), 1979): a
//! thousand entries are three nodes deep, so that few lines miss the processor's
//! caches.

mod node;

use node::{Entry, Node, FEWEST, JOINED, NIL, WIDTH};

/// The root of one tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Root {
    node: u32,
    // Above the leaves.
    height: u32,
}

impl Default for Root {
    fn default() -> Self {
        Self { node: NIL, height: 0 }
    }
}

impl Root {
    pub(crate) fn is_empty(self) -> bool {
        self.node == NIL
    }
}

/// An arena of trees of keys, each with a value. Keys are unique within their tree.
#[derive(Debug, Default)]
pub(crate) struct TreeArena {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

impl TreeArena {
    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    fn create(&mut self) -> u32 {
        let at = self.free.pop().unwrap_or(self.nodes.len() as u32);
        match self.nodes.get_mut(at as usize) {
            Some(node) => node.len = 0,
            None => self.nodes.push(Node::new()),
        }
        at
    }

    pub(crate) fn insert(&mut self, root: &mut Root, key: u128, value: u32) {
        let entry = Entry { key, below: value };
        if root.is_empty() {
            *root = Root { node: self.create(), height: 0 };
        }
        if let Some(right) = self.insert_below(root.node, root.height, entry) {
            let left = self.node(root.node).above(root.node);
            let above = self.create();
            self.node_mut(above).put(0, left);
            self.node_mut(above).put(1, right);
            *root = Root { node: above, height: root.height + 1 };
        }
    }

    /// Inserts an entry below; returns the new node beside this one, if this one was full.
    fn insert_below(&mut self, at: u32, height: u32, entry: Entry) -> Option<Entry> {
        let node = self.node_mut(at);
        if height == 0 {
            let place = node.less(entry.key);
            return self.put(at, place, entry);
        }
        let place = node.child(entry.key);
        node.keys[place] = node.keys[place].min(entry.key);
        let child = node.below[place];
        let right = self.insert_below(child, height - 1, entry)?;
        self.put(at, place + 1, right)
    }

    fn put(&mut self, at: u32, place: usize, entry: Entry) -> Option<Entry> {
        if self.node(at).len < WIDTH {
            self.node_mut(at).put(place, entry);
            return None;
        }
        let new = self.create();
        let mut left = *self.node(at);
        let mut right = left.split(WIDTH / 2);
        match place.checked_sub(left.len) {
            Some(place) if place > 0 => right.put(place, entry),
            _ => left.put(place, entry),
        }
        (*self.node_mut(at), *self.node_mut(new)) = (left, right);
        Some(right.above(new))
    }

    /// Returns whether the key was there.
    pub(crate) fn remove(&mut self, root: &mut Root, key: u128) -> bool {
        if root.is_empty() || !self.remove_below(root.node, root.height, key) {
            return false;
        }
        while root.height > 0 && self.node(root.node).len == 1 {
            self.free.push(root.node);
            *root = Root { node: self.node(root.node).below[0], height: root.height - 1 };
        }
        if self.node(root.node).len == 0 {
            self.free.push(root.node);
            *root = Root::default();
        }
        true
    }

    fn remove_below(&mut self, at: u32, height: u32, key: u128) -> bool {
        let node = self.node_mut(at);
        if height == 0 {
            let place = node.less(key);
            let found = place < node.len && node.keys[place] == key;
            if found {
                node.take(place);
            }
            return found;
        }
        let place = node.child(key);
        let child = node.below[place];
        let removed = self.remove_below(child, height - 1, key);
        if removed && self.node(child).len < FEWEST {
            self.fill(at, place.saturating_sub(1));
        }
        removed
    }

    /// The child here or the next has few entries: they share their entries, or become one.
    fn fill(&mut self, at: u32, place: usize) {
        let below = &self.node(at).below;
        let (first, second) = (below[place], below[place + 1]);
        let (mut left, mut right) = (*self.node(first), *self.node(second));
        let both = left.len + right.len;
        if both <= JOINED {
            left.append(&right, both);
            self.free.push(second);
            self.node_mut(at).take(place + 1);
        } else if left.len < both / 2 {
            let more = both / 2 - left.len;
            let rest = right.split(more);
            left.append(&right, both / 2);
            right = rest;
            self.node_mut(at).set(place + 1, right.above(second));
            *self.node_mut(second) = right;
        } else {
            let mut moved = left.split(both / 2);
            moved.append(&right, both - both / 2);
            self.node_mut(at).set(place + 1, moved.above(second));
            *self.node_mut(second) = moved;
        }
        *self.node_mut(first) = left;
    }

    fn leftmost(&self, mut at: u32, height: u32) -> (u128, u32) {
        (0..height).for_each(|_| at = self.node(at).below[0]);
        (self.node(at).keys[0], self.node(at).below[0])
    }

    /// The least key that is not less than `from`, and its value.
    pub(crate) fn first_from(&self, root: Root, from: u128) -> Option<(u128, u32)> {
        if root.is_empty() {
            return None;
        }
        // Next entry to the right of the path from the root.
        let (mut at, mut next) = (root.node, None);
        for height in (0..root.height).rev() {
            let node = self.node(at);
            let place = node.child(from);
            if place + 1 < node.len {
                next = Some((node.below[place + 1], height));
            }
            at = node.below[place];
        }
        let leaf = self.node(at);
        let place = leaf.less(from);
        if place < leaf.len {
            return Some((leaf.keys[place], leaf.below[place]));
        }
        next.map(|(at, height)| self.leftmost(at, height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Checks that a tree is one: entries in order, nodes filled. Returns the number of its
    /// entries.
    fn check(arena: &TreeArena, at: u32, height: u32, root: bool) -> usize {
        let node = arena.node(at);
        let fewest = if height > 0 && root { 2 } else { 1 };
        assert!(node.len >= if root { fewest } else { FEWEST }, "{}", node.len);
        assert!(node.keys[..node.len].is_sorted_by(|one, other| one < other));
        if height == 0 {
            return node.len;
        }
        let children = (0..node.len).map(|place| {
            let child = arena.node(node.below[place]);
            assert!(node.keys[place] <= child.keys[0]);
            let last = child.keys[child.len - 1];
            assert!(place + 1 == node.len || last < node.keys[place + 1]);
            check(arena, node.below[place], height - 1, false)
        });
        children.sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against the simplest reference: a map that is searched from end to
        /// end. `bias` of 4 steps insert, at first; then the others do.
        #[test]
        fn a_tree_is_a_map(
            bias in 1u32..=3,
            steps in prop::collection::vec((0u32..4, 0u128..700, any::<u32>()), 0..2500),
        ) {
            let (mut arena, mut root) = (TreeArena::default(), Root::default());
            let (mut map, mut other) = (BTreeMap::new(), Root::default());
            arena.insert(&mut other, 7, 7);
            let half = steps.len() / 2;
            for (step, (insert, key, value)) in steps.into_iter().enumerate() {
                let insert = (insert < bias) == (step < half);
                if insert && !map.contains_key(&key) {
                    arena.insert(&mut root, key, value);
                    map.insert(key, value);
                } else {
                    prop_assert_eq!(arena.remove(&mut root, key), map.remove(&key).is_some());
                }
                prop_assert_eq!(root.is_empty(), map.is_empty());
                for at in [key, key / 2, key + 30, 700] {
                    let next = map.range(at..).next().map(|(&key, &value)| (key, value));
                    prop_assert_eq!(arena.first_from(root, at), next);
                }
                if !root.is_empty() {
                    prop_assert_eq!(check(&arena, root.node, root.height, true), map.len());
                }
            }
            prop_assert_eq!(arena.first_from(other, 0), Some((7, 7)));
        }
    }

    /// For any order: the depth is the logarithm's, and freed nodes are used again.
    #[test]
    fn trees_are_shallow_and_leave_nothing_behind() {
        let (mut arena, mut root) = (TreeArena::default(), Root::default());
        let count = 100_000;
        for round in 0..3u128 {
            let key = |number: u128| if round == 1 { count - number } else { number };
            (0..count).for_each(|number| arena.insert(&mut root, key(number), 0));
            assert!(root.height < 6, "{}", root.height);
            assert!((0..count).all(|number| arena.remove(&mut root, key(number))));
            assert!(root.is_empty());
            assert_eq!(arena.free.len(), arena.nodes.len());
        }
        assert!(arena.nodes.len() < 16_000, "{}", arena.nodes.len());
    }
}
