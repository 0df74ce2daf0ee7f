//! Lists that transactions append to: the isolation of transactions.

mod cycles;
mod isolation;
mod lists;
mod step;

use std::collections::BTreeSet;

use crate::{History, Judgement, Operation};

use cycles::{Edge, Graph, Reason};
use lists::Lists;

pub use isolation::Isolation;

/// Checks operations `txn` of steps `["append", key, value]` and `["r", key, [values]]`, of which no value is appended
/// to a key twice.
///
/// Contradictions of lists:
/// * `lost`: an acknowledged value is in no read of its key that began after it, and there are some.
/// * `phantom`: a read has a value that no transaction has tried to append.
/// * `twice`: a read has a value several times.
/// * `incompatible-order`: of two reads of a key none begins with the other.
/// * `internal`: a transaction does not read what it has itself read and appended before.
/// * `G1a`, aborted read: a read has a value of a transaction that failed.
/// * `G1b`, intermediate read: a read ends with a value after which its transaction appended another one to the key.
///
/// Cycles of transactions each of which has to be before the next, the shortest of each group that depends on itself:
/// * `G0`: by their writes (ww). `G1c`: by writes, and reads of them (wr).
/// * `G-single`: with one read that lacks a later write (rw). `G-nonadjacent`: with several, no two of them in a row.
/// * `G2`: with any number of those.
/// * Each also with `-realtime`, where some are before others because they ended before those began.
///
/// Cycles are looked for among transactions that were done, and those without a known outcome that somebody has read
/// from. Keys whose reads are in incompatible orders are left out.
///
/// Source: K. Kingsbury, P. Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020);
/// A. Adya, "Weak Consistency" (1999). `lost` is Jepsen's rule for sets: below strict serializability it takes for
/// granted that some read sees the value in the end.
pub fn append(history: &History, isolation: Isolation) -> Judgement {
    let mut judgement = Judgement::default();
    let mut lists = Lists::read(history, &mut judgement);
    if !judgement.undecided.is_empty() {
        return judgement;
    }
    lists.check(&mut judgement, history.operations(), isolation);
    let graph = graph(&lists, history.operations(), isolation);
    let real_time: &[bool] = match isolation {
        Isolation::StrictSerializable => &[false, true],
        _ => &[false],
    };
    let mut explained = BTreeSet::new();
    for real_time in real_time {
        for class in cycles::CLASSES.iter().filter(|class| class.isolation <= isolation) {
            for cycle in graph.cycles(class, *real_time, &mut explained) {
                contradict(&mut judgement, &lists, history.operations(), &cycle);
            }
        }
    }
    judgement
}

/// Adds the dependencies between transactions.
fn graph(lists: &Lists, all: &[Operation], isolation: Isolation) -> Graph {
    let mut graph = Graph::new(all.len());
    for (key, list) in lists.keys.iter().enumerate().filter(|(_, list)| list.is_ordered) {
        let writer = |element: &usize| list.elements[*element].writer;
        let mut add = |from: usize, to: usize, reason| {
            if from != to {
                graph.add(from, Edge { to, reason, key });
            }
        };
        // Behind the longest read are, in whatever order, the acknowledged values that nobody has read.
        let unread = list.unread(all);
        for pair in list.order.windows(2) {
            add(writer(&pair[0]), writer(&pair[1]), Reason::Ww { before: pair[0], after: pair[1] });
        }
        for element in &unread {
            if let Some(last) = list.order.last() {
                add(writer(last), writer(element), Reason::Ww { before: *last, after: *element });
            }
        }
        for read in &list.reads {
            if let Some(last) = read.values[..read.foreign].last() {
                add(writer(last), read.operation, Reason::Wr { element: *last });
            }
            let next = match list.order.get(read.foreign) {
                Some(next) => std::slice::from_ref(next),
                None => &unread[..],
            };
            for next in next {
                add(read.operation, writer(next), Reason::Rw { element: *next });
            }
        }
    }
    if isolation == Isolation::StrictSerializable {
        add_real_time(&mut graph, lists, all);
    }
    graph
}

/// Adds an edge from each transaction to those that began after its end, but for those that follow from others.
fn add_real_time(graph: &mut Graph, lists: &Lists, all: &[Operation]) {
    let mut moments: Vec<(usize, bool, usize)> = Vec::new();
    for place in &lists.transactions {
        moments.push((all[*place].begin.rank, false, *place));
        if all[*place].is_ok() {
            moments.push((all[*place].done(), true, *place));
        }
    }
    moments.sort_unstable();
    // The transactions that have ended, without those that are before others of them.
    let mut ended: Vec<usize> = Vec::new();
    for (_, is_end, place) in moments {
        if is_end {
            ended.retain(|other| !all[*other].is_before(&all[place]));
            ended.push(place);
        } else {
            for from in &ended {
                graph.add(*from, Edge { to: place, reason: Reason::RealTime, key: 0 });
            }
        }
    }
}

fn contradict(
    judgement: &mut Judgement,
    lists: &Lists,
    all: &[Operation],
    cycle: &[(usize, Edge)],
) {
    let steps = cycle.iter().map(|(from, edge)| {
        let [from, to] = [*from, edge.to].map(|place| all[place].begin.index);
        let list = lists.keys.get(edge.key);
        let value = |element: usize| {
            list.and_then(|list| list.elements.get(element)).map_or("", |one| one.text.as_str())
        };
        let key = list.map_or("", |list| list.name.as_str());
        match edge.reason {
            Reason::Ww { before, after } => {
                let (before, after) = (value(before), value(after));
                format!("{from} appended {before} to {key} before {to} appended {after} (ww)")
            }
            Reason::Wr { element } => {
                format!("{to} read {} in {key}, which {from} appended (wr)", value(element))
            }
            Reason::Rw { element } => {
                format!("{from} did not read {} in {key}, which {to} appended (rw)", value(element))
            }
            Reason::RealTime => format!("{from} ended before {to} began"),
        }
    });
    let steps: Vec<_> = steps.collect();
    let text = format!("transactions that are each before the next: {}", steps.join("; "));
    let operations: Vec<_> = cycle.iter().map(|(place, _)| *place).collect();
    judgement.contradict(cycles::name(cycle), operations, text);
}
