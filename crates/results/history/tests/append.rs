//! Transactions that append to lists.

use serde_json::{json, Value};
use stasis_history::checkers::{append, Isolation};
use stasis_history::{Judgement, Operation, Outcome};

use crate::common::{assert_valid, history, kinds, run, Plan, Random, Store};

const LEVELS: [Isolation; 5] = [
    Isolation::ReadUncommitted,
    Isolation::ReadCommitted,
    Isolation::Snapshot,
    Isolation::Serializable,
    Isolation::StrictSerializable,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// A value is acknowledged, and not appended.
    Lose,
    /// A value is appended twice.
    Duplicate,
    /// A list is read backwards.
    Reorder,
    /// A read is of the state before the last ten transactions.
    Stale,
    /// A transaction fails, but its values stay.
    Undead,
    /// A read has a value that nobody appended.
    Invent,
}

const KEYS: usize = 3;

struct Lists {
    mistake: Mistake,
    states: Vec<Vec<Vec<Value>>>,
    appended: usize,
    /// True once the mistake was made.
    is_made: bool,
}

impl Store for Lists {
    fn next(&mut self, random: &mut Random) -> (&'static str, Value) {
        let steps = (0..1 + random.below(4)).map(|_| {
            let key = random.below(KEYS);
            if random.one_in(2) {
                return json!(["r", key, null]);
            }
            self.appended += 1;
            json!(["append", key, self.appended])
        });
        ("txn", steps.collect())
    }

    fn apply(&mut self, _: &str, argument: &Value) -> Option<Value> {
        let number = self.states.len();
        let is_chosen = number == 40;
        let mut steps = argument.as_array().unwrap().clone();
        let mut state = self.states.last().unwrap().clone();
        let old = &self.states[number.saturating_sub(11)];
        for step in &mut steps {
            let key = step[1].as_u64().unwrap() as usize;
            match step[0].as_str() {
                Some("r") => {
                    let right = &state[key];
                    let mut read = right.clone();
                    match self.mistake {
                        Mistake::Stale if is_chosen => read.clone_from(&old[key]),
                        Mistake::Reorder if is_chosen => read.reverse(),
                        Mistake::Invent if is_chosen => read.push(json!(-1)),
                        _ => {}
                    }
                    self.is_made |= read != *right;
                    step[2] = json!(read);
                }
                _ => {
                    let copies = match self.mistake {
                        Mistake::Lose if is_chosen => 0,
                        Mistake::Duplicate if is_chosen => 2,
                        _ => 1,
                    };
                    let is_undead = self.mistake == Mistake::Undead && is_chosen;
                    self.is_made |= copies != 1 || is_undead;
                    state[key].extend(std::iter::repeat_n(step[2].clone(), copies));
                }
            }
        }
        self.states.push(state);
        (self.mistake != Mistake::Undead || !is_chosen).then(|| json!(steps))
    }
}

/// The judgement, and whether the mistake was made.
fn judged(mistake: Mistake, unknown: usize, seed: u64) -> (Judgement, bool) {
    let states = vec![vec![Vec::new(); KEYS]];
    let mut store = Lists { mistake, states, appended: 0, is_made: false };
    let plan = Plan { clients: 5, operations: 80, unknown };
    let all: Value = (0..KEYS).map(|key| json!(["r", key, null])).collect();
    let history = run(&mut store, &plan, seed, &[("txn", all)]);
    (append(&history, Isolation::StrictSerializable), store.is_made)
}

#[test]
fn right_lists_have_no_contradiction() {
    for seed in 0..1000 {
        assert_valid(&judged(Mistake::None, [0, 8][seed % 2], seed as u64).0);
    }
}

#[test]
fn mistakes_are_found() {
    for (mistake, expected) in [
        (Mistake::Lose, &["lost", "internal"][..]),
        (Mistake::Duplicate, &["twice", "internal"]),
        (Mistake::Reorder, &["incompatible-order", "internal"]),
        (Mistake::Stale, &["G-single-realtime", "G-single", "G2", "G2-realtime", "internal"]),
        (Mistake::Undead, &["G1a"]),
        (Mistake::Invent, &["phantom", "internal"]),
    ] {
        let (mut made, mut missed) = (0, 0);
        for seed in 0..200 {
            let (judgement, is_made) = judged(mistake, 0, seed);
            let kinds = kinds(&judgement);
            made += usize::from(is_made);
            missed += usize::from(is_made && !expected.iter().any(|kind| kinds.contains(kind)));
            assert!(is_made || judgement.is_valid(), "{mistake:?}, {seed}: {judgement:#?}");
        }
        // A read may lack values of transactions that had not ended, and be right.
        let allowed = if mistake == Mistake::Stale { made / 4 } else { 0 };
        assert!(made > 80 && missed <= allowed, "{mistake:?}: {missed} of {made} missed");
    }
}

