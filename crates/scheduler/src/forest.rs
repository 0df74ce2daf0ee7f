//! Ordered sets that also know the least measure of any range from below: the
//! augmented tree of B-WF2Q+ and of every sorted list of requests.
//!
//! Many trees stand in one arena, so that a queue that is empty costs nothing
//! and nothing is allocated once the arena is as large as it gets. The trees are
//! treaps (Seidel and Aragon, "Randomized Search Trees", Algorithmica 16, 1996)
//! with the number of an insertion, scrambled, for the random priority: every
//! operation takes the logarithm of the tree's size on average.

const NIL: u32 = u32::MAX;

/// The root of one tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Root(u32);

impl Default for Root {
    fn default() -> Self {
        Self(NIL)
    }
}

impl Root {
    pub(crate) fn is_empty(self) -> bool {
        self.0 == NIL
    }
}

#[derive(Debug, Clone, Copy)]
struct Node<K, M> {
    key: K,
    measure: M,
    // The least measure below here, this one included.
    least: M,
    left: u32,
    right: u32,
    priority: u32,
}

/// An arena of trees. Keys are unique within their tree.
#[derive(Debug)]
pub(crate) struct Forest<K, M> {
    nodes: Vec<Node<K, M>>,
    free: Vec<u32>,
    insertions: u64,
}

impl<K, M> Default for Forest<K, M> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), insertions: 0 }
    }
}

impl<K: Ord + Copy, M: Ord + Copy> Forest<K, M> {
    pub(crate) fn insert(&mut self, root: &mut Root, key: K, measure: M) {
        self.insertions += 1;
        let priority = scramble(self.insertions);
        let node = Node { key, measure, least: measure, left: NIL, right: NIL, priority };
        let new = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.hang(root, new);
    }

    /// Whether the key was there.
    pub(crate) fn remove(&mut self, root: &mut Root, key: K) -> bool {
        let Some(measure) = self.find(*root, key) else { return false };
        root.0 = self.remove_below(root.0, key, measure);
        true
    }

    fn find(&self, root: Root, key: K) -> Option<M> {
        let mut at = root.0;
        while at != NIL {
            let node = &self.nodes[at as usize];
            at = match key.cmp(&node.key) {
                std::cmp::Ordering::Equal => return Some(node.measure),
                std::cmp::Ordering::Less => node.left,
                std::cmp::Ordering::Greater => node.right,
            };
        }
        None
    }

    /// The least key.
    pub(crate) fn first(&self, root: Root) -> Option<K> {
        let mut at = root.0;
        let mut found = None;
        while at != NIL {
            let node = &self.nodes[at as usize];
            found = Some(node.key);
            at = node.left;
        }
        found
    }

