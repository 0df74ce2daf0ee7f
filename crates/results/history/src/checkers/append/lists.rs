//! The lists by key: who appended what, who read what, and what is wrong with the reads alone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{History, Judgement, Operation, Outcome};

use super::isolation::Isolation;
use super::step::{steps, Step};

/// A value that was appended to a key.
pub(super) struct Element {
    pub(super) text: String,
    /// The transaction.
    pub(super) writer: usize,
    /// True if the transaction appended nothing to the key afterwards.
    is_final: bool,
}

/// A read of a key.
pub(super) struct Read {
    pub(super) operation: usize,
    /// Numbers of the key's elements.
    pub(super) values: Vec<usize>,
    /// The number of values before those that its own transaction had appended.
    pub(super) foreign: usize,
}

#[derive(Default)]
pub(super) struct List {
    pub(super) name: String,
    pub(super) elements: Vec<Element>,
    numbers: BTreeMap<String, usize>,
    pub(super) reads: Vec<Read>,
    /// The longest read.
    pub(super) order: Vec<usize>,
    /// True if each read is a beginning of the longest one.
    pub(super) is_ordered: bool,
}

impl List {
    /// The acknowledged elements that nobody has read.
    pub(super) fn unread(&self, all: &[Operation]) -> Vec<usize> {
        let order: BTreeSet<_> = self.order.iter().collect();
        let elements = (0..self.elements.len()).filter(|element| !order.contains(element));
        elements.filter(|element| all[self.elements[*element].writer].is_ok()).collect()
    }
}

/// All lists of a history.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) keys: Vec<List>,
    /// The transactions that count: those that were done, and those whose values somebody has read.
    pub(super) transactions: BTreeSet<usize>,
    numbers: BTreeMap<String, usize>,
}