/// Returns whether there is an order in which transactions have the results they had: tries all. `strict`: each is
/// between its beginning and its end.
fn has_order(all: &[&Operation], states: &[Vec<Value>], happened: u32, strict: bool) -> bool {
    let open = (0..all.len()).filter(|number| happened >> number & 1 == 0);
    let open: Vec<usize> = open.collect();
    if open.iter().all(|number| !all[*number].is_ok()) {
        return true;
    }
    let is_first =
        |number: usize| !strict || !open.iter().any(|other| all[*other].is_before(all[number]));
    open.iter().copied().filter(|number| is_first(*number)).any(|number| {
        let mut states = states.to_vec();
        let mut is_possible = true;
        for step in all[number].value().as_array().unwrap() {
            let list = &mut states[step[1].as_u64().unwrap() as usize];
            match step[0].as_str() {
                Some("r") if all[number].is_ok() => is_possible &= step[2] == json!(list),
                Some("r") => {}
                _ => list.push(step[2].clone()),
            }
        }
        is_possible && has_order(all, &states, happened | 1 << number, strict)
    })
}

/// A store whose reads are often of an earlier state.
struct Careless(Lists, Random);

impl Store for Careless {
    fn next(&mut self, random: &mut Random) -> (&'static str, Value) {
        self.0.next(random)
    }

    fn apply(&mut self, f: &str, argument: &Value) -> Option<Value> {
        let states = self.0.states.clone();
        let mut result = self.0.apply(f, argument)?;
        for step in result.as_array_mut()?.iter_mut().filter(|step| step[0] == "r") {
            if self.1.one_in(3) {
                let old = self.1.below(states.len());
                step[2] = json!(states[old][step[1].as_u64()? as usize]);
            }
        }
        Some(result)
    }
}

#[test]
fn it_agrees_with_all_orders() {
    let (mut right, mut wrong, mut missed) = (0, 0, 0);
    for seed in 0..4000 {
        let states = vec![vec![Vec::new(); KEYS]];
        let lists = Lists { mistake: Mistake::None, states, appended: 0, is_made: false };
        let plan = Plan { clients: 3, operations: 5, unknown: [0, 5][seed as usize % 2] };
        let history = run(&mut Careless(lists, Random::new(seed)), &plan, seed, &[]);
        let all = history.operations().iter().filter(|one| one.outcome != Outcome::Fail);
        let all: Vec<_> = all.collect();
        if !all.iter().any(|one| one.is_ok()) {
            continue;
        }
        let empty = vec![Vec::new(); KEYS];
        for (level, strict) in
            [(Isolation::Serializable, false), (Isolation::StrictSerializable, true)]
        {
            let expected = has_order(&all, &empty, 0, strict);
            let found = kinds(&append(&history, level));
            // Below strict serializability what is lost may be read in the end.
            let is_wrong = found.iter().any(|kind| strict || *kind != "lost");
            assert!(!expected || !is_wrong, "{level:?} {found:?}\n{}", history.to_lines());
            right += usize::from(expected);
            wrong += usize::from(is_wrong);
            missed += usize::from(!expected && !is_wrong);
        }
    }
    // The place of a value that nobody has read is unknown.
    assert!(right > 1000 && wrong > 1000 && missed < wrong / 100, "{right} {wrong} {missed}");
}

/// The contradictions of a history at each level.
fn at_levels(text: &str) -> Vec<Vec<&'static str>> {
    LEVELS.iter().map(|level| kinds(&append(&history(text), *level))).collect()
}

/// Concurrent transactions that were done, `[steps]` each, or with `!` failed; then with `;` later ones.
fn transactions(groups: &str) -> String {
    let mut lines = String::new();
    let mut process = 0;
    for group in groups.split(';') {
        let all: Vec<_> = group.split('|').map(str::trim).collect();
        let kinds = [("invoke", false), ("end", true)];
        for (kind, is_end) in kinds {
            for (number, steps) in all.iter().enumerate() {
                let (steps, end) = match steps.strip_prefix('!') {
                    Some(steps) => (steps, "fail"),
                    None => (*steps, "ok"),
                };
                // `a x 1` and `r x 1 2`.
                let steps = steps.split(',').map(|step| {
                    let words: Vec<_> = step.split_whitespace().collect();
                    let mut values = words[2..].iter().map(|word| word.parse::<u64>().unwrap());
                    match (words[0], is_end) {
                        ("a", _) => json!(["append", words[1], values.next_back()]),
                        (_, true) => json!(["r", words[1], values.collect::<Vec<_>>()]),
                        (_, false) => json!(["r", words[1], null]),
                    }
                });
                let steps: Value = steps.collect();
                let kind = if is_end { end } else { kind };
                lines.push_str(&format!("{} {kind} txn {steps}\n", process + number));
            }
        }
        process += all.len();
    }
    lines
}

#[track_caller]
fn assert_levels(groups: &str, expected: [&[&str]; 5]) {
    assert_eq!(at_levels(&transactions(groups)), expected, "{groups}");
}

