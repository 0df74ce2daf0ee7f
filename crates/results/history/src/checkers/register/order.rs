//! The search for an order of the operations on one key.

use std::collections::BTreeMap;

use crate::{History, Judgement};

use super::access::{Access, Effect, Values, ABSENT};

/// Limit on the operations of one key at once, without those whose outcome is unknown.
pub(super) const MAX_AT_ONCE: u32 = 8;
/// Limit on the steps of a key's search, which take less than a second: comparisons of sets, and for each state as many
/// as keep the states at 2 million, of some 100 bytes.
const MAX_STEPS: usize = 500_000_000;
const STEPS_OF_A_STATE: usize = 250;
/// Limit on the values that a sentence names.
const MAX_NAMED: usize = 5;

/// States of a key that the operations so far can have left, each with the open operations that have happened, as bits.
///
/// A state in which fewer operations without a known outcome have happened can become whatever one with more can:
/// only the least sets are kept.
#[derive(Default)]
struct States {
    /// By the value and the operations that have to happen: the sets of the others.
    sets: BTreeMap<(u32, u64), Vec<u64>>,
    steps: usize,
}

impl States {
    /// Adds a state, and returns whether it is new.
    fn add(&mut self, (value, happened): (u32, u64), required: u64) -> bool {
        let others = happened & !required;
        let sets = self.sets.entry((value, happened & required)).or_default();
        self.steps += STEPS_OF_A_STATE + sets.len();
        if sets.iter().any(|set| set & !others == 0) {
            return false;
        }
        sets.retain(|set| others & !set != 0);
        sets.push(others);
        true
    }

    fn all(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let all = self.sets.iter();
        all.flat_map(|((value, happened), sets)| {
            sets.iter().map(move |set| (*value, happened | set))
        })
    }
}

/// An event in the course of an operation, in the order of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin,
    /// It has certainly happened.
    End,
    /// Nobody finds what it wrote any more.
    Forget,
}

/// The reason for which a search has no order.
enum Failure<'a> {
    /// No order explains this operation; the values that it could have found, and the operations under way.
    Impossible(&'a Access, Vec<u32>, Vec<usize>),
    Undecided(String),
}

/// Checks the operations on `key`, of which none has failed, in the order of their beginning.
pub(super) fn check(
    judgement: &mut Judgement,
    history: &History,
    values: &Values,
    key: &str,
    all: &[Access],
) {
    let subject = if key.is_empty() { "the register".to_owned() } else { format!("key {key}") };
    match Search::new(all).run() {
        Ok(()) => {}
        Err(Failure::Undecided(reason)) => judgement.undecide(format!("{subject}: {reason}")),
        Err(Failure::Impossible(access, found, open)) => {
            let mut names: Vec<_> = found.iter().map(|value| values.text(*value)).collect();
            names.dedup();
            let more = names.len().saturating_sub(MAX_NAMED);
            names.truncate(MAX_NAMED);
            let more = if more > 0 { format!(" or {more} others") } else { String::new() };
            let text = format!(
                "no order of the operations on {subject} explains {}, \
                 which could have found {}{more}",
                history.operations()[access.place],
                names.join(" or "),
            );
            judgement.contradict("not-linearizable", open, text);
        }
    }
}

