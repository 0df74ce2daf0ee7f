//! Every test is run by somebody: one that `make unit-test` leaves out names the target that
//! runs it.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn ignored_tests_name_their_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let mut count = 0;
    for file in files.iter().filter(|file| !file.ends_with("ignored.rs")) {
        for line in fs::read_to_string(file).unwrap().lines() {
            let Some(reason) = line.trim().strip_prefix("#[ignore") else { continue };
            count += 1;
            // A program that another test starts by its name.
            if reason.contains("the other test starts it") {
                continue;
            }
            let target = reason.split("make ").nth(1).and_then(|rest| rest.split('"').next());
            let target = target.unwrap_or_else(|| panic!("{}: {reason}", file.display()));
            let target = format!("\n{target}:");
            assert!(makefile.contains(&target), "{}: no target {target}", file.display());
            let name = file.file_stem().unwrap().to_str().unwrap();
            let folder = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
            let recipe = makefile.split(&target).nth(1).unwrap().split("\n\n").next().unwrap();
            // Its own program, or its part of one.
            let is_run = |test: &str| {
                recipe.contains(&format!("--test {test}")) || recipe.contains(&format!(" {test}::"))
            };
            assert!(is_run(name) || is_run(folder), "{}: {target} does not run it", file.display());
        }
    }
    assert!(count >= 10, "{count} ignored tests");
}

/// The rows of CONTRIBUTING's table that are tests run in a workflow, or in `make test`, which
/// `.ci/run` runs.
#[test]
fn what_contributing_calls_a_test_runs_in_ci() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let makefile = read("Makefile");
    let test = makefile.split("\ntest: ").nth(1).unwrap().split("\n\n").next().unwrap();
    // All parts run, whichever fails; some of them beside the others.
    let calls = test.lines().filter(|line| line.contains("$(MAKE)") || line.contains("part "));
    let before_output = calls.filter_map(|line| line.split('>').next());
    let parts: Vec<_> = before_output
        .flat_map(|call| call.split(|c: char| c.is_whitespace() || c == ';'))
        .collect();
    assert!(read(".ci/run").contains("make test"));
    let workflows = fs::read_dir(root.join(".github/workflows")).unwrap();
    let workflows: String =
        workflows.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let runs = |target: &str| {
        let in_workflow = workflows.lines().any(|line| {
            line.split(&format!("make {target}")).skip(1).any(|rest| !rest.starts_with('-'))
        });
        let in_test = parts.contains(&target);
        (in_workflow, in_test)
    };
    let page = read("CONTRIBUTING.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `make "));
    let named = rows.filter_map(|row| row.split_once('`'));
    let mut count = 0;
    for (target, about) in named {
        let is_test = target.contains("test") || target == "conformance" || about.contains("tests");
        let (in_workflow, in_test) = runs(target);
        assert!(!is_test || in_workflow || in_test, "nobody runs `make {target}`");
        count += usize::from(is_test);
    }
    assert!(count >= 7, "{count} tests");
    // Within minutes, and so for each change.
    for target in ["lint", "unit-test", "python-test", "system-test", "test-on"] {
        assert!(runs(target).1, "`make test` leaves out {target}");
    }
}

/// A crate that lists its programs of tests has each file of tests in one of them.
#[test]
fn each_file_of_tests_is_in_a_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = |folder: &Path| {
        let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        all.collect::<Vec<_>>()
    };
    let packages =
        entries(&crates).into_iter().filter(|path| path.is_dir()).flat_map(|wing| entries(&wing));
    let mut count = 0;
    for package in packages.filter(|path| path.join("Cargo.toml").exists()) {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        if manifest["package"].get("autotests").and_then(toml::Value::as_bool) != Some(false) {
            continue;
        }
        let programs = manifest["test"].as_array().unwrap().iter().map(|program| {
            let path = program.get("path").map(|path| path.as_str().unwrap().to_owned());
            path.unwrap_or_else(|| format!("tests/{}.rs", program["name"].as_str().unwrap()))
        });
        let programs: Vec<_> = programs.map(|path| package.join(path)).collect();
        let parts: String = programs.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        for path in entries(&package.join("tests")) {
            let file = if path.is_dir() { path.join("main.rs") } else { path.clone() };
            if !file.exists() || file.extension().is_none_or(|end| end != "rs") {
                continue;
            }
            let part = format!("mod {};", path.file_stem().unwrap().to_str().unwrap());
            let is_there = programs.contains(&file) || parts.lines().any(|line| line == part);
            assert!(is_there, "no program of tests has {}", file.display());
            count += 1;
        }
    }
    assert!(count >= 80, "{count} files of tests");
}

/// Fuzz targets are found in whichever wing their crate stands.
#[test]
fn each_fuzz_target_has_its_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let fuzz = |words: &[&str]| {
        let output = std::process::Command::new(root.join("scripts/fuzz")).args(words).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let targets: Vec<String> = serde_json::from_str(&fuzz(&["--list"])).unwrap();
    assert!(targets.len() >= 6, "{targets:?}");
    for target in targets {
        let place = root.join(fuzz(&["--place", &target]).trim());
        let name = target.split_once('/').unwrap().1;
        assert!(place.join("Cargo.toml").exists(), "{target}: {}", place.display());
        assert!(place.join(format!("corpus/{name}")).is_dir(), "{target} has no corpus");
    }
}
