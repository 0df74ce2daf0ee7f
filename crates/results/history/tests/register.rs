//! Registers.

use serde_json::{json, Value};
use stasis_history::checkers::register;
use stasis_history::{History, Judgement, Operation, Outcome};

use crate::common::{assert_valid, history, kinds, run, Plan, Random, Store};

struct Registers {
    values: Vec<Value>,
    /// Values are drawn below this; 0 for one of its own for each write.
    choice: usize,
    writes: usize,
    /// Reads of key 0 with an odd number of writes before have the value before.
    is_stale: bool,
    /// Writes of this number are acknowledged and not done.
    is_lossy: bool,
    before: Value,
}

impl Registers {
    fn new(keys: usize, choice: usize) -> Self {
        let (values, before) = (vec![Value::Null; keys], Value::Null);
        Self { values, choice, writes: 0, is_stale: false, is_lossy: false, before }
    }

    fn value(&mut self, random: &mut Random) -> usize {
        self.writes += 1;
        if self.choice == 0 {
            self.writes
        } else {
            random.below(self.choice)
        }
    }
}

impl Store for Registers {
    fn next(&mut self, random: &mut Random) -> (&'static str, Value) {
        let key = random.below(self.values.len());
        match random.below(4) {
            0 => ("write", json!([key, self.value(random)])),
            1 => {
                let old = match self.choice {
                    0 => self.values[key].clone(),
                    choice => json!(random.below(choice)),
                };
                ("cas", json!([key, [old, self.value(random)]]))
            }
            _ => ("read", json!([key, null])),
        }
    }

    fn apply(&mut self, f: &str, argument: &Value) -> Option<Value> {
        let key = argument[0].as_u64().unwrap() as usize;
        let now = self.values[key].clone();
        match f {
            "read" if self.is_stale => return Some(json!([key, self.before])),
            "read" => return Some(json!([key, now])),
            "write" if self.is_lossy => {}
            "write" => (self.before, self.values[key]) = (now, argument[1].clone()),
            _ if now != argument[1][0] => return None,
            _ => self.values[key] = argument[1][1].clone(),
        }
        Some(argument.clone())
    }
}

#[test]
fn right_registers_have_no_contradiction() {
    for seed in 0..1500 {
        let (keys, choice) = [(1, 3), (3, 0), (1, 0), (2, 2)][seed % 4];
        let plan = Plan { clients: 5, operations: 60, unknown: [0, 6, 15][seed % 3] };
        let history = run(&mut Registers::new(keys, choice), &plan, seed as u64, &[]);
        let judgement = register(&history);
        assert!(judgement.is_valid(), "{seed}: {judgement:#?}\n{}", history.to_lines());
    }
}

/// The kinds in a history that ends with a write of 1, of 2, and a read.
fn after_a_mistake(is_lossy: bool, is_stale: bool, seed: u64) -> Judgement {
    let mut store = Registers::new(1, 0);
    let plan = Plan { clients: 4, operations: 30, unknown: 0 };
    struct Late<'a>(&'a mut Registers, [bool; 2], usize);
    impl Store for Late<'_> {
        fn next(&mut self, random: &mut Random) -> (&'static str, Value) {
            self.0.next(random)
        }
        fn apply(&mut self, f: &str, argument: &Value) -> Option<Value> {
            // The mistake is made by the last but one, and the last one if it is a read.
            self.2 += usize::from(argument[1] == json!(1001));
            let [is_lossy, is_stale] = self.1.map(|is_wrong| is_wrong && self.2 > 0);
            (self.0.is_lossy, self.0.is_stale) = (is_lossy, is_stale);
            self.0.apply(f, argument)
        }
    }
    let last =
        [("write", json!([0, 1000])), ("write", json!([0, 1001])), ("read", json!([0, null]))];
    let history = run(&mut Late(&mut store, [is_lossy, is_stale], 0), &plan, seed, &last);
    register(&history)
}