#[test]
fn anomalies_have_their_names_and_levels() {
    // Dirty write: x by the first and the second, y by the second and the first.
    let write = "a x 1, a y 1 | a x 2, a y 2 ; r x 1 2, r y 2 1";
    assert_levels(write, [&["G0"]; 5]);
    // Each reads the other's value.
    let circular = "a x 1, r y 1 | a y 1, r x 1";
    assert_levels(circular, [&[], &["G1c"], &["G1c"], &["G1c"], &["G1c"]]);
    // A failed transaction's value; one in the middle of a transaction.
    assert_levels("!a x 1 ; r x 1", [&[], &["G1a"], &["G1a"], &["G1a"], &["G1a"]]);
    let middle = "a x 1, a x 2 | r x 1 ; r x 1 2";
    let [none, found]: [&[&str]; 2] = [&[], &["G1b"]];
    let with_skew: &[&str] = &["G-single", "G1b"];
    assert_levels(middle, [none, found, with_skew, with_skew, with_skew]);
    // A read of x before and of y after a transaction: read skew.
    let skew = "a x 1, a y 1 | r x, r y 1 ; r x 1, r y 1";
    assert_levels(skew, [&[], &[], &["G-single"], &["G-single"], &["G-single"]]);
    // Write skew.
    let write_skew = "r x, a y 1 | r y, a x 1";
    assert_levels(write_skew, [&[], &[], &[], &["G2"], &["G2"]]);
    // Long fork: two reads see two writes in different orders.
    let fork = "a x 1 | a y 1 | r x 1, r y | r x, r y 1";
    let nonadjacent: &[&str] = &["G-nonadjacent"];
    assert_levels(fork, [&[], &[], nonadjacent, nonadjacent, nonadjacent]);
    // A later read of an earlier state, which later ones do not have.
    let stale = "a x 1 ; r x ; r x 1";
    assert_levels(stale, [&[], &[], &[], &[], &["G-single-realtime"]]);
    // A transaction that does not read its own value.
    let internal = "a x 1, r x ; r x 1";
    assert_levels(internal, [&[], &[], &["internal"], &["internal"], &["internal"]]);
    // Lost update.
    let update = "r x, a x 1 | r x, a x 2 ; r x 1 2";
    assert_levels(update, [&[], &[], &["G-single"], &["G-single"], &["G-single"]]);
}

#[test]
fn lists_alone_hold_contradictions() {
    let lost = "a x 1 ; r x";
    let strict: &[&str] = &["G-single-realtime", "lost"];
    assert_levels(lost, [&["lost"], &["lost"], &["lost"], &["lost"], strict]);
    assert_levels("a x 1 ; r x 1 1", [&["twice"]; 5]);
    assert_levels("a x 1 ; r x 1 3", [&["phantom"]; 5]);
    let orders = "a x 1 | a x 2 ; r x 1 2 ; r x 2 1";
    assert_levels(orders, [&["incompatible-order"]; 5]);
    let own = "a x 1, r x 1, a x 2, r x 1 2 ; r x 1 2, a x 3, r x 1 2 3";
    assert_levels(own, [&[]; 5]);
}

#[test]
fn sentences_name_the_transactions() {
    let text = transactions("a x 1, a y 1 | r x, r y 1 ; r x 1, r y 1");
    let judgement = append(&history(&text), Isolation::Serializable);
    let [cycle] = &judgement.contradictions[..] else { panic!("{judgement:?}") };
    let message = "transactions that are each before the next: \
                   1 did not read 1 in \"x\", which 0 appended (rw); \
                   1 read 1 in \"y\", which 0 appended (wr)";
    assert_eq!((cycle.message.as_str(), &cycle.operations[..]), (message, &[1, 0][..]));
}

#[test]
fn others_are_undecided() {
    let undecided = |text: &str| append(&history(text), Isolation::Serializable).undecided;
    assert_eq!(undecided("0 invoke add 1"), ["no transaction was done"]);
    let twice = undecided(&transactions("a x 1 ; a x 1"));
    assert_eq!(twice, ["1 was appended to \"x\" twice"]);
    let write = undecided("0 invoke txn [[\"w\",1,2]]\n0 ok txn [[\"w\",1,2]]");
    assert!(write[0].contains("a step [\"w\",1,2]"), "{write:?}");
    assert!(undecided("0 invoke txn 5")[0].contains("no list of steps"));
}

/// A transaction without a known outcome counts once somebody has read its value.
#[test]
fn values_that_were_read_are_committed() {
    let text = "0 invoke txn [[\"append\",\"x\",1],[\"append\",\"y\",1]]
        0 info txn [[\"append\",\"x\",1],[\"append\",\"y\",1]]
        1 invoke txn [[\"r\",\"x\",null],[\"r\",\"y\",null]]
        1 ok txn [[\"r\",\"x\",[1]],[\"r\",\"y\",[]]]\n";
    assert_valid(&append(&history(text), Isolation::StrictSerializable));
    let later = "1 invoke txn [[\"r\",\"y\",null]]\n1 ok txn [[\"r\",\"y\",[1]]]";
    let judgement = append(&history(&format!("{text}{later}")), Isolation::StrictSerializable);
    assert_eq!(kinds(&judgement), ["G-single"]);
}
