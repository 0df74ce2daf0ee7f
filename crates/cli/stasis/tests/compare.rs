//! `stasis compare` on simulations.

use std::path::Path;
use std::process::{Command, Output};

fn stasis(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stasis")).args(words).current_dir(folder).output().unwrap()
}

fn simulate(folder: &Path, model: &str, results: &str, seeds: &str) {
    let job = "[r]\nrw=randread\nbs=4k\nsize=64m\nnumber_ios=3000\n";
    std::fs::write(folder.join("job.fio"), job).unwrap();
    let words = ["sim", model, "--workload", "job.fio", "--seed", seeds, "--results", results];
    let output = stasis(folder, &[&words[..], &["--size", "1GiB"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_slower_drive_is_found_and_the_same_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulate(folder, "uniform:80us-120us", "before", "1-4");
    simulate(folder, "uniform:80us-120us", "again", "5-8");
    simulate(folder, "uniform:90us-130us", "slower", "1-4");

    let same = stasis(folder, &["compare", "before", "again", "--fail-above", "5%"]);
    assert_eq!(same.status.code(), Some(0), "{}", String::from_utf8_lossy(&same.stderr));
    let slower = stasis(folder, &["compare", "before", "slower", "--fail-above", "5%"]);
    assert_eq!(slower.status.code(), Some(1), "{}", String::from_utf8_lossy(&slower.stderr));
    let table = String::from_utf8(slower.stdout).unwrap();
    assert!(table.contains("p99") && table.contains("slower"), "{table}");

    // Ten in a hundred: not by more than a quarter.
    let bound = stasis(folder, &["compare", "before", "slower", "--fail-above", "25", "--quiet"]);
    assert_eq!(bound.status.code(), Some(0));
    let json = std::fs::read(folder.join("comparison/comparison.json")).unwrap();
    let differences: Vec<serde_json::Value> = serde_json::from_slice(&json).unwrap();
    let mean = differences.iter().find(|one| one["statistic"] == "mean").unwrap();
    assert!((9.0..11.0).contains(&mean["percent"].as_f64().unwrap()), "{mean}");
    let page = std::fs::read_to_string(folder.join("comparison/comparison.html")).unwrap();
    assert!(page.contains("in 4 runs") && page.contains("Upper tail"));
}

#[test]
fn what_cannot_be_compared_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulate(folder, "fixed:100us", "one", "1");
    for (words, why) in [
        (vec!["compare", "one"], "RESULTS"),
        (vec!["compare", "one", "nothing"], "nothing"),
        (vec!["compare", "one", "one", "--fail-above", "much"], "a share such as 5%"),
    ] {
        let output = stasis(folder, &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{words:?}: {said}");
    }
}
