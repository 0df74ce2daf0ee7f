//! Registers: each key has one value, and operations on it happen one after another.

mod access;
mod order;
mod overwritten;

use std::collections::BTreeMap;

use crate::{History, Judgement, Outcome};

use access::{Access, Values};

/// Checks that each key's operations are linearizable: that there is an order of them, each between its beginning and
/// its end, in which each read has the value that was written last. One without a known outcome is anywhere after its
/// beginning in that order, or not in it. A key has no value (null) at first.
///
/// | operation | value |
/// | --- | --- |
/// | `read`, `get` | `[key, value]`, or `[key]` with an answer |
/// | `write`, `set`, `put` | `[key, value]` |
/// | `delete`, `del` | `[key]`: writes null |
/// | `cas` | `[key, [old, new]]`; one that found another value has failed |
///
/// Operations of a history of one register have no key: `value`, `[old, new]`. Those of `stasis-client` are read too: a
/// text is `KEY VALUE`, and an answer the value. A number equals its text.
///
/// * `phantom`: a value was read that nobody had tried to write before the read's end, or only in vain.
/// * `lost`: a read has an older value than one that was acknowledged before the read began, though no write of the
///   value it has was under way since; nobody reads the acknowledged one afterwards.
/// * `stale`: the same, but the acknowledged one is read afterwards.
/// * `not-linearizable`: the first operation that no order explains, on a key without any of the others.
///
/// Undecided is a key with more than 8 operations at once, or one whose search takes too many steps.
///
/// Source: J. M. Wing, C. Gong, "Testing and verifying concurrent objects" (1993); G. Lowe, "Testing for
/// linearizability" (2017): its search just in time with memoisation, as in Knossos's `linear`; a key at a time: A.
/// Horn, D. Kroening, "Faster linearizability checking via P-compositionality" (2015), as in Porcupine.
pub fn register(history: &History) -> Judgement {
    let mut judgement = Judgement::default();
    let mut values = Values::default();
    let mut keys: BTreeMap<String, Vec<Access>> = BTreeMap::new();
    for (place, one) in (0..).zip(history.operations()) {
        match Access::read(place, one, &mut values) {
            Ok(Some((key, access))) => keys.entry(key).or_default().push(access),
            Err(reason) if one.outcome != Outcome::Fail => {
                judgement.undecide(format!("{one}: {reason}"));
            }
            _ => {}
        }
    }
    for (key, all) in &keys {
        let known = judgement.contradictions.len() + judgement.omitted;
        overwritten::check(&mut judgement, history, &values, all);
        if judgement.contradictions.len() + judgement.omitted == known {
            let all: Vec<_> = all.iter().filter(|one| !one.has_failed).copied().collect();
            order::check(&mut judgement, history, &values, key, &all);
        }
    }
    judgement
}
