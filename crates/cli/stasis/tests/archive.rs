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
    let summary = std::fs::read(work.join("first/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let inputs = summary["repeat"]["inputs"].as_array().unwrap();
    let read: Vec<_> = inputs.iter().map(|input| input["path"].as_str().unwrap()).collect();
    assert_eq!(read, ["m.toml", "job.fio", "../all.fio"]);
    ok(&work, &["archive", "first", "-o", "../run.tar.zst"]);
    std::fs::remove_dir_all(&work).unwrap();
    std::fs::remove_file(folder.path().join("project/all.fio")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let archive = folder.path().join("project/run.tar.zst");
    let again = ["repeat", archive.to_str().unwrap(), "--results", "again"];
    let stderr = ok(elsewhere.path(), &again);
    assert!(stderr.contains("the same: every figure, and 500 I/Os"), "{stderr}");
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
    let stderr = error(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("different: drives.0.read.count: 3, now "), "{stderr}");
    assert!(stderr.contains("made by version 0.0.1"), "{stderr}");
}

#[test]
fn several_simulations_are_one_archive() {
    let folder = tempfile::tempdir().unwrap();
    let work = project(folder.path());
    let sim = ["sim", "m.toml", "fixed:10us", "--workload", "job.fio", "--seed", "1-2"];
    ok(&work, &sim);
    ok(&work, &["archive", "results", "-o", "all.tar.zst"]);
    let stderr = ok(&work, &["repeat", "all.tar.zst", "--results", "again"]);
    assert!(stderr.contains("the same: every figure, and 2,000 I/Os of 4 runs"), "{stderr}");
    // One run of the four has other figures.
    let changed = std::fs::read_dir(work.join("results")).unwrap().flatten();
    let one = changed.map(|entry| entry.path().join("summary.json")).find(|path| path.exists());
    let (one, mut json) = (one.as_ref().unwrap(), serde_json::Value::Null);
    json.clone_from(&serde_json::from_slice(&std::fs::read(one).unwrap()).unwrap());
    let name = one.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    json["drives"][0]["read"]["count"] = 3.into();
    std::fs::write(one, json.to_string()).unwrap();
    ok(&work, &["archive", "results", "-o", "all.tar.zst"]);
    let output = stasis(&work, &["repeat", "all.tar.zst", "--results", "again"]);
    let stderr = error(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains(&format!("different: {name}: drives.0.read.count: 3, now ")),
        "{stderr}"
    );
    // And one is of another command.
    json["command_line"] = "stasis sim fixed:1us --workload job.fio".into();
    std::fs::write(one, json.to_string()).unwrap();
    let output = stasis(&work, &["archive", "results", "-o", "all.tar.zst"]);
    assert!(error(&output).contains("were made by several commands"), "{}", error(&output));
}

/// A study's folder as the Python package leaves it; the package's own tests repeat one.
#[test]
fn a_study_is_archived_when_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let work = project(folder.path());
    ok(&work, &["sim", "m.toml", "--workload", "job.fio", "--results", "point", "--ios", "none"]);
    std::fs::write(work.join("s.toml"), "[simulate]\nmodel = 'm.toml'\n[axes]\nseed = [0]\n")
        .unwrap();
    let study = work.join("s-study");
    let (old, new) = ("0".repeat(64), "1".repeat(64));
    for key in [&old, &new] {
        let point = study.join("points").join(key);
        std::fs::create_dir_all(&point).unwrap();
        std::fs::copy(work.join("point/summary.json"), point.join("summary.json")).unwrap();
        std::fs::write(point.join("point.json"), r#"{"values": {"seed": 0}}"#).unwrap();
    }
    std::fs::create_dir_all(study.join("figures/seed=0")).unwrap();
    std::fs::write(study.join(format!("figures/seed=0/{}.parquet", &new[..16])), "").unwrap();
    let input = |path: &str| serde_json::json!({"path": path, "bytes": 1, "sha256": "0"});
    let inputs = ["s.toml", "m.toml", "job.fio"].map(input);
    let mut about = serde_json::json!({"name": "s", "kind": "sim", "axes": ["seed"], "id": "1"});
    let archive = |about: &serde_json::Value| {
        std::fs::write(study.join("study.json"), about.to_string()).unwrap();
        stasis(&work, &["archive", "s-study", "-o", "study.tar.zst"])
    };
    let refused = error(&archive(&about));
    assert!(refused.contains("does not say what repeats the study"), "{refused}");
    about["repeat"] = serde_json::json!({
        "command": "stasis sweep s.toml --results again",
        "inputs": inputs,
        "started_at": "2100-01-01T00:00:00Z",
        "finished": 0,
        "total": 1,
    });
    let refused = error(&archive(&about));
    assert!(refused.contains("0 of 1 points"), "{refused}");
    about["repeat"]["finished"] = 1.into();
    let output = archive(&about);
    assert!(output.status.success(), "{}", error(&output));
    let mut list = Command::new("tar");
    list.args(["--zstd", "-tf", "study.tar.zst"]).current_dir(&work);
    let list = list.output().unwrap().stdout;
    let list = String::from_utf8(list).unwrap();
    let has = |name: &str| list.lines().any(|line| line == name);
    assert!(has("files/work/s.toml") && has("files/all.fio"), "{list}");
    assert!(has(&format!("results/points/{new}/summary.json")), "{list}");
    assert!(!list.contains(&old), "a point of the study as it was before: {list}");
    for (text, reason) in [
        ("model = '/m.toml'", "names a whole path"),
        ("[experiment.guest]\nkernel = '~/linux'", "the kernel `~/linux` of the guest is this"),
    ] {
        std::fs::write(work.join("s.toml"), text).unwrap();
        let refused = error(&archive(&about));
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn what_cannot_be_repeated_is_not_archived() {
    let folder = tempfile::tempdir().unwrap();
    let work = project(folder.path());
    let refused = |words: &[&str], expected: &str| {
        ok(&work, words);
        let output = stasis(&work, &["archive", "results", "-o", "run.tar.zst"]);
        let stderr = error(&output);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
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
