//! Promises are tested by tests that can fail: each fault of `planted_faults.toml` is planted, and the
//! promise's test has to find it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct Faults {
    fault: Vec<Fault>,
}

/// A change of one place that breaks a promise.
#[derive(Deserialize)]
struct Fault {
    /// A row of `docs/explanation/trust.md`.
    promise: String,
    /// The fault in words.
    fault: String,
    file: String,
    old: String,
    new: String,
    /// Package, name of the test's program (`lib` for unit tests), and the test.
    test: [String; 3],
    /// Date on which the test last found it; `None` for a fault that has not been tried.
    found: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

fn faults() -> Vec<Fault> {
    toml::from_str::<Faults>(include_str!("planted_faults.toml")).unwrap().fault
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Fault {
    /// Its row on the page.
    fn row(&self) -> String {
        let found = self.found.as_deref().unwrap_or("not tried yet");
        format!("| {} | {} | `{}` | {found} |", self.promise, self.fault, self.test[2])
    }

    /// `source` with the fault.
    fn planted(&self, source: &str) -> String {
        assert_eq!(
            source.matches(&self.old).count(),
            1,
            "{}: the place of the fault \"{}\" is to stand once: adapt it in planted_faults.toml",
            self.file,
            self.fault
        );
        source.replace(&self.old, &self.new)
    }

    /// Runs its test in `folder`. Returns whether the test passed.
    fn run(&self, folder: &Path) -> bool {
        let [package, program, test] = &self.test;
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(folder).args(["test", "--release", "--locked", "--package", package]);
        match program.as_str() {
            "lib" => cargo.arg("--lib"),
            program => cargo.args(["--test", program]),
        };
        // A fault that is found is not made small: that would take long.
        cargo.args([test, "--", "--include-ignored"]).env("PROPTEST_MAX_SHRINK_ITERS", "0");
        let output = cargo.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let passed = stdout.contains("test result: ok. 1 passed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(passed || stdout.contains("test result: FAILED. 0 passed"), "{stdout}\n{errors}");
        passed
    }
}

#[test]
fn each_promise_has_a_fault_that_can_still_be_planted() {
    let page = text("docs/development/planted-faults.md");
    let trust = text("docs/explanation/trust.md");
    let mut wrong = Vec::new();
    let faults = faults();
    for fault in &faults {
        fault.planted(&text(&fault.file));
        if !page.lines().any(|line| line == fault.row()) {
            wrong.push(format!("planted-faults.md has no row {}", fault.row()));
        }
        let row = trust.lines().find(|line| line.starts_with(&format!("| {} |", fault.promise)));
        // "The same test" of a row is that of the row before it.
        let names = |row: &str| row.contains(&fault.test[2]) || row.contains("the same test");
        if !row.is_some_and(names) {
            wrong.push(format!("trust.md names no {} for {}", fault.test[2], fault.promise));
        }
    }
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(2);
    let old = rows.filter(|row| !faults.iter().any(|fault| fault.row() == *row));
    wrong.extend(old.map(|row| format!("planted_faults.toml has no such fault: {row}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// In a copy of the last commit, in `target/planted-faults`. `FAULTS=WORD` plants those of whose test the
/// name has the word.
#[test]
#[ignore = "compiles parts of the program for each fault: make plant-faults"]
fn each_planted_fault_is_found() {
    let folder = root().join("target/planted-faults");
    let git = |words: &[&str]| {
        assert!(Command::new("git").current_dir(root()).args(words).status().unwrap().success());
    };
    let name = folder.to_str().unwrap();
    if !folder.exists() {
        git(&["worktree", "add", "--detach", name]);
    }
    let head = Command::new("git").current_dir(root()).args(["rev-parse", "HEAD"]).output();
    let head = String::from_utf8(head.unwrap().stdout).unwrap();
    git(&["-C", name, "checkout", "--quiet", "--force", "--detach", head.trim()]);
    let word = std::env::var("FAULTS").unwrap_or_default();
    let mut missed = Vec::new();
    for fault in faults().iter().filter(|fault| fault.test[2].contains(&word)) {
        let path = folder.join(&fault.file);
        let source = std::fs::read_to_string(&path).unwrap();
        assert!(fault.run(&folder), "{} fails without a fault", fault.test[2]);
        std::fs::write(&path, fault.planted(&source)).unwrap();
        let passed = fault.run(&folder);
        std::fs::write(&path, source).unwrap();
        println!("{}: {}", if passed { "not found" } else { "found" }, fault.row());
        if passed {
            missed.push(fault.row());
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
