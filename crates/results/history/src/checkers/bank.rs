//! Banks: transfers keep the sum of all balances.

use serde_json::Value;

use crate::{History, Judgement};

/// Balances below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdraft {
    /// A balance may be negative.
    Allowed,
    /// No balance may be.
    Forbidden,
}

/// Checks operations `read {ACCOUNT: BALANCE}`, each of which has all accounts.
///
/// * `wrong-total`: the sum of the balances is not `total`, or where that is not given, not the sum of the first read.
/// * `negative`, if forbidden: a balance is below zero.
/// * `missing`: a balance is null, or a read has fewer accounts than the first one.
///
/// Source: Jepsen's test `bank` (`wrong-total`, `negative-value`, `nil-balance`).
pub fn bank(history: &History, total: Option<i64>, overdraft: Overdraft) -> Judgement {
    let mut judgement = Judgement::default();
    let mut expected = total.map(i128::from);
    let mut first: Option<(usize, usize)> = None;
    for (place, read) in history.of_kinds(&["read"]).filter(|(_, one)| one.is_ok()) {
        let Value::Object(accounts) = read.value() else {
            judgement.undecide(format!("{read} has no balances of accounts"));
            continue;
        };
        let (beginning, count) = *first.get_or_insert((place, accounts.len()));
        if accounts.len() < count {
            let text = format!("{read} has {} of {count} accounts", accounts.len());
            judgement.contradict("missing", [beginning, place], text);
            continue;
        }
        let missing = accounts.iter().find(|(_, balance)| balance.is_null());
        if let Some((account, _)) = missing {
            let text = format!("{read} has no balance of account {account}");
            judgement.contradict("missing", [place], text);
            continue;
        }
        let balances: Option<Vec<_>> = accounts.values().map(Value::as_i64).collect();
        let Some(balances) = balances else {
            judgement.undecide(format!("{read} has a balance that is no whole number"));
            continue;
        };
        let sum: i128 = balances.iter().copied().map(i128::from).sum();
        let expected = *expected.get_or_insert(sum);
        if sum != expected {
            let text = format!("{read} has {sum} in all accounts, not {expected}");
            judgement.contradict("wrong-total", [place], text);
        }
        let overdrawn = accounts.iter().zip(&balances).find(|(_, balance)| **balance < 0);
        if let (Overdraft::Forbidden, Some(((account, _), balance))) = (overdraft, overdrawn) {
            let text = format!("{read} has {balance} in account {account}");
            judgement.contradict("negative", [place], text);
        }
    }
    if first.is_none() {
        judgement.undecide("no read of the balances was done".to_owned());
    }
    judgement
}
