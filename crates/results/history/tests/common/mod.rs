//! A simulated store with clients, which a seed schedules, and mistakes that it makes on purpose.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{json, Value};
use stasis_history::{History, Judgement};

/// Draws by a seed.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A store, which does operations one at a time.
pub trait Store {
    /// Draws the next operation.
    fn next(&mut self, random: &mut Random) -> (&'static str, Value);

    /// Does an operation; None if it fails.
    fn apply(&mut self, f: &str, argument: &Value) -> Option<Value>;
}

enum Client {
    Idle,
    Begun(&'static str, Value),
    Done(&'static str, Value, Option<Value>),
}

/// A scheduler's limits.
pub struct Plan {
    pub clients: usize,
    pub operations: usize,
    /// One in so many operations ends with an unknown outcome; 0 for none.
    pub unknown: usize,
}

/// Runs a store's clients in an order that the seed draws, and after them `last`, one after another.
pub fn run(
    store: &mut impl Store,
    plan: &Plan,
    seed: u64,
    last: &[(&'static str, Value)],
) -> History {
    let mut random = Random::new(seed);
    let mut lines = Vec::new();
    let mut line = |kind: &str, process: usize, f: &str, value: &Value| {
        let line = json!({"type": kind, "process": process, "f": f, "value": value});
        lines.push(line.to_string());
    };
    let mut clients: Vec<Client> = (0..plan.clients).map(|_| Client::Idle).collect();
    let (mut begun, mut open) = (0, 0);
    // Operations with an unknown outcome that may still happen.
    let mut late: Vec<(&str, Value)> = Vec::new();
    while begun < plan.operations || open > 0 {
        if !late.is_empty() && random.one_in(2 * plan.clients) {
            let (f, argument) = late.swap_remove(random.below(late.len()));
            store.apply(f, &argument);
        }
        let process = random.below(plan.clients);
        clients[process] = match std::mem::replace(&mut clients[process], Client::Idle) {
            Client::Idle if begun < plan.operations => {
                let (f, argument) = store.next(&mut random);
                line("invoke", process, f, &argument);
                (begun, open) = (begun + 1, open + 1);
                Client::Begun(f, argument)
            }
            Client::Idle => Client::Idle,
            Client::Begun(f, argument) if plan.unknown > 0 && random.one_in(plan.unknown) => {
                line("info", process, f, &argument);
                open -= 1;
                if random.one_in(2) {
                    late.push((f, argument));
                }
                Client::Idle
            }
            Client::Begun(f, argument) => {
                let result = store.apply(f, &argument);
                Client::Done(f, argument, result)
            }
            Client::Done(f, argument, result) => {
                match result {
                    Some(result) => line("ok", process, f, &result),
                    None => line("fail", process, f, &argument),
                }
                open -= 1;
                Client::Idle
            }
        };
    }
    for (f, argument) in last {
        line("invoke", 0, f, argument);
        match store.apply(f, argument) {
            Some(result) => line("ok", 0, f, &result),
            None => line("fail", 0, f, argument),
        }
    }
    History::from_lines(&lines).unwrap()
}

/// A history from lines such as `0 invoke add 1`.
pub fn history(text: &str) -> History {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or("null");
        let [process, kind, f, value] = [word(), word(), word(), word()];
        format!(r#"{{"type":"{kind}","process":{process},"f":"{f}","value":{value}}}"#)
    });
    History::from_lines(lines).unwrap()
}

/// The kinds of the contradictions, in order, each once.
pub fn kinds(judgement: &Judgement) -> Vec<&'static str> {
    let mut kinds: Vec<_> = judgement.contradictions.iter().map(|one| one.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[track_caller]
pub fn assert_valid(judgement: &Judgement) {
    assert!(judgement.is_valid(), "{judgement:#?}");
}