    /// The least key that is not less than `from`.
    pub(crate) fn first_from(&self, root: Root, from: K) -> Option<K> {
        let mut at = root.0;
        let mut found = None;
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.key < from {
                at = node.right;
            } else {
                found = Some(node.key);
                at = node.left;
            }
        }
        found
    }

    /// The least measure of all.
    pub(crate) fn least(&self, root: Root) -> Option<M> {
        (root.0 != NIL).then(|| self.nodes[root.0 as usize].least)
    }

    /// The least measure among keys that are not greater than `to`.
    pub(crate) fn least_up_to(&self, root: Root, to: K) -> Option<M> {
        let mut at = root.0;
        let mut found: Option<M> = None;
        let mut consider = |measure: M| {
            found = Some(found.map_or(measure, |found| found.min(measure)));
        };
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.key > to {
                at = node.left;
                continue;
            }
            consider(node.measure);
            if node.left != NIL {
                consider(self.nodes[node.left as usize].least);
            }
            at = node.right;
        }
        found
    }

    fn update(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        let below = [node.left, node.right];
        let mut least = node.measure;
        for child in below {
            if child != NIL {
                least = least.min(self.nodes[child as usize].least);
            }
        }
        self.nodes[at as usize].least = least;
    }

    /// Puts a node where its priority is below its parent's.
    fn hang(&mut self, root: &mut Root, new: u32) {
        let Node { key, measure, priority, .. } = self.nodes[new as usize];
        let (mut parent, mut at, mut less) = (NIL, root.0, false);
        while at != NIL && self.nodes[at as usize].priority >= priority {
            let node = &mut self.nodes[at as usize];
            node.least = node.least.min(measure);
            less = key < node.key;
            (parent, at) = (at, if less { node.left } else { node.right });
        }
        let (left, right) = self.split(at, key);
        (self.nodes[new as usize].left, self.nodes[new as usize].right) = (left, right);
        self.update(new);
        match self.nodes.get_mut(parent as usize) {
            Some(parent) if less => parent.left = new,
            Some(parent) => parent.right = new,
            None => root.0 = new,
        }
    }

    // Into the keys less than `key`, and the others.
    fn split(&mut self, at: u32, key: K) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        if self.nodes[at as usize].key < key {
            let (left, right) = self.split(self.nodes[at as usize].right, key);
            self.nodes[at as usize].right = left;
            self.update(at);
            (at, right)
        } else {
            let (left, right) = self.split(self.nodes[at as usize].left, key);
            self.nodes[at as usize].left = right;
            self.update(at);
            (left, at)
        }
    }

    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL {
            return right;
        }
        if right == NIL {
            return left;
        }
        if self.nodes[left as usize].priority > self.nodes[right as usize].priority {
            let below = self.merge(self.nodes[left as usize].right, right);
            self.nodes[left as usize].right = below;
            self.update(left);
            left
        } else {
            let below = self.merge(left, self.nodes[right as usize].left);
            self.nodes[right as usize].left = below;
            self.update(right);
            right
        }
    }

    fn remove_below(&mut self, at: u32, key: K, measure: M) -> u32 {
        if at == NIL {
            return NIL;
        }
        let (left, right) = (self.nodes[at as usize].left, self.nodes[at as usize].right);
        match key.cmp(&self.nodes[at as usize].key) {
            std::cmp::Ordering::Equal => {
                self.free.push(at);
                return self.merge(left, right);
            }
            std::cmp::Ordering::Less => {
                let left = self.remove_below(left, key, measure);
                self.nodes[at as usize].left = left;
            }
            std::cmp::Ordering::Greater => {
                let right = self.remove_below(right, key, measure);
                self.nodes[at as usize].right = right;
            }
        }
        // Only then may the least here be another; looking costs two nodes more.
        if self.nodes[at as usize].least == measure {
            self.update(at);
        }
        at
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn scramble(number: u64) -> u32 {
    let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against the simplest reference: a map that is searched from end to end.
        #[test]
        fn a_tree_is_a_map_with_least_measures(
            steps in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..1000), 0..200),
        ) {
            let (mut forest, mut root, mut map) = (Forest::default(), Root::default(), BTreeMap::new());
            let mut other = Root::default();
            forest.insert(&mut other, 7, 7);
            for (insert, key, measure) in steps {
                if insert && !map.contains_key(&key) {
                    forest.insert(&mut root, key, measure);
                    map.insert(key, measure);
                } else {
                    prop_assert_eq!(forest.remove(&mut root, key), map.remove(&key).is_some());
                }
                prop_assert_eq!(root.is_empty(), map.is_empty());
                prop_assert_eq!(forest.first(root), map.keys().next().copied());
                prop_assert_eq!(forest.least(root), map.values().min().copied());
                for at in 0..40 {
                    prop_assert_eq!(forest.first_from(root, at), map.range(at..).next().map(|e| *e.0));
                    let least = map.range(..=at).map(|e| *e.1).min();
                    prop_assert_eq!(forest.least_up_to(root, at), least);
                }
            }
            prop_assert_eq!(forest.first(other), Some(7));
        }
    }

    fn depth(forest: &Forest<u32, u32>, at: u32) -> u32 {
        if at == NIL {
            return 0;
        }
        let node = &forest.nodes[at as usize];
        1 + depth(forest, node.left).max(depth(forest, node.right))
    }

    #[test]
    fn keys_in_order_make_no_list() {
        let (mut forest, mut root) = (Forest::default(), Root::default());
        (0..100_000).for_each(|key| forest.insert(&mut root, key, 0));
        assert!(depth(&forest, root.0) < 60, "{}", depth(&forest, root.0));
    }
}
