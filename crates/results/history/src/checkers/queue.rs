//! Queues: what was enqueued is dequeued once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{History, Judgement, Outcome};

#[derive(Default)]
struct Element {
    enqueued: Vec<usize>,
    dequeued: Vec<usize>,
}

/// Checks operations `enqueue VALUE`, `dequeue VALUE` (null, or failed, where nothing was there) and
/// `drain [VALUES]`, which dequeues everything.
///
/// * `lost`: an element that was acknowledged before a drain began was never dequeued. A drain is a `drain`, or a
///   `dequeue` that found nothing. Where dequeues without a known outcome may have taken elements, only a greater
///   number is a contradiction; others are undecided.
/// * `twice`: an element was dequeued more often than somebody tried to enqueue it.
/// * `phantom`: an element was dequeued that nobody had tried to enqueue before the dequeue's end, or only in vain.
///
/// Order is not checked. Elements are undecided if no drain began after them.
///
/// Source: Jepsen's checker `total-queue` (lost, duplicated, unexpected).
pub fn queue(history: &History) -> Judgement {
    let mut judgement = Judgement::default();
    let all = history.operations();
    let mut elements: BTreeMap<String, Element> = BTreeMap::new();
    // The rank at which the last drain began, and the number of elements that may have been taken.
    let (mut drained, mut possible) = (None, 0);
    for (place, one) in history.of_kinds(&["enqueue", "dequeue", "drain"]) {
        if one.f == "enqueue" {
            elements.entry(one.argument.to_string()).or_default().enqueued.push(place);
            continue;
        }
        let values = match (one.outcome, one.value()) {
            (Outcome::Ok, Value::Null) if one.f == "dequeue" => &[],
            (Outcome::Ok, value) if one.f == "dequeue" => std::slice::from_ref(value),
            (Outcome::Ok, Value::Array(values)) => &values[..],
            (Outcome::Ok, _) => {
                judgement.undecide(format!("{one} has no list of elements"));
                continue;
            }
            (Outcome::Unknown, _) if one.f == "drain" => {
                // It may have taken everything.
                possible = usize::MAX;
                continue;
            }
            (Outcome::Unknown, _) => {
                possible = possible.saturating_add(1);
                continue;
            }
            (Outcome::Fail, _) => continue,
        };
        for value in values {
            elements.entry(value.to_string()).or_default().dequeued.push(place);
        }
        if one.f == "drain" || values.is_empty() {
            drained = drained.max(Some((one.begin.rank, place)));
        }
    }
    let (mut lost, mut unread) = (BTreeSet::new(), 0);
    for (value, element) in &elements {
        let tries = element.enqueued.iter().filter(|one| all[**one].outcome != Outcome::Fail);
        let tries = tries.count();
        let concerned = || [&element.enqueued[..], &element.dequeued].concat();
        if let Some(dequeue) = element.dequeued.first().map(|first| &all[*first]) {
            let earliest = element.dequeued.iter().map(|one| all[*one].done()).min();
            let is_early = |one: &usize| {
                all[*one].outcome != Outcome::Fail
                    && earliest.is_some_and(|end| all[*one].begin.rank < end)
            };
            if !element.enqueued.iter().any(is_early) {
                let text = format!("{dequeue} has {value}, which nobody had enqueued");
                judgement.contradict("phantom", concerned(), text);
            } else if element.dequeued.len() > tries {
                let count = element.dequeued.len();
                let text = format!("{value} was dequeued {count} times, and enqueued {tries}");
                judgement.contradict("twice", concerned(), text);
            }
        }
        let mut done: Vec<_> = element.enqueued.iter().filter(|one| all[**one].is_ok()).collect();
        done.sort_by_key(|one| all[**one].done());
        // The last ones are missing, as far as anybody can tell.
        for missing in done.iter().skip(element.dequeued.len()) {
            match drained {
                Some((begin, _)) if all[**missing].done() < begin => _ = lost.insert(**missing),
                _ => unread += 1,
            }
        }
    }
    if lost.len() > possible {
        for enqueue in &lost {
            let text = match possible {
                0 => format!("{} is lost: it was acknowledged, and never dequeued", all[*enqueue]),
                _ => format!(
                    "{} is one of {} that were never dequeued, which {possible} dequeues \
                     without a known outcome cannot all have taken",
                    all[*enqueue],
                    lost.len(),
                ),
            };
            let drain = drained.map(|(_, place)| place);
            let operations = [*enqueue].into_iter().chain(drain).collect::<Vec<_>>();
            judgement.contradict("lost", operations, text);
        }
    } else if !lost.is_empty() {
        judgement.undecide(format!(
            "{} elements were never dequeued, unless by operations with an unknown outcome",
            lost.len()
        ));
    }
    if unread > 0 {
        judgement.undecide(format!("no drain began after {unread} acknowledged elements"));
    }
    judgement
}
