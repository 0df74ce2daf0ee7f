//! The kind of model in `docs/guides/extending.md` is registered here as the page says, for tests.

use serde::Deserialize;
use stasis_block::clock::MILLISECOND;
use stasis_block::{Command, Operation};

use crate::spec::{BuildContext, ModelSpec};

const MIB: u64 = 1 << 20;

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Drive {
    model: ModelSpec,
}

fn read(model: &str) -> Result<ModelSpec, String> {
    let drive: Result<Drive, _> = toml::from_str(&format!("model = {model}"));
    drive.map(|drive| drive.model).map_err(|error| error.to_string())
}

#[test]
fn the_page_shows_the_file_and_the_lines() {
    let page = include_str!("../../../../../docs/guides/extending.md");
    let code = include_str!("tape.rs");
    assert!(page.contains(&format!("```rust\n{code}```")), "tape.rs is not as in the page");
    let registered = include_str!("mod.rs");
    for line in ["mod tape;", "Registered::of::<tape::TapeSpec>(),"] {
        assert!(page.contains(line), "{line}");
        let (before, _) = registered.split_once(line).unwrap();
        assert!(before.trim_end().ends_with("#[cfg(test)]"), "{line}");
    }
}

#[test]
fn a_kind_of_ones_own_is_a_model_like_any_other() {
    let spec = read(r#"{ kind = "tape", wind = "1ms", label = "mine" }"#).unwrap();
    let mut drive = spec.build(&BuildContext { seed: 1, capacity: 1 << 30, path: 0 }).unwrap();
    let command = |offset| Command::new(Operation::Read, offset, MIB);
    drive.submit(0, 0, &command(0));
    drive.submit(0, 1, &command(11 * MIB));
    let mut done = Vec::new();
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut done);
    }
    let times: Vec<_> = done.iter().map(|completion| completion.at / MILLISECOND).collect();
    assert_eq!(times, [1, 12], "the second one winds past 10 MiB and reads one");
    let table = serde_json::to_value(&spec).unwrap();
    assert_eq!((&table["kind"], &table["wind"]), (&"tape".into(), &"1ms".into()));
}

#[test]
fn its_name_and_its_keys_are_known_everywhere() {
    for (model, expected) in [
        (r#"{ kind = "tap", wind = "1ms" }"#, "did you mean `tape`?"),
        (r#"{ kind = "tape", wnd = "1ms" }"#, "did you mean `wind`?"),
        (r#"{ kind = "tape" }"#, "a model of kind `tape` needs the key `wind`"),
        (r#"{ kind = "tape", wind = "1m" }"#, "`wind` of a model of kind `tape`"),
        (r#""tape:1ms""#, "a model of kind `tape` cannot be a word"),
    ] {
        let error = read(model).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let schema = stasis_config::schema::<Drive>();
    let tables = schema["$defs"]["model"]["anyOf"][1]["oneOf"].as_array().unwrap();
    let tape = tables.iter().find(|table| table["properties"]["kind"]["const"] == "tape").unwrap();
    assert_eq!(tape["properties"]["wind"]["description"], "Time to wind past a MiB.");
}
