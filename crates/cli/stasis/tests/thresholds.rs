//! Thresholds of simulations and runs as a user writes them: exit status, terminal, page, summary,
//! tests.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn stasis(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
    command.args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn words_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with a load of two jobs.
fn bench() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let job = "[global]\nsize=4m\nnumber_ios=50\n[reader]\nrw=randread\n[writer]\nrw=randwrite\n";
    std::fs::write(folder.path().join("job.fio"), job).unwrap();
    folder
}

fn text(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

#[test]
fn a_simulation_tells_everywhere_what_it_did_not_keep() {
    let folder = bench();
    let words = [
        "sim",
        "fixed:100us",
        "--workload",
        "job.fio",
        "--junit",
        "junit.xml",
        "--expect",
        "reader.read.p99 <= 100us",
        "--expect",
        "write.p50 < 1ns",
        "--expect",
        "errors==0",
    ];
    let output = stasis(folder.path(), &words);
    let stderr = words_of(&output);
    assert_eq!(output.status.code(), Some(99), "{stderr}");
    let unmet = "write.p50 < 1ns: drive0.write.p50 is 100 µs";
    assert!(stderr.contains(&format!("\nstasis: not met: {unmet}\n")), "{stderr}");
    assert!(stderr.contains("threshold met: errors==0: drive0."), "{stderr}");
    let summary: Value = serde_json::from_str(&text(&folder, "results/summary.json")).unwrap();
    // The simulation itself has succeeded.
    assert_eq!(summary["exit_status"], 0);
    let thresholds = summary["thresholds"].as_array().unwrap();
    let met: Vec<_> = thresholds.iter().map(|one| one["met"].as_bool().unwrap()).collect();
    assert_eq!(met, [true, false, true]);
    assert_eq!(thresholds[0]["figure"], "reader.read.p99");
    let page = text(&folder, "results/report.html");
    assert!(
        page.contains("<p class=\"sentence\">Not met: write.p50 &lt; 1ns: "),
        "the first words"
    );
    assert!(page.contains("1 of 3 thresholds not met"));
    let junit = text(&folder, "junit.xml");
    assert!(junit.contains("tests=\"4\" failures=\"1\""), "{junit}");
    // The same without what was not kept.
    let kept = [&words[..8], &words[10..]].concat();
    let output = stasis(folder.path(), &kept);
    assert_eq!(output.status.code(), Some(0), "{}", words_of(&output));
    assert!(text(&folder, "results/report.html").contains("All 2 thresholds are met."));
}

#[test]
fn each_of_several_simulations_has_thresholds() {
    let folder = bench();
    let words = [
        "sim",
        "fixed:100us",
        "fixed:1ms",
        "--workload",
        "job.fio",
        "--expect",
        "p99 < 500us",
        "--junit",
        "junit.xml",
    ];
    let output = stasis(folder.path(), &words);
    let stderr = words_of(&output);
    assert_eq!(output.status.code(), Some(99), "{stderr}");
    assert!(stderr.contains("stasis: 2-fixed-1ms: not met: p99 < 500us"), "{stderr}");
    assert_eq!(stderr.matches("not met").count(), 1, "{stderr}");
    let junit = text(&folder, "junit.xml");
    assert!(junit.contains("tests=\"4\" failures=\"1\""), "{junit}");
    assert!(junit.contains("classname=\"2-fixed-1ms\" name=\"p99 &lt; 500us\""), "{junit}");
}

/// Before a guest is built or a file is removed.
#[test]
fn what_cannot_be_kept_is_refused_before_the_run() {
    let folder = bench();
    let drive = "model=fixed:1us,medium=ram:1GiB,name=data";
    for (expect, has) in [
        ("red.p99 < 1ms", "did you mean `read`?"),
        ("date.read.p99 < 1ms", "did you mean `data`?"),
        ("read.p99 < 1", "needs a unit"),
        ("read.p98 < 1ms", "`p98` is no figure"),
        ("wall_seconds < 1s", "depends on the computer"),
    ] {
        let run = ["run", "--drive", drive, "--expect", expect, "--", "true"];
        let sim = ["sim", "fixed:1us", "--workload", "job.fio", "--expect", expect];
        let file = format!(
            "command = [\"true\"]\n[[expect]]\nthat = \"{expect}\"\n[[drive]]\nname = \"data\"\n\
             model = \"null\"\nmedium = {{ ram = \"1GiB\" }}\n"
        );
        std::fs::write(folder.path().join("e.toml"), file).unwrap();
        for words in [&run[..], &sim, &["run", "e.toml"]] {
            let stderr = words_of(&stasis(folder.path(), words));
            // A simulation's drive has another name.
            let has = if words[0] == "sim" && has.contains("data") { "`date` is no" } else { has };
            assert!(stderr.contains(has) && stderr.contains(expect), "{words:?}: {stderr}");
        }
    }
    assert!(!folder.path().join("results").exists());
    // The file of tests is no input's.
    let words = ["sim", "fixed:1us", "--workload", "job.fio", "--junit", "job.fio"];
    let output = stasis(folder.path(), &words);
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&folder, "job.fio").starts_with("[global]"));
    // It is asked for before any work.
    let junit = "--junit=none/x.xml";
    for words in [
        &["sim", "fixed:1us", "--workload", "job.fio", junit][..],
        &["sim", "fixed:1us", "fixed:2us", "--workload", "job.fio", junit],
        &["run", "--drive", drive, "--expect", "errors == 0", junit, "--", "true"],
    ] {
        let output = stasis(folder.path(), words);
        assert_eq!(output.status.code(), Some(125), "{words:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("cannot write none/x.xml"), "{words:?}: {message}");
        assert!(!folder.path().join("results").exists(), "{words:?}");
    }
}
