//! `stasis archive` and `stasis repeat`, without a guest.

use std::path::Path;
use std::process::{Command, Output};

const JOB: &str = "rw=randrw\nbs=4k\nsize=8m\nnumber_ios=500\niodepth=4\nioengine=libaio\n";

fn stasis(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stasis")).args(words).current_dir(folder).output().unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ok(folder: &Path, words: &[&str]) -> String {
    let output = stasis(folder, words);
    let error = error(&output);
    assert!(output.status.success(), "{words:?}: {error}");
    error
}

/// A project with a job beside the folder that the simulation is called in, and a model's file.
fn project(folder: &Path) -> std::path::PathBuf {
    let work = folder.join("project/work");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(folder.join("project/all.fio"), JOB).unwrap();
    std::fs::write(work.join("job.fio"), "[r]\ndirect=1\ninclude ../all.fio\n").unwrap();
    std::fs::write(work.join("m.toml"), "[model]\nkind = 'flash'\nluns = 2\n").unwrap();
    work
}

#[test]
fn another_folder_repeats_what_an_archive_has() {
    let folder = tempfile::tempdir().unwrap();
    let work = project(folder.path());
    let sim = ["sim", "m.toml", "--workload", "job.fio", "--seed", "7", "--results", "first"];
    ok(&work, &sim);
    ok(&work, &["archive", "first", "-o", "../run.tar.zst"]);
    std::fs::remove_dir_all(&work).unwrap();
    std::fs::remove_file(folder.path().join("project/all.fio")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let archive = folder.path().join("project/run.tar.zst");
    let again = ["repeat", archive.to_str().unwrap(), "--results", "again"];
    let said = ok(elsewhere.path(), &again);
    assert!(said.contains("the same: every figure, and 500 I/Os"), "{said}");
    assert!(elsewhere.path().join("again/report.html").exists());
}

#[test]
fn what_differs_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let work = project(folder.path());
    ok(&work, &["sim", "m.toml", "--workload", "job.fio", "--results", "first"]);
    // As if another version had had other figures.
    let summary = work.join("first/summary.json");
    let text = std::fs::read_to_string(&summary).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["drives"][0]["read"]["count"] = 3.into();
    json["stasis_version"] = "0.0.1".into();
    std::fs::write(&summary, json.to_string()).unwrap();
    ok(&work, &["archive", "first", "-o", "run.tar.zst"]);
    let output = stasis(&work, &["repeat", "run.tar.zst", "--results", "again"]);
    let said = error(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("different: drives.0.read.count: 3, now "), "{said}");
    assert!(said.contains("made by version 0.0.1"), "{said}");
}

#[test]
fn what_cannot_be_repeated_is_not_archived() {
    let folder = tempfile::tempdir().unwrap();
    let work = project(folder.path());
    let refused = |words: &[&str], expected: &str| {
        ok(&work, words);
        let output = stasis(&work, &["archive", "results", "-o", "run.tar.zst"]);
        let said = error(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    let job = work.join("job.fio");
    let whole = ["sim", "m.toml", "--workload", job.to_str().unwrap()];
    refused(&whole, "names a whole path");
    ok(&work, &["sim", "m.toml", "--workload", "job.fio"]);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let file = std::fs::File::options().append(true).open(work.join("job.fio")).unwrap();
    file.set_modified(later).unwrap();
    let output = stasis(&work, &["archive", "results", "-o", "run.tar.zst"]);
    assert!(error(&output).contains("job.fio has changed since the run"), "{}", error(&output));
    let output = stasis(&work, &["archive", "results", "-o", "results/summary.json"]);
    assert_eq!(output.status.code(), Some(125), "{}", error(&output));
    let output = stasis(&work, &["repeat", "job.fio"]);
    assert!(error(&output).contains("the archive job.fio"), "{}", error(&output));
}
