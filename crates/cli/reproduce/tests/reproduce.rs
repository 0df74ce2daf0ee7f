//! `stasis reproduce` as the documents have it, in its quick form, and its figures beside those
//! that are recorded in `tests/recorded/PUBLICATION.json`: under `exact`, Debian 12's QEMU and
//! kernel. STASIS_RECORD=femu,barrier adds the figures of these two, and runs no other; so does
//! STASIS_COMPARE=femu,barrier, and compares.

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

/// Largest distance of a figure from a recorded one: Debian's kernels change within a release.
const TOLERANCE: f64 = 0.05;

/// The same for differences and shares that are nothing but rounding.
const NOTHING: f64 = 1e-3;

/// How many times a figure of the tail may be a recorded one, or less. The quick forms have some
/// thousand I/Os: a handful that the guest's own interrupts meet decide p99 and above, and another
/// agent or kernel in the guest's memory meets others.
const TAIL_FACTOR: f64 = 4.0;

/// Returns whether a figure is one of the tail.
fn is_of_the_tail(figure: &str) -> bool {
    let word = figure.rsplit([',', ' ']).next().unwrap_or(figure);
    word == "max" || word == "stddev" || word.starts_with("p99")
}

/// Values of a figure in the recorded versions of the program. One version gives the same value
/// each time; another, whose agent lies otherwise in the guest's memory, may not.
fn versions(figure: &Value) -> Vec<f64> {
    figure["measured"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect()
}

/// Returns whether a figure of this name agrees with the recorded ones: it lies among them, or no
/// farther outside than [`TOLERANCE`] and half of what they differ by.
fn agrees(figure: &str, now: f64, recorded: &[f64]) -> bool {
    let least = recorded.iter().copied().fold(f64::INFINITY, f64::min);
    let most = recorded.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let margin = |end: f64| (TOLERANCE * end.abs()).max(NOTHING) + (most - least) / 2.0;
    let near = (least - margin(least)..=most + margin(most)).contains(&now);
    let of_tail = is_of_the_tail(figure) && least > 0.0;
    near || of_tail && (least / TAIL_FACTOR..=most * TAIL_FACTOR).contains(&now)
}

fn recorded(publication: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    folder.join(format!("{publication}.json"))
}

fn read_recorded(publication: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(recorded(publication)).unwrap_or_else(|_| "[]".into());
    serde_json::from_str(&text).unwrap()
}

/// Figures by their names; a name that several have counts them.
fn named(figures: &[Value]) -> Vec<(String, &Value)> {
    let mut counts = BTreeMap::new();
    let mut count = |name: &str| {
        *counts.entry(name.to_owned()).and_modify(|count| *count += 1).or_insert(1_u32)
    };
    let names = figures.iter().map(|figure| {
        let name = format!("{}: {}", figure["id"], figure["what"]);
        (format!("{name} ({})", count(&name)), figure)
    });
    names.collect()
}

/// Figures as they are recorded, a line each.
fn lines(figures: impl Iterator<Item = (Value, Vec<f64>)>) -> String {
    let line = |(figure, versions): (Value, Vec<f64>)| {
        let [id, name, unit] = ["id", "what", "unit"].map(|key| &figure[key]);
        format!(
            "  {{\"id\": {id}, \"what\": {name}, \"unit\": {unit}, \"measured\": {versions:?}}}"
        )
    };
    format!("[\n{}\n]\n", figures.map(line).collect::<Vec<_>>().join(",\n"))
}

/// The figures that depend on the experiment only, after those that are recorded.
fn kept(recorded: &[Value], figures: &[Value]) -> String {
    let of_this_machine = |figure: &&Value| {
        figure["measured"].is_null() || figure["what"].as_str().unwrap().contains("wall-clock")
    };
    let before: BTreeMap<_, _> = named(recorded).into_iter().collect();
    let figures: Vec<_> = figures.iter().filter(|one| !of_this_machine(one)).cloned().collect();
    lines(named(&figures).into_iter().map(|(name, figure)| {
        let mut versions = before.get(&name).map(|one| versions(one)).unwrap_or_default();
        // To the 12th digit: the last ones of a number do not survive being read.
        let measured = format!("{:.11e}", figure["measured"].as_f64().unwrap()).parse().unwrap();
        if !versions.contains(&measured) {
            versions.push(measured);
        }
        (figure.clone(), versions)
    }))
}

/// The recorded figures that differ or are missing.
fn differences(recorded: &[Value], figures: &[Value]) -> Vec<String> {
    let found: BTreeMap<_, _> = named(figures).into_iter().collect();
    let mut wrong = Vec::new();
    for (name, figure) in named(recorded) {
        let expected = versions(figure);
        match found.get(&name).and_then(|one| one["measured"].as_f64()) {
            Some(now) if agrees(figure["what"].as_str().unwrap(), now, &expected) => {}
            Some(now) => wrong.push(format!("{name}: {now}, recorded {expected:?}")),
            None => wrong.push(format!("{name} is not measured any more")),
        }
    }
    wrong
}

#[test]
fn recorded_figures_can_be_compared() {
    for (name, least) in PUBLICATIONS.into_iter().filter(|(name, _)| *name != OF_THE_MACHINE) {
        let recorded = read_recorded(name);
        assert!(recorded.len() >= least, "{name}: {}", recorded.len());
        // As the program gives them.
        let with = |figure: &Value, measured: f64| {
            let mut figure = figure.clone();
            figure["measured"] = measured.into();
            figure
        };
        let last = |figure: &Value| with(figure, *versions(figure).last().unwrap());
        let figures: Vec<_> = recorded.iter().map(last).collect();
        let text = std::fs::read_to_string(self::recorded(name)).unwrap();
        assert_eq!(kept(&recorded, &figures), text, "{name} is as it would be recorded");
        assert!(differences(&recorded, &figures).is_empty());
        // Another figure is found, and one that is gone.
        let firm = |one: &Value| {
            versions(one).iter().all(|measured| *measured > 0.1)
                && !is_of_the_tail(one["what"].as_str().unwrap())
        };
        let place = recorded.iter().position(firm).unwrap();
        let mut changed = figures.clone();
        let most = versions(&recorded[place]).into_iter().fold(0.0, f64::max);
        changed[place] = with(&recorded[place], 1.6 * most);
        assert_eq!(differences(&recorded, &changed).len(), 1, "{name}");
        changed.remove(place);
        assert_eq!(differences(&recorded, &changed).len(), 1, "{name}");
    }
}

#[test]
#[ignore = "takes half an hour: make slow-test"]
fn each_publication_is_repeated() {
    let record = std::env::var("STASIS_RECORD").ok();
    let names = record.clone().or_else(|| std::env::var("STASIS_COMPARE").ok());
    let chosen =
        |name: &str| names.as_ref().is_none_or(|names| names.split(',').any(|n| n == name));
    let mut wrong = Vec::new();
    for (name, least) in PUBLICATIONS.into_iter().filter(|(name, _)| chosen(name)) {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new(env!("CARGO_BIN_EXE_stasis-reproduce"))
            .args([name, "--quick", "--engine", "exact", "--results", "r"])
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
            std::fs::write(recorded(name), kept(&read_recorded(name), &figures)).unwrap();
        }
        let differences = differences(&read_recorded(name), &figures);
        wrong.extend(differences.iter().map(|difference| format!("{name}: {difference}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
