//! Histories from lines of JSON.

use proptest::prelude::*;
use serde_json::{json, Value};
use stasis_history::checkers::{
    append, bank, progress, queue, register, set, Isolation, Overdraft, Staleness,
};
use stasis_history::{History, Line, Outcome};

use crate::common::history;

fn reason(lines: &[&str]) -> String {
    History::from_lines(lines).unwrap_err().to_string()
}

#[test]
fn operations_have_a_beginning_and_an_end() {
    let read = history(
        "0 invoke write 1
         1 invoke read null
         1 ok read 1
         0 info write 1
         0 invoke cas [1,2]
         0 fail cas [1,2]
         2 invoke read null",
    );
    let all: Vec<_> = read.operations().iter().map(|one| (one.to_string(), one.outcome)).collect();
    let expected = [
        ("write 1 (index 0)", Outcome::Unknown),
        ("read 1 (index 1)", Outcome::Ok),
        ("cas [1,2] (index 4)", Outcome::Fail),
        ("read (index 6)", Outcome::Unknown),
    ];
    assert_eq!(all, expected.map(|(text, outcome)| (text.to_owned(), outcome)));
    let [write, read_, cas, last] = read.operations() else { panic!() };
    assert!(read_.is_before(cas) && !write.is_before(cas) && !read_.is_before(write));
    assert_eq!((last.end, last.done()), (None, usize::MAX));
}

#[test]
fn times_order_machines_that_report_late() {
    let line = |kind: &str, machine: &str, time: u64| {
        json!({"type": kind, "process": 0, "f": "w", "machine": machine, "time": time}).to_string()
    };
    let lines = [
        line("invoke", "b", 30),
        line("ok", "b", 40),
        line("invoke", "a", 10),
        line("ok", "a", 30),
        line("invoke", "a", 50),
    ];
    let read = History::from_lines(&lines).unwrap();
    let [first, second, third] = read.operations() else { panic!() };
    assert_eq!(first.machine.as_deref(), Some("a"));
    assert_eq!([first, second, third].map(|one| one.begin.index), [2, 0, 4]);
    // At the same time: they may be concurrent.
    assert!(!first.is_before(second) && first.is_before(third) && second.is_before(third));
}

#[test]
fn errors_name_the_line_and_the_reason() {
    let invoke = r#"{"type":"invoke","process":0,"f":"a"}"#;
    let end = r#"{"type":"ok","process":0,"f":"a"}"#;
    let wrong = [
        (&[invoke, "", invoke][..], "line 3: process 0 begins an operation during a (index 0)"),
        (&[end], "line 1: ok of process 0, which has begun no operation"),
        (&[invoke, end, end], "line 3: ok of process 0, which has begun no operation"),
        (&[invoke, r#"{"type":"ok","process":0,"f":"b"}"#], "line 2: ok b ends a (index 0)"),
        (
            &[r#"{"type":"invoke","process":[],"f":"a"}"#],
            "line 1: the process [] is no number and no word",
        ),
    ];
    for (lines, message) in wrong {
        assert_eq!(reason(lines), message);
    }
    for (line, part) in [
        ("ready", "expected value"),
        (r#"{"type":"done","process":0,"f":"a"}"#, "unknown variant `done`"),
        (r#"{"type":"ok","f":"a"}"#, "missing field `process`"),
    ] {
        let message = reason(&[invoke, line]);
        assert!(message.starts_with("line 2: ") && message.contains(part), "{message}");
    }
    let long = format!("{{\"type\":\"ok\",\"f\":\"{}\"", "a".repeat(stasis_history::MAX_LINE));
    assert!(reason(&[&long]).contains("more than 1048576"));
    let nemesis = r#"{"type":"info","process":"nemesis","f":"start"}"#;
    assert_eq!(History::from_lines([nemesis, nemesis]).unwrap(), History::default());
}

#[test]
fn lines_are_written_as_they_were_read() {
    let text = history(
        "0 invoke txn [[\"r\",1,null]]\n1 invoke a 1\n0 ok txn [[\"r\",1,[2]]]\n1 info a 1",
    );
    let lines = text.to_lines();
    assert_eq!(lines.lines().count(), 4);
    assert_eq!(History::from_lines(lines.lines()).unwrap(), text);
}

/// Values as checkers expect them, in any place.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (-1i64..3).prop_map(|one| json!(one)),
        "append|r|k|k 1|".prop_map(|one| json!(one)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let map = proptest::collection::btree_map("a|b", inner.clone(), 0..3);
        let list = proptest::collection::vec(inner, 0..4);
        prop_oneof![list.prop_map(|all| json!(all)), map.prop_map(|all| json!(all))]
    })
}

/// An operation: its kind, its client, its values, the line that ends it, and an answer.
fn operation() -> impl Strategy<Value = (&'static str, u8, Value, Value, &'static str, bool)> {
    let f = ["add", "read", "write", "cas", "get", "del", "enqueue", "dequeue", "drain", "txn"];
    let kind = prop::sample::select(&["ok", "fail", "info"][..]);
    (prop::sample::select(f.to_vec()), 0..3u8, value(), value(), kind, any::<bool>())
}

proptest! {
    #[test]
    fn no_history_panics(operations in proptest::collection::vec(operation(), 0..8)) {
        let mut lines = Vec::new();
        for (time, operation) in operations.iter().enumerate() {
            let (f, process, argument, result, kind, has_answer) = operation;
            let mut line = json!({"type": "invoke", "process": process, "f": f, "value": argument});
            line["time"] = json!(time);
            lines.push(line.to_string());
            (line["type"], line["value"]) = (json!(kind), result.clone());
            if *has_answer {
                line["answer"] = json!("1");
            }
            lines.push(line.to_string());
        }
        let history = History::from_lines(&lines).unwrap();
        for judgement in [
            set(&history, Staleness::Forbidden),
            register(&history),
            bank(&history, None, Overdraft::Forbidden),
            append(&history, Isolation::ReadCommitted),
            append(&history, Isolation::StrictSerializable),
            queue(&history),
            progress(&history, 1, 2, 3),
        ] {
            let mut places = judgement.contradictions.iter().flat_map(|one| &one.operations);
            prop_assert!(places.all(|place| *place < history.operations().len()));
        }
        let edn = History::from_edn(history.to_edn().as_bytes()).unwrap();
        prop_assert_eq!(edn.operations().len(), history.operations().len());
    }

    #[test]
    fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..60)) {
        _ = Line::of_output(&line);
        _ = History::from_lines([&line]);
    }
}
