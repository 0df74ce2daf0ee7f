//! The schema that `stasis schema` prints: every experiment of the examples and the documents is
//! valid by it, and keys that the program refuses as unknown are not.

use crate::markdown;
use crate::pages;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::pages::{below, root};
use regex_lite::Regex;
use serde_json::Value;

fn schema() -> Value {
    schema_of("experiment")
}

/// The schema that `stasis schema function` prints: that command is another program's.
fn schema_of_functions() -> Value {
    stasis_config::schema::<stasis_storage_function::Definition>()
}

fn schema_of(files: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["schema", files])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The keywords of the schema that constrain a value. Others would not be checked below.
const CHECKED: [&str; 15] = [
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "enum",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "pattern",
    "prefixItems",
    "properties",
    "required",
];
/// The keywords that are for readers only, or are looked at together with one of those.
const NOT_CHECKED: [&str; 12] = [
    "$defs",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "title",
    "type",
    "uniqueItems",
    "x-word",
    "writeOnly",
];

/// The fault of `value` by `schema`, if it has one (JSON Schema, draft 2020-12, as far as
/// [`CHECKED`] goes).
fn wrong(root: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    let Some(schema) = schema.as_object() else {
        return (schema == &Value::Bool(false)).then(|| format!("{place} must not be there"));
    };
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(&reference[1..]).unwrap_or_else(|| panic!("no {reference}"));
        let problem = wrong(root, target, value, place);
        if problem.is_some() {
            return problem;
        }
    }
    if let Some(types) = schema.get("type") {
        let types = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
        if !types.iter().any(|name| is_a(value, name.as_str().unwrap())) {
            return Some(format!("{place}: {value} is not one of {types:?}"));
        }
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Some(format!("{place}: {value} is not {}", schema["const"]));
    }
    if list("enum").is_some_and(|all| !all.contains(value)) {
        return Some(format!("{place}: {value} is not one of {}", schema["enum"]));
    }
    if let Some(value) = value.as_f64() {
        let low = number("minimum").is_some_and(|least| value < least);
        if low || number("maximum").is_some_and(|most| value > most) {
            return Some(format!("{place}: {value} is out of its range"));
        }
    }
    if let (Some(pattern), Some(word)) = (schema.get("pattern"), value.as_str()) {
        if !Regex::new(pattern.as_str().unwrap()).unwrap().is_match(word) {
            return Some(format!("{place}: {word:?} does not match {pattern}"));
        }
    }
    let here = |schema: &Value| wrong(root, schema, value, place);
    for (keyword, only_one) in [("anyOf", false), ("oneOf", true)] {
        let Some(all) = list(keyword) else { continue };
        let problems: Vec<_> = all.iter().map(here).collect();
        let right = problems.iter().filter(|problem| problem.is_none()).count();
        if right == 0 {
            let problems: Vec<_> = problems.into_iter().flatten().collect();
            return Some(format!("{place}: none of these:\n  {}", problems.join("\n  ")));
        }
        if only_one && right > 1 {
            return Some(format!("{place}: {right} alternatives, not one, fit {value}"));
        }
    }
    wrong_list(root, schema, value, place).or_else(|| wrong_table(root, schema, value, place))
}

fn wrong_list(
    root: &Value,
    schema: &serde_json::Map<String, Value>,
    value: &Value,
    place: &str,
) -> Option<String> {
    let values = value.as_array()?;
    let count = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    let few = count("minItems").is_some_and(|least| (values.len() as u64) < least);
    if few || count("maxItems").is_some_and(|most| values.len() as u64 > most) {
        return Some(format!("{place}: {} values", values.len()));
    }
    let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    values.iter().enumerate().find_map(|(index, value)| {
        let schema = first.get(index).or_else(|| schema.get("items"))?;
        wrong(root, schema, value, &format!("{place}[{index}]"))
    })
}

