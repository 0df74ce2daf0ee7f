//! `stasis reproduce` as the documents have it, in its quick form, and its figures beside those
//! that are recorded in `tests/recorded/PUBLICATION.json`: under `exact`, Debian 12's QEMU and
//! kernel. STASIS_RECORD=femu,barrier records these two anew, and runs no other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Publications, and the least that their quick form measures.
const PUBLICATIONS: [(&str, usize); 5] = [
    ("freezing-time", 20),
    ("femu", 20),
    ("barrier", 10),
    ("coordination", 20),
    (OF_THE_MACHINE, 10),
];

/// Its figures are wall-clock times of this machine: two runs here differ by up to 3 times.
const OF_THE_MACHINE: &str = "controller";

/// How far a figure may be from the recorded one: Debian's kernels change within a release.
const TOLERANCE: f64 = 0.05;

fn recorded(publication: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    folder.join(format!("{publication}.json"))
}

/// The figures that depend on the experiment only, a line each.
fn kept(figures: &[Value]) -> String {
    let of_this_machine = |figure: &&Value| {
        figure["measured"].is_null() || figure["what"].as_str().unwrap().contains("wall-clock")
    };
    let line = |figure: &Value| {
        let [id, what, unit] = ["id", "what", "unit"].map(|key| &figure[key]);
        // To the 12th digit: the last ones of a number do not survive being read.
        let measured: f64 =
            format!("{:.11e}", figure["measured"].as_f64().unwrap()).parse().unwrap();
        format!(
            "  {{\"id\": {id}, \"what\": {what}, \"unit\": {unit}, \"measured\": {measured:?}}}"
        )
    };
    let lines: Vec<_> = figures.iter().filter(|one| !of_this_machine(one)).map(line).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// The recorded figures that differ or are missing.
fn differences(recorded: &[Value], figures: &[Value]) -> Vec<String> {
    let key = |figure: &Value| (figure["id"].to_string(), figure["what"].to_string());
    let found: BTreeMap<_, _> =
        figures.iter().map(|one| (key(one), one["measured"].as_f64())).collect();
    let mut wrong = Vec::new();
    for figure in recorded {
        let expected = figure["measured"].as_f64().expect("a figure");
        match found.get(&key(figure)).copied().flatten() {
            Some(now) if (now - expected).abs() <= TOLERANCE * expected.abs() => {}
            Some(now) => wrong.push(format!("{:?}: {now}, recorded {expected}", key(figure))),
            None => wrong.push(format!("{:?} is not measured any more", key(figure))),
        }
    }
    wrong
}

#[test]
fn recorded_figures_can_be_compared() {
    for (name, least) in PUBLICATIONS.into_iter().filter(|(name, _)| *name != OF_THE_MACHINE) {
        let text = std::fs::read_to_string(recorded(name)).unwrap();
        let figures: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert!(figures.len() >= least, "{name}: {}", figures.len());
        assert_eq!(kept(&figures), text, "{name} is as it would be recorded");
        assert!(differences(&figures, &figures).is_empty());
        // Another figure is found, and one that is gone.
        let mut changed = figures.clone();
        let place = figures.iter().position(|one| one["measured"].as_f64() > Some(0.0)).unwrap();
        changed[place]["measured"] = (figures[place]["measured"].as_f64().unwrap() * 1.1).into();
        assert_eq!(differences(&figures, &changed).len(), 1, "{name}");
        changed.remove(place);
        assert_eq!(differences(&figures, &changed).len(), 1, "{name}");
    }
}

#[test]
#[ignore = "takes half an hour: make slow-test"]
fn each_publication_is_repeated() {
    let record = std::env::var("STASIS_RECORD").ok();
    let chosen =
        |name: &str| record.as_ref().is_none_or(|names| names.split(',').any(|n| n == name));
    for (name, least) in PUBLICATIONS.into_iter().filter(|(name, _)| chosen(name)) {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new(env!("CARGO_BIN_EXE_stasis"))
            .args(["reproduce", name, "--quick", "--engine", "exact", "--results", "r"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{name}: {status}");
        let figures = std::fs::read(folder.path().join("r/figures.json")).unwrap();
        let figures: Vec<Value> = serde_json::from_slice(&figures).unwrap();
        let measured = figures.iter().filter(|figure| !figure["measured"].is_null()).count();
        assert!(measured >= least, "{name}: {measured} of {} figures", figures.len());
        assert!(folder.path().join("r/report.html").exists(), "{name}");
        if name == OF_THE_MACHINE {
            continue;
        }
        if record.is_some() {
            std::fs::write(recorded(name), kept(&figures)).unwrap();
        }
        let text = std::fs::read_to_string(recorded(name)).unwrap();
        let wrong = differences(&serde_json::from_str::<Vec<Value>>(&text).unwrap(), &figures);
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
}