#[test]
fn mistakes_are_found() {
    for seed in 0..200 {
        for (is_lossy, is_stale) in [(true, false), (false, true)] {
            let judgement = after_a_mistake(is_lossy, is_stale, seed);
            assert_eq!(kinds(&judgement), ["lost"], "{judgement:?}");
            let message = &judgement.contradictions[0].message;
            assert!(message.starts_with("write [0,1001] (index"), "{message}");
        }
        assert_valid(&after_a_mistake(false, false, seed));
    }
}

/// Returns whether there is an order of one register's operations: tries all.
fn has_order(all: &[&Operation], state: &Value, happened: u32) -> bool {
    let open = (0..all.len()).filter(|number| happened >> number & 1 == 0);
    let open: Vec<usize> = open.collect();
    if open.iter().all(|number| !all[*number].is_ok()) {
        return true;
    }
    let is_first = |number: usize| !open.iter().any(|other| all[*other].is_before(all[number]));
    open.iter().copied().filter(|number| is_first(*number)).any(|number| {
        let one = all[number];
        let after = match one.f.as_str() {
            "read" if !one.is_ok() => Some(state.clone()),
            "read" => (one.value() == state).then(|| state.clone()),
            "write" => Some(one.value().clone()),
            _ => (one.value()[0] == *state).then(|| one.value()[1].clone()),
        };
        after.is_some_and(|after| has_order(all, &after, happened | 1 << number))
    })
}

/// A history of arbitrary operations, beginnings, ends and results.
fn arbitrary(random: &mut Random) -> History {
    let (count, choice) = (2 + random.below(6), 2 + random.below(4));
    let mut open: Vec<(usize, &str, Value)> = Vec::new();
    let (mut lines, mut begun) = (Vec::new(), 0);
    while begun < count || !open.is_empty() {
        let mut line = |kind: &str, process: usize, f: &str, value: &Value| {
            let line = json!({"type": kind, "process": process, "f": f, "value": value});
            lines.push(line.to_string());
        };
        if begun < count && (open.is_empty() || random.one_in(2)) {
            let [value, other] = [0; 2].map(|_| json!(random.below(choice)));
            let (f, value) = match random.below(5) {
                0 | 1 => ("write", value),
                2 => ("cas", json!([value, other])),
                _ => ("read", Value::Null),
            };
            line("invoke", begun, f, &value);
            open.push((begun, f, value));
            begun += 1;
        } else {
            let (process, f, value) = open.swap_remove(random.below(open.len()));
            let kind = ["ok", "ok", "ok", "info", "fail"][random.below(5)];
            let found = random.below(choice + 1);
            let found = if found == choice { Value::Null } else { json!(found) };
            line(kind, process, f, if f == "read" { &found } else { &value });
        }
    }
    History::from_lines(&lines).unwrap()
}

#[test]
fn it_agrees_with_all_orders() {
    let (mut right, mut wrong) = (0, 0);
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let history = arbitrary(&mut random);
        let all = history.operations().iter().filter(|one| one.outcome != Outcome::Fail);
        let expected = has_order(&all.collect::<Vec<_>>(), &Value::Null, 0);
        let judgement = register(&history);
        assert_eq!(judgement.is_valid(), expected, "{judgement:#?}\n{}", history.to_lines());
        assert!(judgement.undecided.is_empty());
        *if expected { &mut right } else { &mut wrong } += 1;
    }
    assert!(right > 2000 && wrong > 2000, "{right} {wrong}");
}

