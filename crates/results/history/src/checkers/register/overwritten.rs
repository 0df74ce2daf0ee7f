//! Reads that no search is needed for: of values that nobody wrote, or that were overwritten.

use std::collections::{BTreeMap, BTreeSet};

use crate::{History, Judgement};

use super::access::{Access, Values, ABSENT};

/// Checks the values that the operations on one key have found. A value is judged by its age only if it was written
/// once: then every order has its write before one that began after it, and that one before a read that began later.
pub(super) fn check(judgement: &mut Judgement, history: &History, values: &Values, all: &[Access]) {
    let operations = history.operations();
    let mut writers: BTreeMap<u32, Vec<&Access>> = BTreeMap::new();
    for one in all {
        if let Some(value) = one.effect.written() {
            writers.entry(value).or_default().push(one);
        }
    }
    // Acknowledged writes by their end, each with the one that began last among it and those before.
    let is_done = |one: &&Access| one.effect.written().is_some() && one.end != usize::MAX;
    let mut done: Vec<_> = all.iter().filter(is_done).map(|one| (one.end, one)).collect();
    done.sort_by_key(|(end, _)| *end);
    for place in 1..done.len() {
        if done[place - 1].1.begin > done[place].1.begin {
            done[place].1 = done[place - 1].1;
        }
    }
    let mut named = BTreeSet::new();
    for read in all.iter().filter(|one| one.end != usize::MAX) {
        let Some(value) = read.effect.found() else { continue };
        let shown = &operations[read.place];
        let tried = writers.get(&value).map_or(&[][..], |all| &all[..]);
        let mut possible = tried
            .iter()
            .filter(|one| !one.has_failed && one.begin < read.end && one.place != read.place);
        let writer = possible.next();
        if value != ABSENT && writer.is_none() {
            let why = match tried.first().map(|first| &operations[first.place]) {
                Some(first) => format!("{first} failed, or began later"),
                None => "nobody wrote it".to_owned(),
            };
            let text = format!("{shown} found {}, but {why}", values.text(value));
            let concerned = [read.place].into_iter().chain(tried.iter().map(|one| one.place));
            judgement.contradict("phantom", concerned.collect::<Vec<_>>(), text);
            continue;
        }
        // The end of the value's only write; before all others if there was none.
        let is_single = possible.next().is_none();
        let written = match (value, writer) {
            (ABSENT, None) => Some(None),
            (ABSENT, Some(_)) => None,
            (_, writer) => {
                writer.filter(|one| is_single && one.end != usize::MAX).map(|one| Some(one.end))
            }
        };
        let before = done.partition_point(|(end, _)| *end < read.begin);
        let (Some(written), Some((_, newer))) =
            (written, before.checked_sub(1).map(|last| done[last]))
        else {
            continue;
        };
        if written.is_some_and(|end| end >= newer.begin) || !named.insert(newer.place) {
            continue;
        }
        let later = all.iter().find(|one| {
            one.effect.found() == newer.effect.written()
                && one.end != usize::MAX
                && one.end > read.begin
        });
        let newer_text = &operations[newer.place];
        let value = values.text(value);
        let concerned = [newer.place, read.place].into_iter().chain(writer.map(|one| one.place));
        let mut concerned: Vec<_> = concerned.collect();
        match later {
            Some(later) => {
                concerned.push(later.place);
                let text = format!(
                    "{shown} found {value}, which {newer_text} had overwritten and {} found",
                    operations[later.place]
                );
                judgement.contradict("stale", concerned, text);
            }
            None => {
                let text = format!(
                    "{newer_text} is lost: {shown} found {value}, which it had overwritten, \
                     and nobody finds it later"
                );
                judgement.contradict("lost", concerned, text);
            }
        }
    }
}
