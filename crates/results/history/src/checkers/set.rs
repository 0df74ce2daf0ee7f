//! Sets: what was added stays.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::operation::shown;
use crate::{History, Judgement, Operation, Outcome};

/// Reads that lack an element which later reads have again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staleness {
    /// Reads may be of an earlier state.
    Allowed,
    /// A read has everything that was acknowledged before it began.
    Forbidden,
}

/// An element, by its attempts and reads.
struct Element<'a> {
    value: &'a Value,
    attempts: Vec<usize>,
    /// Rank from which it is known to be in the set: its addition was acknowledged, or a read that has it has ended.
    known: usize,
    /// The operation by which it is known.
    known_by: usize,
    /// The last end of a read that has it.
    last_present: Option<usize>,
    /// A read that lacks it, though it was known when that began: the first that began after the last presence, or the
    /// last of all.
    absent: Option<usize>,
    /// The last read that was checked for it.
    stamp: usize,
}

impl Element<'_> {
    /// Returns whether no read has it that ended after another one began.
    fn is_gone(&self, all: &[Operation], read: usize) -> bool {
        self.last_present.is_none_or(|last| last < all[read].begin.rank)
    }
}

/// Checks operations `add VALUE` and `read [VALUES]`.
///
/// * `lost`: a read that began after an element was known lacks it, and no read has it that ended after that one began.
///   An element is known once its addition was acknowledged, or a read that has it has ended.
/// * `stale`, if forbidden: such a read lacks it, but a later one has it.
/// * `phantom`: a read has an element that nobody has tried to add before the read's end, or only in vain.
/// * `twice`: a read has an element several times.
///
/// Acknowledged elements are undecided if no read began after them.
///
/// Source: Jepsen's checkers `set-full` (lost, stale, duplicated) and `set` (unexpected).
pub fn set(history: &History, staleness: Staleness) -> Judgement {
    let mut judgement = Judgement::default();
    let all = history.operations();
    let mut elements = elements(history);
    let mut reads = Vec::new();
    for (place, read) in history.of_kinds(&["read"]).filter(|(_, one)| one.is_ok()) {
        match read.value() {
            Value::Array(values) => reads.push((place, read, values)),
            _ => judgement.undecide(format!("{read} has no list of elements")),
        }
    }
    for (place, read, values) in &reads {
        present(&mut judgement, all, &mut elements, (*place, read), values);
    }
    let mut by_known: Vec<_> = elements.into_values().collect();
    by_known.sort_by_key(|one| one.known);
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    places.extend((0..).zip(&by_known).map(|(place, one)| (one.value.to_string(), place)));
    for (number, (place, read, values)) in (1..).zip(&reads) {
        for value in *values {
            if let Some(known) = places.get(&value.to_string()) {
                by_known[*known].stamp = number;
            }
        }
        let known = by_known.iter_mut().take_while(|one| one.known < read.begin.rank);
        for one in known.filter(|one| one.stamp != number) {
            let is_gone = one.absent.is_some_and(|absent| one.is_gone(all, absent));
            one.absent = if is_gone { one.absent } else { Some(*place) };
        }
    }
    by_known.sort_by_key(|one| one.attempts.first().copied());
    for one in &by_known {
        let Some(absent) = one.absent else { continue };
        let (read, by) = (&all[absent], &all[one.known_by]);
        let element = shown(one.value);
        if one.is_gone(all, absent) {
            let text =
                format!("{element} is lost: {by} had it, {read} and all later reads lack it");
            judgement.contradict("lost", [one.known_by, absent], text);
        } else if staleness == Staleness::Forbidden {
            let text =
                format!("{element} is stale: {by} had it, {read} lacks it, a later read has it");
            judgement.contradict("stale", [one.known_by, absent], text);
        }
    }
    let last = reads.iter().map(|(_, read, _)| read.begin.rank).max().unwrap_or(0);
    let is_unread =
        |one: &&Element| one.known != usize::MAX && one.known > last && one.last_present.is_none();
    match by_known.iter().filter(is_unread).count() {
        0 => {}
        count => judgement.undecide(format!("no read began after {count} acknowledged additions")),
    }
    judgement
}

/// The elements that somebody has tried to add, by their text.
fn elements(history: &History) -> BTreeMap<String, Element<'_>> {
    let mut elements: BTreeMap<String, Element> = BTreeMap::new();
    for (place, add) in history.of_kinds(&["add"]) {
        let value = &add.argument;
        let element = elements.entry(value.to_string()).or_insert_with(|| Element {
            value,
            attempts: Vec::new(),
            known: usize::MAX,
            known_by: place,
            last_present: None,
            absent: None,
            stamp: 0,
        });
        element.attempts.push(place);
        if add.done() < element.known {
            (element.known, element.known_by) = (add.done(), place);
        }
    }
    elements
}

/// Takes the elements of a read.
fn present(
    judgement: &mut Judgement,
    all: &[Operation],
    elements: &mut BTreeMap<String, Element>,
    (place, read): (usize, &Operation),
    values: &[Value],
) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let text = value.to_string();
        let count = counts.entry(text.clone()).or_default();
        *count += 1;
        let value = shown(value);
        if *count == 2 {
            judgement.contradict("twice", [place], format!("{read} has {value} more than once"));
        }
        let Some(element) = elements.get_mut(&text) else {
            let text = format!("{read} has {value}, which nobody has tried to add");
            judgement.contradict("phantom", [place], text);
            continue;
        };
        let attempts = element.attempts.iter().map(|attempt| &all[*attempt]);
        let mut possible = attempts.filter(|add| add.outcome != Outcome::Fail);
        if !possible.any(|add| !read.is_before(add)) {
            let operations = [place].into_iter().chain(element.attempts.iter().copied());
            let text = format!("{read} has {value}, whose addition failed or began later");
            judgement.contradict("phantom", operations.collect::<Vec<_>>(), text);
        }
        if read.done() < element.known {
            (element.known, element.known_by) = (read.done(), place);
        }
        element.last_present = element.last_present.max(Some(read.done()));
    }
}
