//! Queues.

use serde_json::{json, Value};
use stasis_history::checkers::queue;

use crate::common::{assert_valid, history, kinds, run, Plan, Random, Store};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    Lose,
    Duplicate,
    Invent,
}

struct Queue {
    mistake: Mistake,
    elements: Vec<Value>,
    enqueued: usize,
}

impl Store for Queue {
    fn next(&mut self, random: &mut Random) -> (&'static str, Value) {
        if random.one_in(2) {
            return ("dequeue", Value::Null);
        }
        self.enqueued += 1;
        ("enqueue", json!(self.enqueued))
    }

    fn apply(&mut self, f: &str, argument: &Value) -> Option<Value> {
        match f {
            "drain" => Some(json!(std::mem::take(&mut self.elements))),
            "dequeue" => (!self.elements.is_empty()).then(|| self.elements.remove(0)),
            _ => {
                let copies = match (argument.as_u64(), self.mistake) {
                    (Some(7), Mistake::Lose) => 0,
                    (Some(7), Mistake::Duplicate) => 2,
                    (Some(7), Mistake::Invent) => {
                        self.elements.push(json!("other"));
                        1
                    }
                    _ => 1,
                };
                self.elements.extend(std::iter::repeat_n(argument.clone(), copies));
                Some(argument.clone())
            }
        }
    }
}

fn judged(mistake: Mistake, unknown: usize, seed: u64) -> stasis_history::Judgement {
    let mut store = Queue { mistake, elements: Vec::new(), enqueued: 0 };
    let plan = Plan { clients: 4, operations: 60, unknown };
    queue(&run(&mut store, &plan, seed, &[("drain", Value::Null)]))
}

#[test]
fn a_right_queue_has_no_contradiction() {
    let mut undecided = 0;
    for seed in 0..1000 {
        assert_valid(&judged(Mistake::None, 0, seed));
        let judgement = judged(Mistake::None, 9, seed);
        assert_eq!(kinds(&judgement), [""; 0], "{seed}: {judgement:#?}");
        undecided += usize::from(!judgement.undecided.is_empty());
    }
    // Elements that somebody without an answer has dequeued.
    assert!(undecided > 100 && undecided < 1000, "{undecided}");
}

#[test]
fn mistakes_are_found() {
    for (mistake, kind) in
        [(Mistake::Lose, "lost"), (Mistake::Duplicate, "twice"), (Mistake::Invent, "phantom")]
    {
        for seed in 0..200 {
            assert_eq!(kinds(&judged(mistake, 0, seed)), [kind], "{mistake:?}, seed {seed}");
        }
    }
}

#[test]
fn a_dequeue_that_finds_nothing_is_a_drain() {
    let begin = "0 invoke enqueue 1\n0 ok enqueue 1\n0 invoke dequeue null\n";
    let judgement = queue(&history(&format!("{begin}0 ok dequeue null")));
    let [lost] = &judgement.contradictions[..] else { panic!("{judgement:?}") };
    let text = "enqueue 1 (index 0) is lost: it was acknowledged, and never dequeued";
    assert_eq!(
        (lost.kind, lost.message.as_str(), &lost.operations[..]),
        ("lost", text, &[0, 1][..])
    );
    assert_valid(&queue(&history(&format!("{begin}0 ok dequeue 1"))));
    let judgement = queue(&history(&format!("{begin}0 info dequeue null")));
    assert_eq!(judgement.undecided, ["no drain began after 1 acknowledged elements"]);
    // One dequeue cannot have taken two.
    let drain = "0 invoke enqueue 2\n0 ok enqueue 2\n0 invoke drain null\n0 ok drain []";
    let judgement = queue(&history(&format!("{begin}0 info dequeue null\n{drain}")));
    assert_eq!(judgement.contradictions.len(), 2, "{judgement:?}");
}

#[test]
fn an_element_is_not_dequeued_before_it_was_enqueued() {
    let text = "0 invoke dequeue null
        0 ok dequeue 1
        0 invoke enqueue 1
        0 ok enqueue 1
        0 invoke drain null
        0 ok drain []";
    assert_eq!(kinds(&queue(&history(text))), ["phantom"]);
    let text = "0 invoke enqueue 1\n0 fail enqueue 1\n0 invoke dequeue null\n0 ok dequeue 1";
    assert_eq!(kinds(&queue(&history(text))), ["phantom"]);
}