fn wrong_table(
    root: &Value,
    schema: &serde_json::Map<String, Value>,
    value: &Value,
    place: &str,
) -> Option<String> {
    let table = value.as_object()?;
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required.into_iter().flatten().filter_map(Value::as_str);
    if let Some(key) = missing.into_iter().find(|key| !table.contains_key(*key)) {
        return Some(format!("{place}: no {key}"));
    }
    table.iter().find_map(|(key, value)| {
        let place = format!("{place}.{key}");
        match (
            schema.get("properties").and_then(|all| all.get(key)),
            schema.get("additionalProperties"),
        ) {
            (Some(schema), _) | (None, Some(schema)) => wrong(root, schema, value, &place),
            (None, None) => None,
        }
    })
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}

#[test]
fn every_experiment_of_the_examples_and_documents_is_valid() {
    let (schema, functions) = (schema(), schema_of_functions());
    let (mut checked, mut checked_functions) = (0, 0);
    let mut check = |name: String, text: &str| {
        let value: Value = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        // A storage function's definition is no experiment.
        let schema = if value.get("init").is_some() {
            checked_functions += 1;
            &functions
        } else {
            checked += 1;
            &schema
        };
        if let Some(problem) = wrong(schema, schema, &value, "") {
            panic!("{name}: {problem}\n{text}");
        }
    };
    for path in below(&root().join("crates/realtime/storage-function/functions"), "toml") {
        check(path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
    }
    for path in below(&root().join("examples"), "toml") {
        check(path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
    }
    let documents = pages::of_the_book().into_iter().chain([root().join("README.md")]);
    for path in documents {
        for block in markdown::blocks(&std::fs::read_to_string(&path).unwrap(), "toml") {
            for experiment in markdown::experiments(&block) {
                check(path.display().to_string(), &experiment);
            }
        }
    }
    assert!(checked >= 10 && checked_functions >= 4, "{checked} {checked_functions}");
}

#[test]
fn what_a_named_model_is_written_out_as_is_valid() {
    let schema = schema();
    for named in stasis_models::NAMED {
        let model = serde_json::to_value(named.spec()).unwrap();
        let drive = serde_json::json!({ "model": model, "medium": "ram:1GiB" });
        let experiment = serde_json::json!({ "drive": [drive] });
        assert_eq!(wrong(&schema, &schema, &experiment, ""), None, "{}", named.name);
    }
}

#[test]
fn what_is_wrong_is_not_valid() {
    let schema = schema();
    let drive = "[[drive]]\nmodel = 'null'\nmedium = 'ram:1GiB'\n";
    let model = |model: &str| format!("[[drive]]\nmedium = 'ram:1GiB'\nmodel = {model}");
    let of_drive = |line: &str| format!("{drive}{line}");
    for (text, valid) in [
        (of_drive("queues = 4\ndelay = '5ms'\nplacement = 'fdp:8x64MiB'"), true),
        (of_drive("zones = { size = '64MiB', zrwa = { size = '1MiB', granularity = 4096, count = 1 } }"), true),
        (of_drive("metadata = { size = 8, protection = 1, guard = 16 }"), true),
        (of_drive("ocssd = '4x2x64x1024'"), true),
        (of_drive("key-value = { segment = '1MiB', spare-percent = 20, max-keys = 1000 }"), true),
        (of_drive("key-value = { index-cache = '64KiB' }"), true),
        (of_drive("key-value = { segment = 'all' }"), false),
        (of_drive("programs = { processors = 4, memory = '16MiB', memory-rate = '1GB/s' }"), true),
        (of_drive("programs = { processors = 'many' }"), false),
        (of_drive("namespace = [{ size = '1GiB' }, { zones = { size = '1MiB' } }, { key-value = {} }]"), true),
        (of_drive("namespace = [{ sise = '1GiB' }]"), false),
        (of_drive("namespace = [{ endurance-group = 1, nvm-set = 2, placement = 'fdp:8x64MiB' }]"), true),
        (of_drive("namespace = [{ endurance-group = 'one' }]"), false),
        (of_drive("physical = '4x2x64x1024'"), true),
        (of_drive("scheduler = { kind = 'bfq', help_share = 0.5 }"), true),
        ("[machine]\nslice = '20us'\nguest-scheduler = 'bfq'".into(), true),
        ("[[machine]]\nname = 'one'\n[[machine.disk]]\non = 'disk'".into(), true),
        (model("{ base = 'jpt39c', write_cache = '0' }"), true),
        (model("{ base = 'samsung-850-pro', flush = '1ms' }"), true),
        (model("'samsung-850-pro'"), true),
        (of_drive("sise = 1"), false),
        (of_drive("queues = 65"), false),
        (of_drive("delay = '5 parsec'"), false),
        (of_drive("interface = 'scsi'"), false),
        (of_drive("scheduler = { kind = 'cfq', help_share = 0.5 }"), false),
        (of_drive("scheduler = 'bfg'"), false),
        (of_drive("metadata = { size = 8, protection = 4 }"), false),
        (of_drive("metadata = { size = 8, guard = 17 }"), false),
        (of_drive("zones = { capacity = '64MiB' }"), false),
        ("[[drive]]\nmodel = 'null'\n".into(), false),
        ("[[drive]]\nmodel = 'null'\nmedium = { ram = '1GiB', file = 'x' }\n".into(), false),
        (model("'dcpm'"), false),
        (model("{ kind = 'fixed', raed = '1us' }"), false),
        (model("{ kind = 'disk', rpm = 7200 }"), false),
        (model("{ base = 'dcpmm', rpm = 7200 }"), false),
        (model("{ kind = 'flash', gc = { policy = 'gredy' } }"), false),
        (model("{ kind = 'flash', read_cache = { size = '64MiB', writes = 'update' } }"), true),
        (model("{ kind = 'flash', read_cache = { size = '64MiB', replacement = 'mru' } }"), false),
        (model("{ kind = 'flash', ecc = { erases = 1000, steps = [{ bits = 72 }] } }"), true),
        (model("{ kind = 'flash', ecc = { steps = [{ errors = 0.5 }] } }"), false),
        (model("{ kind = 'flash', scrub = { period = '24h', age = '720h' } }"), true),
        (model("{ kind = 'flash', scrub = { every = '24h' } }"), false),
        (model("{ kind = 'flash', cells = 'qlc', two_pass = { coarse = '2ms', fine = '5ms' } }"), true),
        (model("{ kind = 'flash', two_pass = { coarse = '2ms', last = '5ms' } }"), false),
        (model("{ kind = 'flash', bad_blocks = 4 }"), true),
        (model("{ kind = 'flash', pcie = { link = 'PCIe 4.0 x4' } }"), true),
        (model("{ kind = 'flash', pcie = { link = 'PCIe 4.0 x3' } }"), false),
        (model("{ kind = 'flash', processors = { cores = 2, command = '1us' } }"), true),
        (model("{ kind = 'flash', dram = { passes = 2 } }"), false),
        (model("{ kind = 'flash', trim = { range = '20us', rate = '100GB/s' } }"), true),
        ("[machine]\nvcpus = 65".into(), false),
        ("engine = 'qemu'".into(), false),
        ("[guest]\nimage = 'postgres:16'".into(), true),
        ("[machine.container]\nvolumes = { '/data' = 'memory' }\nuser = '1:2'".into(), true),
        ("[[machine]]\n[machine.container]\ndepends-on = { a = 'healthy' }".into(), true),
        ("[[machine]]\n[machine.container]\ndepends-on = { a = 'ready' }".into(), false),
        ("[machine.container]\nhealth = { test = ['true'], interval = '1s' }".into(), true),
        ("[machine.container]\nhealth = { tests = ['true'] }".into(), false),
    ] {
        let value: Value = toml::from_str(&text).unwrap();
        let problem = wrong(&schema, &schema, &value, "");
        assert_eq!(problem.is_none(), valid, "{text}: {problem:?}");
        let read = toml::from_str::<stasis_experiment::Experiment>(&text);
        // A fault that only the whole file shows, such as a range, is reported later.
        assert!(!valid || read.is_ok(), "{text}: {read:?}");
    }
}

/// Every object that stands where a schema does, by its keywords.
fn keywords<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    let Some(table) = schema.as_object() else { return };
    for (keyword, value) in table {
        found.push(keyword);
        match keyword.as_str() {
            "$defs" | "properties" => {
                value.as_object().unwrap().values().for_each(|schema| keywords(schema, found));
            }
            "anyOf" | "oneOf" | "prefixItems" => {
                value.as_array().unwrap().iter().for_each(|schema| keywords(schema, found));
            }
            "items" | "additionalProperties" => keywords(value, found),
            _ => {}
        }
    }
}

#[test]
fn every_keyword_of_the_schema_is_checked_here() {
    let (schema, functions) = (schema(), schema_of_functions());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let mut found = Vec::new();
    keywords(&schema, &mut found);
    keywords(&functions, &mut found);
    found.sort_unstable();
    found.dedup();
    for keyword in found {
        assert!(CHECKED.contains(&keyword) || NOT_CHECKED.contains(&keyword), "{keyword}");
    }
}

/// Every key has a description, in words of the configuration.
#[test]
fn every_key_has_a_description() {
    fn look(schema: &Value, place: &str, without: &mut Vec<String>) {
        let Some(table) = schema.as_object() else { return };
        for (key, schema) in
            table.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let named = schema.get("const").is_some() || schema.get("enum").is_some();
            if (text.is_empty() && !named) || text.contains("](") || text.contains("(ns)") {
                without.push(format!("{place}.{key}: {text:?}"));
            }
        }
        for (key, value) in table {
            match value {
                Value::Object(_) => look(value, &format!("{place}.{key}"), without),
                Value::Array(all) => all.iter().for_each(|value| look(value, place, without)),
                _ => {}
            }
        }
    }
    let mut without = Vec::new();
    look(&schema(), "", &mut without);
    look(&schema_of_functions(), "function", &mut without);
    assert!(without.is_empty(), "{}", without.join("\n"));
}

