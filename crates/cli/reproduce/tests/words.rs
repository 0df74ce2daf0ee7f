//! The words of `stasis-reproduce`, as far as no guest is needed.

#[path = "../../stasis/tests/call/mod.rs"]
mod call;

use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_stasis-reproduce");

fn call(words: &[&str]) -> Output {
    call::call(PROGRAM, words)
}

fn failure(words: &[&str], status: i32) -> String {
    call::failure(PROGRAM, words, status)
}

#[test]
fn what_a_suite_cannot_measure_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("suite");
    let results = format!("--results={}", results.display());
    for (words, status, message) in [
        (["--device=mk6006gha", "--jobs=1"], 125, "mk6006gah"),
        (["--device=nosuch", "--jobs=1"], 125, "stasis models"),
        (["--guest-scheduler=cfq", "--jobs=1"], 125, "mq-deadline"),
        (["--host-scheduler=bfg", "--jobs=1"], 125, "did you mean `bfq`?"),
        (["--guest-workload=6r-seq", "--jobs=1"], 2, "at most 5"),
        (["--host-workload=1r", "--jobs=1"], 2, "2r2w-seq"),
        (["--application=emacs", "--jobs=1"], 125, "bash, xterm, konsole"),
        (["--coordinate=yes", "--guest-scheduler=none"], 125, "only bfq"),
        (["--application=none", "--samples=0"], 125, "nothing to do"),
    ] {
        let error = failure(&["suite", &results, words[0], words[1]], status);
        assert!(error.contains(message), "{words:?}: {error}");
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    let error = failure(&["barrier", "--device=sem16g"], 125);
    assert!(error.contains("only `coordination`"), "{error}");
}

#[test]
fn a_refused_repetition_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("r");
    std::fs::create_dir(&results).unwrap();
    std::fs::write(results.join("summary.json"), "earlier").unwrap();
    let results = format!("--results={}", results.display());
    failure(&["femu", "--only=nosuch", &results], 125);
    let all = |folder: &std::path::Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!((all(folder.path()), all(&folder.path().join("r"))), (1, 1));
}

#[test]
fn a_study_is_the_python_packages() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(words).env("PATH", folder.path()).output().unwrap()
    };
    let words = ["-q", "femu", "--quick", "--on", "local"];
    let missing = run(&words);
    assert_eq!(missing.status.code(), Some(125));
    let stderr = String::from_utf8_lossy(&missing.stderr);
    assert!(stderr.contains("pip install ./python "), "{stderr}");
    let program = folder.path().join("stasis-reproduce-on");
    std::fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let found = run(&words);
    assert_eq!(found.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&found.stdout), "-q femu --quick --on local\n");
}

#[test]
fn experiments_are_listed_for_programs() {
    let output = call(&["femu", "--quick", "--list", "--json", "--engine=exact"]);
    assert!(output.status.success(), "{output:?}");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&list["publication"], &list["engine"]), (&"femu".into(), &"exact".into()));
    assert!(list["parts"].as_array().unwrap().len() > 3, "{list}");
}
