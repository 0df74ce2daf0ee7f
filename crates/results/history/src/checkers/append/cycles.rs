//! Cycles of transactions that depend on each other.

use std::collections::{BTreeSet, VecDeque};

use super::isolation::Isolation;

/// The reason for which a transaction is before another one. Elements are those of the edge's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its value is before the other's in the list.
    Ww { before: usize, after: usize },
    /// The other one read its value last.
    Wr { element: usize },
    /// It did not read the other's value.
    Rw { element: usize },
    /// It ended before the other one began.
    RealTime,
}

impl Reason {
    fn is_rw(self) -> bool {
        matches!(self, Self::Rw { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    /// The later transaction.
    pub(super) to: usize,
    pub(super) reason: Reason,
    pub(super) key: usize,
}

/// A kind of cycles: the edges that are in it, and the one with which it begins, so that it is none of another kind.
pub(super) struct Class {
    /// The least isolation that forbids it.
    pub(super) isolation: Isolation,
    begins: fn(Reason) -> bool,
    allows: fn(Reason) -> bool,
    /// True if two edges in a row may be rw.
    allows_adjacent: bool,
}

/// All kinds, from the worst on.
pub(super) const CLASSES: [Class; 4] = [
    Class {
        isolation: Isolation::ReadUncommitted,
        begins: |reason| matches!(reason, Reason::Ww { .. }),
        allows: |reason| matches!(reason, Reason::Ww { .. }),
        allows_adjacent: false,
    },
    Class {
        isolation: Isolation::ReadCommitted,
        begins: |reason| matches!(reason, Reason::Wr { .. }),
        allows: |reason| !reason.is_rw(),
        allows_adjacent: false,
    },
    Class {
        isolation: Isolation::Snapshot,
        begins: Reason::is_rw,
        allows: |_| true,
        allows_adjacent: false,
    },
    Class {
        isolation: Isolation::Serializable,
        begins: Reason::is_rw,
        allows: |_| true,
        allows_adjacent: true,
    },
];

/// Returns the name of a cycle.
pub(super) fn name(cycle: &[(usize, Edge)]) -> &'static str {
    let has = |test: fn(Reason) -> bool| cycle.iter().any(|(_, edge)| test(edge.reason));
    let rw: Vec<_> = cycle.iter().map(|(_, edge)| edge.reason.is_rw()).collect();
    let count = rw.iter().filter(|is_rw| **is_rw).count();
    let is_adjacent = (0..rw.len()).any(|place| rw[place] && rw[(place + 1) % rw.len()]);
    let names = match (count, is_adjacent) {
        (0, _) if has(|reason| matches!(reason, Reason::Wr { .. })) => ["G1c", "G1c-realtime"],
        (0, _) => ["G0", "G0-realtime"],
        (1, _) => ["G-single", "G-single-realtime"],
        (_, false) => ["G-nonadjacent", "G-nonadjacent-realtime"],
        (_, true) => ["G2", "G2-realtime"],
    };
    names[usize::from(has(|reason| reason == Reason::RealTime))]
}

/// Transactions by their places, and what each of them is before.
pub(super) struct Graph {
    edges: Vec<Vec<Edge>>,
}

impl Graph {
    pub(super) fn new(count: usize) -> Self {
        Self { edges: vec![Vec::new(); count] }
    }

    pub(super) fn add(&mut self, from: usize, edge: Edge) {
        self.edges[from].push(edge);
    }

    /// Finds the shortest cycle of a class in each group of transactions that depend on each other, but for groups with
    /// a transaction that is `explained`, to which those found are added.
    pub(super) fn cycles(
        &self,
        class: &Class,
        real_time: bool,
        explained: &mut BTreeSet<usize>,
    ) -> Vec<Vec<(usize, Edge)>> {
        let is_allowed = |edge: &Edge| match edge.reason {
            Reason::RealTime => real_time,
            reason => (class.allows)(reason),
        };
        let mut found = Vec::new();
        let mut search = Search::new(self, class);
        for component in self.components(&is_allowed) {
            if component.iter().any(|node| explained.contains(node)) {
                continue;
            }
            if let Some(cycle) = search.shortest(&component, &is_allowed) {
                explained.extend(cycle.iter().map(|(node, _)| *node));
                found.push(cycle);
            }
        }
        found
    }

    /// The strongly connected components of more than one transaction, by Tarjan's algorithm without recursion.
    fn components(&self, is_allowed: &impl Fn(&Edge) -> bool) -> Vec<Vec<usize>> {
        const NEW: usize = usize::MAX;
        let count = self.edges.len();
        let (mut order, mut low) = (vec![NEW; count], vec![0; count]);
        let (mut stack, mut is_on_stack) = (Vec::new(), vec![false; count]);
        let (mut next, mut found) = (0, Vec::new());
        for root in 0..count {
            // The nodes on the path from the root, each with the number of its edges that are done.
            let mut path = if order[root] == NEW { vec![(root, 0)] } else { Vec::new() };
            while let Some((node, done)) = path.last_mut() {
                let node = *node;
                if *done == 0 {
                    (order[node], low[node]) = (next, next);
                    next += 1;
                    stack.push(node);
                    is_on_stack[node] = true;
                }
                let edge = self.edges[node].get(*done);
                *done += 1;
                match edge {
                    Some(edge) if !is_allowed(edge) => {}
                    Some(edge) if order[edge.to] == NEW => path.push((edge.to, 0)),
                    Some(edge) if is_on_stack[edge.to] => low[node] = low[node].min(order[edge.to]),
                    Some(_) => {}
                    None => {
                        path.pop();
                        if let Some((parent, _)) = path.last() {
                            low[*parent] = low[*parent].min(low[node]);
                        }
                        if low[node] == order[node] {
                            let begin = stack.iter().rposition(|other| *other == node).unwrap_or(0);
                            let mut component = stack.split_off(begin);
                            component.iter().for_each(|member| is_on_stack[*member] = false);
                            component.sort_unstable();
                            if component.len() > 1 {
                                found.push(component);
                            }
                        }
                    }
                }
            }
        }
        found.sort();
        found
    }
}

/// The node before, whether the edge to that one is rw, and the edge from it.
type Step = (usize, usize, Edge);

/// A search for the shortest cycle, breadth first.
struct Search<'a> {
    graph: &'a Graph,
    class: &'a Class,
    /// The number of the component of each node.
    group: Vec<usize>,
    /// By node, and by whether the edge to it is rw: the last search that reached it, and from where.
    reached: Vec<[(usize, Option<Step>); 2]>,
    searches: usize,
    groups: usize,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, class: &'a Class) -> Self {
        let count = graph.edges.len();
        let (group, reached) = (vec![0; count], vec![[(0, None); 2]; count]);
        Self { graph, class, group, reached, searches: 0, groups: 0 }
    }

