//! Progress: after faults are healed, operations are done again.

use crate::{History, Judgement, Operation};

/// Checks that an operation ends `ok` within `within` (ns) after `healed` (ns), when the last fault was over. The run
/// ended at `end` (ns).
///
/// * `stuck`: none did, though operations were invoked meanwhile.
///
/// It is undecided if none did and none was invoked, because the clients gave up, or if the run ended before.
///
/// Source: the checkers of Maelstrom and Jepsen for availability ask for a share of operations; a system that
/// recovers has at least one.
pub fn progress(history: &History, healed: u64, within: u64, end: u64) -> Judgement {
    let mut judgement = Judgement::default();
    let limit = healed.saturating_add(within);
    let is_inside = |time: Option<u64>| time.is_some_and(|time| time >= healed && time <= limit);
    let all = history.operations();
    if all.iter().any(|one| one.begin.time.is_none()) {
        judgement.undecide("operations have no time".to_owned());
        return judgement;
    }
    let is_done = all.iter().any(|one| one.is_ok() && is_inside(one.end.and_then(|end| end.time)));
    if is_done {
        return judgement;
    }
    let invoked = (0..).zip(all).filter(|(_, one)| is_inside(one.begin.time));
    let invoked: Vec<usize> = invoked.map(|(place, _)| place).collect();
    let [from, length] = [healed, within].map(|ns| ns as f64 / 1e9);
    let Some(first) = invoked.first() else {
        let is_open =
            |one: &&Operation| one.end.and_then(|end| end.time).is_none_or(|time| time > limit);
        let text = match all.iter().filter(is_open).count() {
            0 => "the clients gave up".to_owned(),
            open => format!("{open} operations from before are still under way"),
        };
        judgement.undecide(format!("{text}: nothing was invoked in {length} s from {from} s on"));
        return judgement;
    };
    if end < limit {
        judgement.undecide(format!("the run ended before {length} s from {from} s on were over"));
        return judgement;
    }
    let text = format!(
        "nothing was done in {length} s from {from} s on, though {} operations were \
         invoked, the first of them {}",
        invoked.len(),
        all[*first]
    );
    judgement.contradict("stuck", invoked, text);
    judgement
}
