//! Output for programs (`--json`): each command is documented, and those that start no guest print
//! one document with the documented fields.

use crate::examples::help;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Commands that take no `--json`.
const WITHOUT: [&str; 3] = ["shell", "debug", "sweep"];

/// Commands that do not run here, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("run", "boots a guest: system/commands.rs"),
    ("on", "boots guests"),
    ("crash-test", "boots a guest: its form is that of crash-test.json"),
    ("explore", "boots guests: its form is that of explore.json"),
    ("archive", "takes files as the run left them: tests/archive.rs"),
    ("repeat", "repeats an archive"),
    ("serve", "goes on until it is stopped"),
    ("function list", "stasis-function: its tests/function.rs"),
    ("function new", "stasis-function: its tests/function.rs"),
    ("function run", "boots a guest"),
    ("function status", "takes a function that runs"),
    ("function stop", "takes a function that runs"),
    ("coordinate guest", "needs a host's BFQ"),
    ("coordinate host", "needs a host's BFQ"),
    ("reproduce", "takes minutes"),
    ("suite", "takes minutes"),
    ("guest build", "makes a guest"),
    ("guest remove", "takes a guest that is kept"),
    ("doctor", "boots a software host: tests/cli.rs"),
];

/// The others, with the words that make them print their document.
const CASES: &[(&str, &[&str])] = &[
    ("sim", &["sim", "fixed:10us", "--workload", "job.fio", "--size", "64MiB"]),
    ("compare", &["compare", "before", "after"]),
    ("inspect", &["inspect", "before"]),
    ("why", &["why", "before"]),
    ("export", &["export", "before", "--perfetto", "trace.json"]),
    ("page", &["page", "page.json"]),
    ("guest list", &["guest", "list"]),
    ("cache", &["cache"]),
    ("cache prune", &["cache", "prune"]),
    ("import", &["import", "compose.yaml"]),
    ("image create", &["image", "create", "new.qcow2", "1MiB"]),
    ("image info", &["image", "info", "disk.qcow2"]),
    ("image check", &["image", "check", "disk.qcow2"]),
    ("image convert", &["image", "convert", "disk.qcow2", "disk.img", "--to", "raw"]),
    ("image map", &["image", "map", "disk.qcow2"]),
    ("image grow", &["image", "grow", "disk.qcow2", "2MiB"]),
    ("models", &["models", "jpt39c"]),
    ("calibrate", &["calibrate", "fio.json"]),
    ("schema", &["schema"]),
    ("completions", &["completions", "bash"]),
    ("man", &["man"]),
];

fn stasis(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
    command.args(words).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.stdin(Stdio::null()).output().unwrap()
}

fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("job.fio", "[job]\nrw=randread\nbs=4k\nnumber_ios=200\n");
    write("compose.yaml", "services:\n  a:\n    image: app\n    restart: always\n");
    write("page.json", r#"{"title": "Nothing", "sections": []}"#);
    let job = |name: &str| {
        let direction = |ns: u64| {
            format!(
                r#"{{"iops": 1, "total_ios": 9, "clat_ns": {{"N": 9, "mean": {ns}, "percentile": {{"1.000000": 900, "50.000000": {ns}, "99.900000": 1100}}}}}}"#
            )
        };
        format!(
            r#"{{"jobname": "{name}", "job options": {{"bs": "4k", "rw": "randread"}}, "read": {}}}"#,
            direction(1000)
        )
    };
    write("fio.json", &format!(r#"{{"fio version": "fio-3.33", "jobs": [{}]}}"#, job("j")));
    for (model, results) in [("fixed:10us", "before"), ("fixed:20us", "after")] {
        let words =
            ["sim", model, "--workload", "job.fio", "--size", "64MiB", "--results", results];
        assert!(stasis(folder.path(), &words).status.success());
    }
    assert!(stasis(folder.path(), &["image", "create", "disk.qcow2", "1MiB"]).status.success());
    folder
}

/// The commands that have none below them, or do something without one.
fn leaves() -> BTreeSet<String> {
    let all: BTreeSet<_> = help::examples().into_iter().map(|(words, _)| words.join(" ")).collect();
    let has_below = |name: &String| all.iter().any(|other| other.starts_with(&format!("{name} ")));
    let groups = |name: &String| has_below(name) && name != "cache";
    all.iter().filter(|name| !name.is_empty() && !groups(name)).cloned().collect()
}

/// The reference's row of each command: its fields, or none where it has a form of its own.
fn documented() -> Vec<(String, Option<Vec<String>>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.split("| command | fields |").nth(1).unwrap().lines();
    let rows = rows.filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, fields)| {
        let own = fields.starts_with("its own form");
        // Words in brackets are of what a field has.
        let mut depth = 0;
        let plain: String = fields
            .chars()
            .filter(|c| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                depth == 0
            })
            .collect();
        let first = plain.split([';', '.']).next().unwrap().to_owned();
        let first = first.split(", each").next().unwrap().to_owned();
        let fields = first.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (name.to_owned(), (!own).then_some(fields))
    })
    .collect()
}

