//! Sets.

use serde_json::{json, Value};
use stasis_history::checkers::{set, Staleness};

use crate::common::{assert_valid, history, kinds, run, Plan, Random, Store};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Every tenth addition is acknowledged and not done.
    Lose,
    /// A read has an element twice.
    Duplicate,
    /// A read lacks an element that the one before had.
    Stale,
    /// A read has an element that nobody added.
    Invent,
    /// An addition fails, but is done.
    Undead,
}

struct Set {
    mistake: Mistake,
    elements: Vec<Value>,
    added: usize,
    reads: usize,
}

impl Store for Set {
    fn next(&mut self, random: &mut Random) -> (&'static str, Value) {
        if random.one_in(4) {
            return ("read", Value::Null);
        }
        self.added += 1;
        ("add", json!(self.added))
    }

    fn apply(&mut self, f: &str, argument: &Value) -> Option<Value> {
        if f == "add" {
            let is_chosen = argument.as_u64() == Some(10);
            if !(is_chosen && self.mistake == Mistake::Lose) {
                self.elements.push(argument.clone());
            }
            return (!(is_chosen && self.mistake == Mistake::Undead)).then(|| argument.clone());
        }
        self.reads += 1;
        let mut read = self.elements.clone();
        match self.mistake {
            Mistake::Duplicate if self.reads == 5 => read.extend(self.elements.first().cloned()),
            Mistake::Stale if self.reads == 5 && !read.is_empty() => drop(read.remove(0)),
            Mistake::Invent if self.reads == 5 => read.push(json!(-1)),
            _ => {}
        }
        Some(json!(read))
    }
}

fn judged(mistake: Mistake, seed: u64) -> (usize, stasis_history::Judgement) {
    let unknown = if mistake == Mistake::None { 9 } else { 0 };
    let plan = Plan { clients: 5, operations: 60, unknown };
    let mut store = Set { mistake, elements: Vec::new(), added: 0, reads: 0 };
    let history = run(&mut store, &plan, seed, &[("read", Value::Null)]);
    (store.reads, set(&history, Staleness::Forbidden))
}

#[test]
fn a_right_set_has_no_contradiction() {
    for seed in 0..1000 {
        assert_valid(&judged(Mistake::None, seed).1);
    }
}

#[test]
fn mistakes_are_found() {
    for (mistake, kind) in [
        (Mistake::Lose, "lost"),
        (Mistake::Duplicate, "twice"),
        (Mistake::Stale, "stale"),
        (Mistake::Invent, "phantom"),
        (Mistake::Undead, "phantom"),
    ] {
        for seed in 0..200 {
            let (reads, judgement) = judged(mistake, seed);
            // The last read of all has nothing behind it, and a mistake in it may be another one.
            if reads > 5 || matches!(mistake, Mistake::Lose | Mistake::Undead) {
                assert_eq!(kinds(&judgement), [kind], "{mistake:?}, seed {seed}: {judgement:#?}");
            }
        }
    }
}

#[test]
fn sentences_name_the_operations() {
    let text = "0 invoke add 5
        0 ok add 5
        1 invoke add 6
        0 invoke read null
        0 ok read [6,6,7]
        1 info add 6
        0 invoke read null
        0 ok read []";
    let judgement = set(&history(text), Staleness::Allowed);
    let found: Vec<_> = judgement
        .contradictions
        .iter()
        .map(|one| (one.kind, one.message.as_str(), &one.operations[..]))
        .collect();
    assert_eq!(
        found,
        [
            ("twice", "read [6,6,7] (index 3) has 6 more than once", &[2][..]),
            ("phantom", "read [6,6,7] (index 3) has 7, which nobody has tried to add", &[2]),
            (
                "lost",
                "5 is lost: add 5 (index 0) had it, \
                 read [6,6,7] (index 3) and all later reads lack it",
                &[0, 2]
            ),
            (
                "lost",
                "6 is lost: read [6,6,7] (index 3) had it, \
                 read [] (index 6) and all later reads lack it",
                &[2, 3]
            ),
        ]
    );
}

#[test]
fn reads_may_be_stale_if_allowed() {
    let text = "0 invoke add 5
        0 ok add 5
        0 invoke read null
        0 ok read []
        0 invoke read null
        0 ok read [5]";
    assert_valid(&set(&history(text), Staleness::Allowed));
    assert_eq!(kinds(&set(&history(text), Staleness::Forbidden)), ["stale"]);
}

#[test]
fn a_read_that_ended_before_cannot_have_an_element() {
    let text = "0 invoke read null
        0 ok read [5]
        0 invoke add 5
        0 ok add 5
        0 invoke read null
        0 ok read [5]";
    assert_eq!(kinds(&set(&history(text), Staleness::Allowed)), ["phantom"]);
}

#[test]
fn additions_without_a_read_are_undecided() {
    let judgement = set(&history("0 invoke add 5\n0 ok add 5"), Staleness::Allowed);
    assert_eq!(judgement.undecided, ["no read began after 1 acknowledged additions"]);
    let judgement = set(&history("0 invoke read null\n0 ok read 5"), Staleness::Allowed);
    assert_eq!(judgement.undecided, ["read 5 (index 0) has no list of elements"]);
    assert_valid(&set(&history("0 invoke add 5\n0 fail add 5"), Staleness::Allowed));
}
