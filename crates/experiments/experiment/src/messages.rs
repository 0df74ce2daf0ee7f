//! Every key with wrong values, in a file and in a word: each error names its place, the key, the
//! value found, and what is allowed; both forms have the same text.

use std::fmt::Write;

use serde_json::Value;
use toml::Table;

use crate::{DiskSpec, DriveSpec, Experiment, GuestSpec, MachineSpec, ServeSpec, WorkloadSpec};

/// A value that no key takes.
const DATE: &str = "1979-05-27";

/// A message's part about the allowed values has one of these.
const ALLOWED: &[&str] = &[
    "from ",
    "one of ",
    "such as ",
    "true or false",
    "a path",
    "a string",
    "a table",
    "a whole number",
];

/// Keys that a table has to have.
const REQUIRED: &[(&str, &str, &str)] = &[
    ("drive[0].", "model", "null"),
    ("drive[0].", "medium", "ram:1GiB"),
    ("drive[0].zones.", "size", "64MiB"),
    ("machine[0].disk[0].", "on", "disk"),
];

fn in_file(text: &str) -> String {
    match stasis_config::read_text::<Experiment>(text) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

fn properties(schema: &Value) -> Vec<(String, Value)> {
    let all = schema["properties"].as_object().unwrap();
    let listed = all.iter().filter(|(_, schema)| schema["deprecated"] != true);
    listed.map(|(key, schema)| (key.clone(), schema.clone())).collect()
}

#[test]
fn every_key_of_a_file_names_place_value_and_what_is_allowed() {
    let drive = "[[drive]]\nmodel = 'null'\nmedium = 'ram:1GiB'\n";
    let schema = stasis_config::schema::<DriveSpec>();
    let zones = serde_json::json!({ "properties": schema["$defs"]["Zones"]["properties"] });
    let pairs = serde_json::json!({ "properties": schema["$defs"]["KeyValue"]["properties"] });
    let mut count = 0;
    for (head, place, schema, lines) in [
        ("", "", stasis_config::schema::<Experiment>(), 1),
        ("[machine]\n", "machine.", stasis_config::schema::<MachineSpec>(), 2),
        ("[guest]\n", "guest.", stasis_config::schema::<GuestSpec>(), 2),
        ("[serve]\n", "serve.", stasis_config::schema::<ServeSpec>(), 2),
        ("[[workload]]\n", "workload[0].", stasis_config::schema::<WorkloadSpec>(), 2),
        (
            "[[machine]]\n[[machine.disk]]\n",
            "machine[0].disk[0].",
            stasis_config::schema::<DiskSpec>(),
            3,
        ),
        ("[[drive]]\n", "drive[0].", schema, 2),
        (&format!("{drive}[drive.zones]\n"), "drive[0].zones.", zones, 5),
        (&format!("{drive}[drive.key-value]\n"), "drive[0].key-value.", pairs, 5),
    ] {
        for (key, schema) in properties(&schema) {
            count += 1;
            let at = format!("line {lines}, column {}: {place}{key}: ", key.len() + 4);
            let message = in_file(&format!("{head}{key} = {DATE}\n"));
            assert!(message.starts_with(&at), "{message}");
            assert!(message.contains(&format!("`{DATE}`")), "{message}");
            assert!(ALLOWED.iter().any(|part| message.contains(part)), "{message}");
            assert!(message.ends_with(&"^".repeat(DATE.len())), "{message}");
            // Out of range; the keys that have to be there follow.
            let required =
                REQUIRED.iter().filter(|(table, other, _)| *table == place && *other != key);
            let rest: String =
                required.map(|(_, key, value)| format!("{key} = '{value}'\n")).collect();
            if let (Some(least), Some(most)) =
                (schema["minimum"].as_u64(), schema["maximum"].as_u64())
            {
                let message = in_file(&format!("{head}{key} = {}\n{rest}", most + 1));
                let expected =
                    format!("{at}`{}` is not a whole number from {least} to {most}", most + 1);
                assert!(message.starts_with(&expected), "{message}");
            }
            // A slip of the finger.
            let message = in_file(&format!("{head}{key}x = 1\n"));
            let begin = format!("line {lines}, column 1: ");
            assert!(message.starts_with(&begin), "{message}");
            assert!(
                message.contains(&format!("unknown key `{key}x`; did you mean `{key}`?")),
                "{message}"
            );
        }
    }
    assert!(count > 80, "{count} keys");
}

/// A drive's table with a value at a path.
fn table(path: &[&str], value: &str) -> String {
    let mut drive: Table = toml::from_str("model = 'null'\nmedium = { ram = '1GiB' }").unwrap();
    let (key, outer) = path.split_last().unwrap();
    let mut inner = &mut drive;
    for key in outer {
        let next = inner.entry(*key).or_insert(toml::Value::Table(Table::new()));
        inner = next.as_table_mut().unwrap();
    }
    inner.insert((*key).into(), value.into());
    let mut text = String::new();
    write!(text, "drive = [{}]", toml::Value::Table(drive)).unwrap();
    text
}

#[test]
fn a_drives_key_has_one_message_in_a_file_and_in_a_word() {
    let mut refused = 0;
    for key in DriveSpec::keys() {
        for value in ["?!", "4000000000", "-1", "trueish"] {
            let word = format!("model=null,medium=ram:1GiB,{}={value}", key.name);
            let path: Vec<_> = key.path().collect();
            let text = table(&path, value);
            // Numbers and truth values are no strings in a file.
            let plain = text.replace(&format!("\"{value}\""), value);
            let file = [&text, &plain].map(|text| in_file(text));
            let Err(error) = DriveSpec::parse(&word) else { continue };
            let message = error.to_string();
            let Some((_, sentence)) = message.split_once(&format!(": {}: ", key.name)) else {
                // Values that do not go together: the table around has the error.
                let outer = format!(": {}: ", path[0]);
                let parts = ["must be", "leave", "is missing", outer.as_str()];
                assert!(parts.iter().any(|part| message.contains(part)), "{message}");
                continue;
            };
            refused += 1;
            let path = path.join(".");
            let wanted = format!(": drive[0].{path}: {sentence}\n");
            assert!(file.iter().any(|file| file.contains(&wanted)), "{message}\n{file:?}");
            assert!(sentence.contains(value), "{message}");
        }
        let slip = format!("model=null,medium=ram:1GiB,{}x=1", key.name);
        let message = DriveSpec::parse(&slip).unwrap_err().to_string();
        assert!(message.contains(&format!("did you mean `{}`?", key.name)), "{message}");
    }
    assert!(refused > 60, "{refused} wrong values");
}

#[test]
fn the_found_examples() {
    let drive = "[[drive]]\nmodel = 'null'\nmedium = 'ram:1GiB'\n";
    let message = in_file(&format!("{drive}queues = \"two\"\n"));
    assert_eq!(
        message,
        "line 4, column 10: drive[0].queues: `two` is not a whole number from 1 to 64\n \
         4 | queues = \"two\"\n   |          ^^^^^"
    );
    let message = in_file(&format!("{drive}zones.sice = '1MiB'\n"));
    assert!(
        message.contains("drive[0].zones: unknown key `sice`; did you mean `size`?"),
        "{message}"
    );
    let error = DriveSpec::parse("model=null,medium=ram:1GiB,queues=two").unwrap_err();
    assert!(error.to_string().ends_with(": queues: `two` is not a whole number from 1 to 64"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,60}", key in "[a-z.\\[\\]]{0,12}") {
        let _ = in_file(&text);
        let _ = in_file(&format!("{key} = {text}\n"));
        let _ = in_file(&format!("[machine]\n{key} = \"{text}\"\r\n"));
    }
}

/// Files below a folder with one of these endings, but for what is built.
fn files(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !path.is_symlink() {
            if !name.starts_with('.') && name != "target" {
                files(&path, found);
            }
        } else if name.ends_with(".toml") || name.ends_with(".md") {
            found.push(path);
        }
    }
}

#[test]
fn the_projects_tables_are_read_as_by_the_library_alone() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let mut found = Vec::new();
    files(root.as_ref(), &mut found);
    let mut read = 0;
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let blocks: Vec<&str> = match path.extension() {
            Some(ending) if ending == "md" => {
                let parts = text.split("```toml\n").skip(1);
                parts.map(|part| part.split("```").next().unwrap_or_default()).collect()
            }
            _ => vec![&text],
        };
        for block in blocks {
            let library = toml::from_str::<Experiment>(block);
            let own = stasis_config::read_text::<Experiment>(block);
            match (library, own) {
                (Ok(library), Ok(own)) => {
                    assert_eq!(own, library, "{}", path.display());
                    read += 1;
                }
                (Err(_), Err(_)) => {}
                (library, own) => panic!("{}: {library:?}, but {own:?}", path.display()),
            }
        }
    }
    assert!(read >= 20, "{read} experiments");
}