#[test]
fn each_command_is_documented_and_tried_or_said_to_be_tried_elsewhere() {
    let mut leaves = leaves();
    WITHOUT.iter().for_each(|name| assert!(leaves.remove(*name), "{name}"));
    let documented: BTreeSet<_> = documented().into_iter().map(|(name, _)| name).collect();
    assert_eq!(leaves, documented, "rows of docs/reference/json.md");
    let tried = CASES.iter().map(|(name, _)| *name);
    let tried: BTreeSet<_> = tried.chain(ELSEWHERE.iter().map(|(name, _)| *name)).collect();
    assert_eq!(leaves.iter().map(String::as_str).collect::<BTreeSet<_>>(), tried);
}

#[test]
fn each_document_has_its_fields_and_nothing_is_beside_it() {
    let folder = prepared();
    for (name, fields) in documented() {
        let Some((_, words)) = CASES.iter().find(|(case, _)| *case == name) else { continue };
        let output = stasis(folder.path(), &[words, &["--json"][..]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{name}: {error}: {:?}", output.stdout));
        let Some(fields) = fields else { continue };
        assert_eq!(document["status"], 0, "{name}");
        for field in fields {
            assert!(document.get(&field).is_some(), "{name} has no `{field}`: {document:#}");
        }
    }
}

#[test]
fn failures_have_codes() {
    let folder = prepared();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    std::fs::write(folder.path().join("wrong.toml"), "vcpu = 1\n").unwrap();
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    std::fs::write(folder.path().join("mine/summary.json"), "mine").unwrap();
    let sim = ["sim", "fixed:1us", "--workload", "job.fio", "--size", "64MiB", "--results"];
    let cases: [(Vec<&str>, i32, &str); 16] = [
        (vec!["rum"], 2, "usage"),
        (vec!["sim", "null"], 2, "usage"),
        (vec!["run", "no.toml"], 125, "not-found"),
        (vec!["run", "wrong.toml"], 125, "experiment"),
        (vec!["models", "nosuch"], 125, "experiment"),
        (vec!["inspect", "empty"], 125, "results"),
        (vec!["image", "check", "job.fio"], 125, "image"),
        ([&sim[..], &["mine"]].concat(), 125, "would-destroy"),
        (vec!["inspect", "nowhere"], 125, "not-found"),
        (vec!["why", "nowhere"], 125, "not-found"),
        (vec!["calibrate", "job.fio"], 125, "experiment"),
        (vec!["shell"], 2, "usage"),
        (vec!["debug", "--", "true"], 2, "usage"),
        (vec!["sweep", "study.toml"], 2, "usage"),
        (vec!["sim", "980-pro", "--workload", "job.fio"], 125, "experiment"),
        (vec!["guest", "remove", "nobody"], 125, "not-found"),
    ];
    for (words, status, code) in cases {
        let output = stasis(folder.path(), &[&["--json"], &words[..]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {stderr}");
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {stderr}"));
        assert_eq!(document["error"]["code"], code, "{words:?}: {document}");
        assert_eq!(document["status"], status, "{words:?}");
        let message = document["error"]["message"].as_str().unwrap();
        assert!(stderr.contains(message.lines().next().unwrap()), "{words:?}: {message}: {stderr}");
    }
    assert_eq!(
        std::fs::read(PathBuf::from(folder.path()).join("mine/summary.json")).unwrap(),
        b"mine"
    );
}