impl Lists {
    fn key(&mut self, key: &Value) -> usize {
        let next = self.keys.len();
        let name = key.to_string();
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.keys.push(List { name: name.clone(), ..List::default() });
            next
        })
    }

    /// Reads the appended values. A history that cannot be judged is undecided in `judgement`.
    pub(super) fn read(history: &History, judgement: &mut Judgement) -> Self {
        let mut lists = Self::default();
        for (place, one) in history.of_kinds(&["txn"]) {
            let steps = match steps(one) {
                Ok(steps) => steps,
                Err(reason) => {
                    judgement.undecide(reason);
                    continue;
                }
            };
            for step in &steps {
                let Step::Append(key, value) = step else { continue };
                let key = lists.key(key);
                let list = &mut lists.keys[key];
                for earlier in list.elements.iter_mut().rev().take_while(|one| one.writer == place)
                {
                    earlier.is_final = false;
                }
                let text = value.to_string();
                if list.numbers.insert(text.clone(), list.elements.len()).is_some() {
                    judgement.undecide(format!("{text} was appended to {} twice", list.name));
                }
                list.elements.push(Element { text, writer: place, is_final: true });
            }
            if one.is_ok() {
                lists.transactions.insert(place);
            }
        }
        if lists.transactions.is_empty() {
            judgement.undecide("no transaction was done".to_owned());
        }
        lists
    }

    /// Checks the reads, and finds each key's order.
    pub(super) fn check(
        &mut self,
        judgement: &mut Judgement,
        all: &[Operation],
        isolation: Isolation,
    ) {
        for place in self.transactions.clone() {
            self.check_transaction(judgement, all, place, isolation);
        }
        for list in &mut self.keys {
            check_order(judgement, all, list);
            let read = list.order.iter().map(|element| list.elements[*element].writer);
            self.transactions.extend(read);
            check_lost(judgement, all, list);
        }
    }

    fn check_transaction(
        &mut self,
        judgement: &mut Judgement,
        all: &[Operation],
        place: usize,
        isolation: Isolation,
    ) {
        let one = &all[place];
        // Each key's list, if it was read, and the transaction's own values behind it.
        let mut own: BTreeMap<usize, (Option<Vec<&Value>>, Vec<&Value>)> = BTreeMap::new();
        for step in steps(one).unwrap_or_default() {
            let (key, values) = match step {
                Step::Append(key, value) => {
                    own.entry(self.key(key)).or_default().1.push(value);
                    continue;
                }
                Step::Read(key, values) => (self.key(key), values),
            };
            let (before, appended) = own.entry(key).or_default();
            let foreign = values.len().saturating_sub(appended.len());
            let is_own = values[foreign..].iter().eq(appended.iter().copied())
                && before
                    .as_ref()
                    .is_none_or(|before| values[..foreign].iter().eq(before.iter().copied()));
            if !is_own {
                if isolation >= Isolation::Snapshot {
                    let list = &self.keys[key].name;
                    let text =
                        format!("{one} does not read in {list} what it read or appended before");
                    judgement.contradict("internal", [place], text);
                    continue;
                }
                // Other transactions' values may be among its own.
                appended.clear();
            }
            let foreign = if is_own { foreign } else { values.len() };
            *before = Some(values[..foreign].iter().collect());
            self.check_read(judgement, all, (place, key), (values, foreign), isolation);
        }
    }

    /// Checks a read's values, and keeps it.
    fn check_read(
        &mut self,
        judgement: &mut Judgement,
        all: &[Operation],
        (place, key): (usize, usize),
        (values, foreign): (&[Value], usize),
        isolation: Isolation,
    ) {
        let (one, list) = (&all[place], &mut self.keys[key]);
        let name = &list.name;
        let (mut numbers, mut distinct) = (Vec::new(), BTreeSet::new());
        for value in values {
            let Some(number) = list.numbers.get(&value.to_string()).copied() else {
                let text = format!("{one} has {value} in {name}, which nobody has tried to append");
                judgement.contradict("phantom", [place], text);
                return;
            };
            if !distinct.insert(number) {
                let text = format!("{one} has {value} in {name} more than once");
                judgement.contradict("twice", [place], text);
                return;
            }
            numbers.push(number);
        }
        if isolation >= Isolation::ReadCommitted {
            for element in numbers.iter().map(|number| &list.elements[*number]) {
                let writer = &all[element.writer];
                if writer.outcome == Outcome::Fail {
                    let text = format!("{one} has {} in {name}, but {writer} failed", element.text);
                    judgement.contradict("G1a", [element.writer, place], text);
                }
            }
            let last = numbers[..foreign].last().map(|last| &list.elements[*last]);
            if let Some(last) = last.filter(|last| !last.is_final && last.writer != place) {
                let text = format!(
                    "{one} has {} as the last value in {name}, but {} appended more",
                    last.text, all[last.writer]
                );
                judgement.contradict("G1b", [last.writer, place], text);
            }
        }
        list.reads.push(Read { operation: place, values: numbers, foreign });
    }
}

fn check_order(judgement: &mut Judgement, all: &[Operation], list: &mut List) {
    list.is_ordered = true;
    let Some(longest) = list.reads.iter().max_by_key(|read| read.values.len()) else { return };
    list.order.clone_from(&longest.values);
    for read in &list.reads {
        if !list.order.starts_with(&read.values) {
            list.is_ordered = false;
            let (first, second) = (&all[read.operation], &all[longest.operation]);
            let name = &list.name;
            let text =
                format!("{first} and {second} have the values of {name} in different orders");
            let operations = [read.operation, longest.operation];
            judgement.contradict("incompatible-order", operations, text);
        }
    }
}

fn check_lost(judgement: &mut Judgement, all: &[Operation], list: &List) {
    let begin = |read: &Read| all[read.operation].begin.rank;
    // The beginning of the last read of each element, and the last read of all.
    let mut read_last = vec![0; list.elements.len()];
    for read in &list.reads {
        for element in &read.values {
            read_last[*element] = begin(read).max(read_last[*element]);
        }
    }
    let Some(last) = list.reads.iter().max_by_key(|read| begin(read)) else { return };
    for (element, read_last) in list.elements.iter().zip(read_last) {
        let writer = &all[element.writer];
        if writer.done() < begin(last) && read_last < writer.done() {
            let (name, value) = (&list.name, &element.text);
            let text = format!(
                "{value} in {name} is lost: {writer} appended it, \
                 no read that began later has it, as {}",
                all[last.operation]
            );
            judgement.contradict("lost", [element.writer, last.operation], text);
        }
    }
}
