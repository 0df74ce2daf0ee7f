//! Histories in Jepsen's EDN.

use proptest::prelude::*;
use serde_json::json;
use stasis_history::History;

#[test]
fn a_history_of_jepsen_is_read() {
    let text = br#"
        ; a register, a bank and a transaction
        {:type :invoke, :process 0, :f :cas, :value [1 2], :time 10, :index 0, :error nil}
        {:type :info, :process :nemesis, :f :start, :value nil, :time 11, :index 1}
        #jepsen.history.Op{:index 2 :time 12 :type :invoke :process 1 :f :read :value nil}
        {:type :fail, :process 0, :f :cas, :value [1 2], :time 13, :index 3,
         :error [:timeout "a\n\"b\u0041"]}
        {:type :ok, :process 1, :f :read, :value {0 -10, :a 1.5, "b" true}, :time 14, :index 4}
        #_{:a b} {:type :invoke :process 1 :f :txn :value [[:append 1 #{2}] (:r x \c)]
                  :time 15 :index 5}
    "#;
    let read = History::from_edn(text).unwrap();
    let [cas, bank, txn] = read.operations() else { panic!("{read:?}") };
    assert_eq!((cas.to_string(), cas.begin.time), ("cas [1,2] (index 0)".to_owned(), Some(10)));
    assert_eq!(bank.result, json!({"0": -10, "a": 1.5, "b": true}));
    assert_eq!(txn.argument, json!([["append", 1, [2]], ["r", "x", "c"]]));
    let vector = [b"[", &text[..], b"]"].concat();
    assert_eq!(History::from_edn(&vector).unwrap(), read);
    let written = read.to_edn();
    assert!(written.contains("[[:append 1 [2]] [:r \"x\" \"c\"]]"), "{written}");
    assert!(written.contains("{0 -10, "), "{written}");
    assert_eq!(History::from_edn(written.as_bytes()).unwrap(), read);
}

#[test]
fn errors_name_the_line_and_the_reason() {
    let deep = format!("{{:a {}", "[".repeat(100_000));
    let tags = format!("{{:a {}", "#a ".repeat(100_000));
    let discards = "#_".repeat(100_000);
    let long = format!("{{:type :ok :f \"{}\"}}", "ä".repeat(stasis_history::MAX_LINE));
    for (text, message) in [
        ("\n\n{:type :invoke :process 0", "line 3: a value has no end"),
        ("{:type :invoke :process 0}", "line 1: missing field `f`"),
        ("\n{:type :done :process 0 :f :a}", "line 2: unknown variant `done`"),
        ("[{:type :invoke :process 0 :f :a}", "line 1: the vector of operations has no end"),
        ("[]{}", "line 1: text behind the history"),
        ("5", "line 1: no map"),
        ("{:type :invoke :process 0 :f :a}[]", "line 1: no map"),
        ("{:a}", "line 1: a map has a key"),
        ("{:a 1/2 }", "line 1: 1/2 is no number"),
        ("{:a 99999999999999999999}", "line 1: 99999999999999999999 is no number"),
        ("{:a \"\\q\"}", "line 1: an unknown escape"),
        ("{:a \"b}", "line 1: a string has no end"),
        ("{:a \\abc}", "line 1: no character"),
        ("{:a ]}", "line 1: a ] without"),
        (&deep, "line 1: more than 64 collections"),
        (&tags, "line 1: more than 64 collections"),
        (&discards, "line 1: more than 64 collections"),
        (&long, "line 1: an operation of more than"),
    ] {
        let error = History::from_edn(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}: {message}");
    }
    let error = History::from_edn(b"\n{:a \xff}").unwrap_err();
    assert_eq!((error.line, error.reason.as_str()), (2, "no UTF-8"));
    for empty in ["", " , ; nothing", "[ ]", "()\n"] {
        assert_eq!(History::from_edn(empty.as_bytes()).unwrap(), History::default());
    }
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|one| json!(one)),
        any::<i64>().prop_map(|one| json!(one)),
        any::<f64>().prop_map(|one| json!(one)),
        "\\PC{0,6}|[\n\"\\\\]*".prop_map(|one| json!(one)),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4).prop_map(|all| json!(all));
        let map = proptest::collection::btree_map("[a-z ]{0,4}|[0-9]{1,3}", inner, 0..4);
        let map = map
            .prop_filter("keys", |map| map.keys().all(|key| !key.starts_with('0') || key == "0"));
        prop_oneof![list, map.prop_map(|all| json!(all))]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(value in value(), f in "[a-z-]{1,5}|txn| ?\"", at in any::<u64>()) {
        let line = json!({"type": "invoke", "process": "a b", "f": f, "value": value, "time": at});
        let history = History::from_lines([line.to_string()]).unwrap();
        prop_assert_eq!(History::from_edn(history.to_edn().as_bytes()).unwrap(), history);
    }

    #[test]
    fn no_text_panics(text in "[\\[\\](){}#_:;,a0\"\\\\ \n-]{0,40}") {
        _ = History::from_edn(text.as_bytes());
    }
}