struct Search<'a> {
    all: &'a [Access],
    events: Vec<(usize, Event, usize)>,
    /// The open operations by their bits.
    open: [Option<usize>; u64::BITS as usize],
    /// Bits of the open operations that have to happen.
    required: u64,
    /// Bits of those among them that read.
    reads: u64,
    states: States,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(all: &'a [Access]) -> Self {
        // The rank up to which each value is found by an operation.
        let mut found: BTreeMap<u32, usize> = BTreeMap::new();
        for one in all {
            if let Some(value) = one.effect.found() {
                let last = found.entry(value).or_default();
                *last = one.end.max(*last);
            }
        }
        let mut events = Vec::new();
        for (number, one) in all.iter().enumerate() {
            let last = one.effect.written().and_then(|value| found.get(&value)).copied();
            match (one.end, last) {
                (usize::MAX, None) => continue,
                (usize::MAX, Some(last)) if last < one.begin => continue,
                (usize::MAX, Some(last)) => events.push((last, Event::Forget, number)),
                (end, _) => events.push((end, Event::End, number)),
            }
            events.push((one.begin, Event::Begin, number));
        }
        events.sort_unstable();
        let mut states = States::default();
        states.add((ABSENT, 0), 0);
        Self { all, events, open: [None; 64], required: 0, reads: 0, states, steps: 0 }
    }

    fn run(mut self) -> Result<(), Failure<'a>> {
        for (_, event, number) in std::mem::take(&mut self.events) {
            match event {
                Event::Begin => self.begin(number)?,
                Event::End => self.end(number)?,
                Event::Forget => self.forget(number),
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: usize) -> Result<(), Failure<'a>> {
        let Some(bit) = self.open.iter().position(Option::is_none) else {
            let reason = "too many operations with an unknown outcome";
            return Err(Failure::Undecided(reason.to_owned()));
        };
        self.open[bit] = Some(number);
        if self.all[number].end != usize::MAX {
            self.required |= 1 << bit;
            let is_read = matches!(self.all[number].effect, Effect::Read(_));
            self.reads |= u64::from(is_read) << bit;
        }
        if self.required.count_ones() > MAX_AT_ONCE {
            let reason = format!("more than {MAX_AT_ONCE} operations at once");
            return Err(Failure::Undecided(reason));
        }
        Ok(())
    }

    /// Lets reads of the present value happen: nothing speaks for a later place.
    fn with_reads(&self, (value, mut happened): (u32, u64)) -> (u32, u64) {
        for bit in bits(self.reads & !happened) {
            let effect = self.open[bit].map(|number| self.all[number].effect);
            if effect == Some(Effect::Read(value)) {
                happened |= 1 << bit;
            }
        }
        (value, happened)
    }

    /// Keeps the states in which an operation has happened, after others that are open, where needed.
    fn end(&mut self, number: usize) -> Result<(), Failure<'a>> {
        let Some(own) = self.open.iter().position(|one| *one == Some(number)) else {
            return Ok(());
        };
        let open = bits(u64::MAX).filter(|bit| self.open[*bit].is_some());
        let open: Vec<(usize, Effect)> =
            open.filter_map(|bit| Some((bit, self.all[self.open[bit]?].effect))).collect();
        let (mut passed, mut next) = (States::default(), States::default());
        let mut waiting: Vec<_> = self.states.all().collect();
        while let Some(state) = waiting.pop() {
            let state = self.with_reads(state);
            if state.1 >> own & 1 == 1 {
                next.add((state.0, state.1 & !(1 << own)), self.required);
                continue;
            }
            if !passed.add(state, self.required) {
                continue;
            }
            for (place, (bit, effect)) in open.iter().enumerate() {
                // The first of operations without a known outcome that are alike stands for all.
                let is_optional = self.required >> bit & 1 == 0;
                let is_waiting = |(other, alike): &(usize, Effect)| {
                    let is_other = (self.required | state.1) >> other & 1 == 0;
                    alike == effect && is_other
                };
                let happens = state.1 >> bit & 1 == 0
                    && !(is_optional && open[..place].iter().any(is_waiting));
                let after = effect.after(state.0).filter(|_| happens);
                waiting.extend(after.map(|value| (value, state.1 | 1 << bit)));
            }
            if self.steps + passed.steps + next.steps > MAX_STEPS {
                let reason = format!("more than {MAX_STEPS} steps of the search for an order");
                return Err(Failure::Undecided(reason));
            }
        }
        self.steps += passed.steps + next.steps;
        if next.sets.is_empty() {
            let mut concerned: Vec<_> =
                self.open.iter().flatten().map(|number| self.all[*number].place).collect();
            concerned.sort_unstable();
            let found = passed.sets.keys().map(|(value, _)| *value).collect();
            return Err(Failure::Impossible(&self.all[number], found, concerned));
        }
        self.states = next;
        self.close(own);
        Ok(())
    }

    fn forget(&mut self, number: usize) {
        let Some(own) = self.open.iter().position(|one| *one == Some(number)) else { return };
        let mut next = States::default();
        for (value, happened) in self.states.all() {
            next.add((value, happened & !(1 << own)), self.required);
        }
        self.steps += next.steps;
        self.states = next;
        self.close(own);
    }

    fn close(&mut self, bit: usize) {
        self.open[bit] = None;
        self.required &= !(1 << bit);
        self.reads &= !(1 << bit);
    }
}

/// Places of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