    fn shortest(
        &mut self,
        component: &[usize],
        is_allowed: &impl Fn(&Edge) -> bool,
    ) -> Option<Vec<(usize, Edge)>> {
        self.groups += 1;
        component.iter().for_each(|node| self.group[*node] = self.groups);
        let mut best: Option<Vec<(usize, Edge)>> = None;
        for from in component {
            for edge in &self.graph.edges[*from] {
                let is_inside = self.group[edge.to] == self.groups;
                if is_inside && (self.class.begins)(edge.reason) {
                    let max = best.as_ref().map_or(component.len() * 2, |best| best.len() - 1);
                    best = self.back((*from, *edge), max, is_allowed).or(best);
                }
            }
        }
        best
    }

    /// Finds the shortest cycle that begins with an edge, and has at most `max`.
    fn back(
        &mut self,
        (from, first): (usize, Edge),
        max: usize,
        is_allowed: &impl Fn(&Edge) -> bool,
    ) -> Option<Vec<(usize, Edge)>> {
        self.searches += 1;
        let allows_adjacent = self.class.allows_adjacent;
        // The last edge does not matter where rw edges may be in a row.
        let side = |edge: &Edge| usize::from(edge.reason.is_rw() && !allows_adjacent);
        let mut waiting = VecDeque::from([(first.to, side(&first), 1)]);
        self.reached[first.to][side(&first)] = (self.searches, None);
        while let Some((node, last, length)) = waiting.pop_front() {
            if length == max {
                return None;
            }
            for edge in self.graph.edges[node].iter().filter(|edge| is_allowed(edge)) {
                let next = side(edge);
                let is_adjacent = last == 1 && next == 1;
                if is_adjacent || self.group[edge.to] != self.groups {
                    continue;
                }
                if edge.to == from && next + side(&first) < 2 {
                    let mut cycle = vec![(node, *edge)];
                    let (mut node, mut last) = (node, last);
                    while let (_, Some((before, side, edge))) = self.reached[node][last] {
                        cycle.push((before, edge));
                        (node, last) = (before, side);
                    }
                    cycle.push((from, first));
                    cycle.reverse();
                    return Some(cycle);
                }
                if self.reached[edge.to][next].0 != self.searches {
                    self.reached[edge.to][next] = (self.searches, Some((node, last, *edge)));
                    waiting.push_back((edge.to, next, length + 1));
                }
            }
        }
        None
    }
}