/// The Python package carries the program's description of results.
#[test]
fn the_python_package_has_the_columns_of_results() {
    let path = root().join("python/src/stasis/results.json");
    let kept: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mistake = "python/src/stasis/results.json is not what `stasis schema results` prints";
    assert_eq!(kept, schema_of("results"), "{mistake}");
}

/// The reference describes each column as the program does.
#[test]
fn the_reference_has_the_columns_of_results() {
    let page = std::fs::read_to_string(root().join("docs/reference/results.md")).unwrap();
    let section = page.split("\n## `ios.csv`\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let schema = schema_of("results");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |column: &Value| {
        let [name, kind, unit, meaning] =
            ["name", "type", "unit", "meaning"].map(|key| text(&column[key]));
        format!("| `{name}` | {kind} | {unit} | {meaning} |")
    };
    let columns: Vec<_> = schema["columns"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(rows, columns, "the table should be:\n{}", columns.join("\n"));
    let repeat = page.split("\n### Repeatability\n").nth(1).unwrap();
    let repeat = repeat.split("\n#").next().unwrap();
    for field in schema["incidental_fields"].as_array().unwrap() {
        assert!(repeat.contains(&format!("`{}`", text(field))), "{field} is not among the fields");
    }
}

/// The keys in the first column of the tables below a heading.
fn documented(page: &str, heading: &str) -> BTreeSet<String> {
    let key = Regex::new("`(?:\\[\\[[a-z]+\\.)?([a-z][a-z-]*)(?:\\]\\])?`").unwrap();
    let section = page.split("\n#").find(|section| {
        section.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']) == heading
    });
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let first = rows.filter_map(|row| row.split('|').next());
    let keys = first.flat_map(|cell| {
        let cell = format!("`{cell}");
        key.captures_iter(&cell).map(|found| found[1].to_owned()).collect::<Vec<_>>()
    });
    keys.collect()
}

/// The reference has each key of the schema, and no other.
#[test]
fn the_reference_has_the_keys_of_the_schema() {
    let schema = schema();
    let page = std::fs::read_to_string(root().join("docs/reference/experiment.md")).unwrap();
    // Each has a section, or (`serve`) a page.
    let tables = [
        "drive",
        "expect",
        "explore",
        "fault",
        "fault-space",
        "guest",
        "machine",
        "network",
        "serve",
        "workload",
    ];
    for (place, headings) in [
        ("", &["Top-level keys"][..]),
        ("/$defs/MachineSpec", &["`[machine]`", "`[[machine]]`: several machines"]),
        ("/$defs/DiskSpec", &["`[[machine.disk]]`: virtual disks"]),
        ("/$defs/WorkloadSpec", &["`[[workload]]`"]),
        ("/$defs/NetworkSpec", &["`[[network]]`: networks"]),
        (
            "/$defs/ScheduledFault",
            &["`[[fault]]`: faults of drives, machines, guests and networks"],
        ),
        ("/$defs/RedSpec", &["`red`: random early detection"]),
        ("/$defs/OutsideSpec", &["`[[network.outside]]`: ports that lead outside"]),
        ("/$defs/FaultSpace", &["`[fault-space]`: faults that the seed draws"]),
        ("/$defs/ExploreSpec", &["`[explore]`: what an exploration looks for"]),
        ("/$defs/Expectation", &["`[[expect]]`: thresholds"]),
        ("/$defs/LinkSpec", &["`[[network.link]]`: links"]),
        ("/$defs/GuestSpec", &["`[guest]`"]),
        ("/$defs/ContainerSpec", &["`[machine.container]`: what differs from the image"]),
        ("/$defs/HealthSpec", &["`health`: the check of a command's health"]),
        ("/$defs/DriveSpec", &["`[[drive]]` and `--drive`"]),
    ] {
        let properties = schema.pointer(place).unwrap()["properties"].as_object().unwrap();
        let current = properties.iter().filter(|(key, schema)| {
            let elsewhere = place.is_empty() && tables.contains(&key.as_str());
            !elsewhere && schema.get("deprecated").is_none()
        });
        let keys: BTreeSet<_> = current.map(|(key, _)| key.clone()).collect();
        let documented: BTreeSet<_> =
            headings.iter().flat_map(|heading| documented(&page, heading)).collect();
        assert_eq!(documented, keys, "{headings:?}");
    }
}

/// The reference has each key of the tables within a drive in the row of the key that holds them,
/// and each shorter name for one on the command line.
#[test]
fn the_reference_has_the_keys_within_a_drive() {
    let schema = schema();
    let page = std::fs::read_to_string(root().join("docs/reference/experiment.md")).unwrap();
    let key = Regex::new("([a-z][a-z-]*) = ").unwrap();
    for (row, tables) in [
        ("zones", &["Zones", "Zrwa"][..]),
        ("ocssd", &["Ocssd"]),
        ("key-value", &["KeyValue"]),
        ("programs", &["Programs"]),
        ("namespace", &["NamespaceSpec"]),
        ("metadata", &["Metadata"]),
    ] {
        // Faults have a key `namespace` as well.
        let mut of_drive =
            page.lines().skip_while(|line| !line.ends_with("`[[drive]]` and `--drive`"));
        let starts = format!("| `{row}` |");
        let text = of_drive.find(|line| line.starts_with(&starts)).unwrap();
        let documented: BTreeSet<_> =
            key.captures_iter(text).map(|found| found[1].to_owned()).collect();
        let tables = tables.iter().flat_map(|table| {
            schema["$defs"][table]["properties"].as_object().unwrap().keys().cloned()
        });
        assert_eq!(documented, tables.collect(), "{row}");
    }
    let drive = schema.pointer("/$defs").unwrap().to_string();
    let words = Regex::new("\"x-word\":\"([a-z-]+)\"").unwrap();
    let words: BTreeSet<_> = words.captures_iter(&drive).map(|found| found[1].to_owned()).collect();
    assert!(words.contains("zone-size"));
    for word in words {
        assert!(page.contains(&format!("`{word}`")), "{word} is not on the page");
    }
}
