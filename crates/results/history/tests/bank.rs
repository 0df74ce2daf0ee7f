//! Banks.

use serde_json::{json, Value};
use stasis_history::checkers::{bank, Overdraft};

use crate::common::{assert_valid, history, kinds, run, Plan, Random, Store};

struct Bank {
    balances: Vec<i64>,
    /// A read is between the two halves of a transfer.
    is_torn: bool,
    half: Option<(usize, i64)>,
}

impl Store for Bank {
    fn next(&mut self, random: &mut Random) -> (&'static str, Value) {
        match random.one_in(2) {
            true => ("read", Value::Null),
            false => {
                let [from, to, amount] = [0; 3].map(|_| random.below(self.balances.len()));
                ("transfer", json!({"from": from, "to": to, "amount": 1 + amount}))
            }
        }
    }

    fn apply(&mut self, f: &str, argument: &Value) -> Option<Value> {
        if f == "read" {
            let all = self.balances.iter().enumerate();
            return Some(all.map(|(place, one)| (place.to_string(), json!(one))).collect());
        }
        if let Some((to, amount)) = self.half.take() {
            self.balances[to] += amount;
        }
        let [from, to, amount] =
            ["from", "to", "amount"].map(|name| argument[name].as_i64().unwrap());
        let rest = self.balances[from as usize] - amount;
        if rest < 0 {
            return None;
        }
        self.balances[from as usize] = rest;
        match self.is_torn {
            true => self.half = Some((to as usize, amount)),
            false => self.balances[to as usize] += amount,
        }
        Some(argument.clone())
    }
}

fn judged(is_torn: bool, seed: u64) -> stasis_history::Judgement {
    let mut store = Bank { balances: vec![10; 4], is_torn, half: None };
    let plan = Plan { clients: 4, operations: 60, unknown: 9 };
    let history = run(&mut store, &plan, seed, &[("read", Value::Null)]);
    bank(&history, Some(40), Overdraft::Forbidden)
}

#[test]
fn a_right_bank_has_no_contradiction() {
    (0..1000).for_each(|seed| assert_valid(&judged(false, seed)));
}

#[test]
fn torn_transfers_are_found() {
    for seed in 0..200 {
        assert_eq!(kinds(&judged(true, seed)), ["wrong-total"], "{seed}");
    }
}

#[test]
fn balances_are_checked() {
    let text = "0 invoke read null
        0 ok read {\"a\":5,\"b\":5}
        0 invoke read null
        0 ok read {\"a\":-1,\"b\":11}
        0 invoke read null
        0 ok read {\"a\":10}
        0 invoke read null
        0 ok read {\"a\":10,\"b\":null}
        0 invoke read null
        0 ok read {\"a\":5,\"b\":6}";
    let judgement = bank(&history(text), None, Overdraft::Forbidden);
    let messages: Vec<_> =
        judgement.contradictions.iter().map(|one| (one.kind, one.message.as_str())).collect();
    assert_eq!(
        messages,
        [
            ("negative", "read {\"a\":-1,\"b\":11} (index 2) has -1 in account a"),
            ("missing", "read {\"a\":10} (index 4) has 1 of 2 accounts"),
            ("missing", "read {\"a\":10,\"b\":null} (index 6) has no balance of account b"),
            ("wrong-total", "read {\"a\":5,\"b\":6} (index 8) has 11 in all accounts, not 10"),
        ]
    );
    assert_eq!(
        kinds(&bank(&history(text), Some(11), Overdraft::Allowed)),
        ["missing", "wrong-total"]
    );
    let none = bank(&history("0 invoke read null"), None, Overdraft::Allowed);
    assert_eq!(none.undecided, ["no read of the balances was done"]);
    for value in ["1", "{\"a\":1.5}"] {
        let text = format!("0 invoke read null\n0 ok read {value}");
        assert!(!bank(&history(&text), None, Overdraft::Allowed).is_valid());
    }
}