#[track_caller]
fn assert_found(text: &str, expected: &[(&str, &str)]) {
    let judgement = register(&history(text));
    let found = judgement.contradictions.iter().map(|one| (one.kind, one.message.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn sentences_name_the_operations() {
    let begin = "0 invoke write [\"k\",1]\n0 ok write [\"k\",1]
        0 invoke write [\"k\",2]\n0 ok write [\"k\",2]
        0 invoke get [\"k\",null]\n0 ok get [\"k\",1]\n";
    let lost = "write [\"k\",2] (index 2) is lost: get [\"k\",1] (index 4) found 1, \
                which it had overwritten, and nobody finds it later";
    assert_found(begin, &[("lost", lost)]);
    let stale = "get [\"k\",1] (index 4) found 1, which write [\"k\",2] (index 2) had overwritten \
                 and get [\"k\",2] (index 6) found";
    assert_found(&format!("{begin}0 invoke get [\"k\"]\n0 ok get [\"k\",2]"), &[("stale", stale)]);
    let phantom =
        "read [\"k\",7] (index 0) found 7, but write [\"k\",7] (index 2) failed, or began later";
    let text = "0 invoke read [\"k\"]\n0 ok read [\"k\",7]
        0 invoke write [\"k\",7]\n0 ok write [\"k\",7]";
    assert_found(text, &[("phantom", phantom)]);
    let text = "0 invoke write [\"k\",1]\n1 invoke write [\"k\",2]
        0 ok write [\"k\",1]\n1 ok write [\"k\",2]
        0 invoke read [\"k\"]\n0 ok read [\"k\",1]
        0 invoke cas [\"k\",[2,3]]\n0 ok cas [\"k\",[2,3]]";
    let order = "no order of the operations on key k explains cas [\"k\",[2,3]] (index 6), \
                 which could have found 1";
    assert_found(text, &[("not-linearizable", order)]);
}

#[test]
fn lines_of_the_client_are_read() {
    let line = |kind: &str, f: &str, value: Value, answer: &str| {
        json!({"type": kind, "process": 0, "f": f, "value": value, "answer": answer}).to_string()
    };
    let both = |f: &str, value: Value, answer: &str| {
        [line("invoke", f, value.clone(), ""), line("ok", f, value, answer)]
    };
    for (set, get) in [(json!(["key1", 5]), json!(["key1"])), (json!("/key1 5"), json!("/key1"))] {
        let lines = |answer: &str| {
            let all = [
                both("get", get.clone(), "(nil)"),
                both("set", set.clone(), "OK"),
                both("get", get.clone(), answer),
            ];
            register(&History::from_lines(all.concat()).unwrap())
        };
        assert_valid(&lines("5"));
        assert_eq!(kinds(&lines("(nil)")), ["lost"]);
        assert_eq!(kinds(&lines("6")), ["phantom"]);
    }
}

#[test]
fn others_are_undecided() {
    let clients: Vec<_> = (0..9).map(|one| format!("{one} invoke write {one}\n")).collect();
    let ends: Vec<_> = (0..9).map(|one| format!("{one} ok write {one}\n")).collect();
    let many = register(&history(&[&clients[..8], &ends[..8]].concat().concat()));
    assert_valid(&many);
    let many = register(&history(&[clients, ends].concat().concat()));
    assert_eq!(many.undecided, ["the register: more than 8 operations at once"]);
    let odd = register(&history("0 invoke set [1,2,3]"));
    assert_eq!(odd.undecided, ["set [1,2,3] (index 0): an array that is no key with its value"]);
    assert_valid(&register(&history(
        "0 invoke set [1,2,3]\n0 fail set [1,2,3]\n1 invoke incr [1]",
    )));
}

/// Many operations without a known outcome, of values that are read until the end.
#[test]
fn operations_without_an_outcome_are_bounded() {
    let mut lines = String::new();
    for one in 0..100 {
        lines.push_str(&format!("{one} invoke write {}\n", one % 50));
    }
    for one in 0..50 {
        lines.push_str(&format!("200 invoke read null\n200 ok read {one}\n"));
    }
    let judgement = register(&history(&lines));
    assert!(judgement.contradictions.is_empty(), "{judgement:?}");
    assert_eq!(judgement.undecided.len(), 1, "{judgement:?}");
}

/// 1,000 operations of 8 clients on one key, of few values, so that nothing but the search decides.
#[test]
fn a_long_history_is_searched() {
    for unknown in [0, 100] {
        for seed in 0..3 {
            let plan = Plan { clients: 8, operations: 1000, unknown };
            let history = run(&mut Registers::new(1, 5), &plan, seed, &[]);
            assert_valid(&register(&history));
        }
    }
}
