//! The set-up of runs, and what differs in it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use stasis_report::{Column, Table};
use stasis_results::{Summary, INCIDENTAL_FIELDS};

use crate::{Candidate, Run};

/// Fields of a summary beside those of [`Summary`] that are results, or names.
const RESULTS: [&str; 12] = [
    "title",
    "machines",
    "shared",
    "networks",
    "unfinished",
    "lost_ios",
    "timeline",
    "profile",
    "guest_ios",
    "cluster",
    "faults",
    "trace",
];
/// Incidental fields that are a set-up all the same: another program may give other figures.
const PROGRAMS: [&str; 4] = ["stasis_version", "stasis_commit", "qemu", "host_kernel"];
/// Keys of an experiment that a summary has under another name, or that name files of results.
const TOLD_ELSEWHERE: [&str; 6] =
    ["command", "seed", "engine", "results", "machine.vcpus", "machine.memory"];
/// Keys of a drive that a summary has under another name.
const TOLD_OF_DRIVES: [&str; 4] = ["name", "model", "medium", "interface"];
/// Values of one parameter that are listed, and characters of a value that are shown.
const LISTED: usize = 8;
const SHOWN: usize = 120;

/// The set-up of a run: parameters by their names, such as `drive0: model` or `vcpus`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setup(pub BTreeMap<String, String>);

impl Setup {
    /// Returns the set-up of a summary.
    pub fn of(summary: &Summary) -> Self {
        let mut all = BTreeMap::from([("engine".to_owned(), summary.engine.clone())]);
        for (name, value) in &summary.extra {
            let incidental = INCIDENTAL_FIELDS.contains(&name.as_str());
            if !RESULTS.contains(&name.as_str())
                && (!incidental || PROGRAMS.contains(&name.as_str()))
            {
                flatten(&mut all, name, value);
            }
        }
        for drive in &summary.drives {
            let drive = &drive.described;
            for (name, text) in [
                ("model", &drive.model),
                ("interface", &drive.interface),
                ("medium", &drive.medium),
            ] {
                all.insert(format!("{}: {name}", drive.name), text.clone());
            }
            let mut parameters = BTreeMap::new();
            flatten(&mut parameters, "", &drive.parameters);
            let named = |(name, value)| (format!("{}: {name}", drive.name), value);
            // A table of one value has no name below the drive's.
            parameters.retain(|name, _| !name.is_empty());
            all.extend(parameters.into_iter().map(named));
        }
        Self(all)
    }

    /// The keys of the experiment that a summary tells, without those of [`Setup::of`]; none where it
    /// tells none.
    pub fn of_experiment(summary: &Summary) -> Option<Self> {
        let experiment = summary.extra.get("experiment")?.as_object()?;
        let mut all = BTreeMap::new();
        for (key, value) in experiment {
            match (key.as_str(), value) {
                ("drive", Value::Array(drives)) => {
                    for (number, drive) in drives.iter().enumerate() {
                        let name = named(drive, || format!("drive{number}"));
                        let mut own = BTreeMap::new();
                        flatten(&mut own, "", drive);
                        let is_told = |key: &str| {
                            TOLD_OF_DRIVES.contains(&key.split('.').next().unwrap_or_default())
                        };
                        own.retain(|key, _| !is_told(key));
                        let of_drive = |(key, value)| (format!("{name}: {key}"), value);
                        all.extend(own.into_iter().map(of_drive));
                    }
                }
                (key, value) => flatten(&mut all, key, value),
            }
        }
        all.retain(|key, _| !TOLD_ELSEWHERE.contains(&key.as_str()));
        Some(Self(all))
    }

    /// Calls its drives `name`; it has one.
    pub(crate) fn rename(&mut self, name: &str) {
        let renamed = std::mem::take(&mut self.0).into_iter().map(|(key, value)| {
            let key = match key.split_once(": ") {
                Some((_, parameter)) => format!("{name}: {parameter}"),
                None => key,
            };
            (key, value)
        });
        self.0 = renamed.collect();
    }
}

/// The name of a table that has one, else `other`.
fn named(table: &Value, other: impl FnOnce() -> String) -> String {
    let name = table.get("name").and_then(Value::as_str);
    name.map_or_else(other, str::to_owned)
}

/// Each value of a table under its path; lists as one text.
fn flatten(into: &mut BTreeMap<String, String>, name: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = match name {
                    "" => key.clone(),
                    name => format!("{name}.{key}"),
                };
                flatten(into, &key, value);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (number, item) in items.iter().enumerate() {
                let part = named(item, || number.to_string());
                flatten(into, &format!("{name}.{part}"), item);
            }
        }
        Value::Array(items) => {
            let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            let all: Vec<_> = items.iter().map(text).collect();
            into.insert(name.to_owned(), all.join(" "));
        }
        Value::String(text) => drop(into.insert(name.to_owned(), text.clone())),
        other => drop(into.insert(name.to_owned(), other.to_string())),
    }
}

/// The set-up of a run as far as it is known; `has_experiment`: with the experiment, as all runs
/// have one.
fn setups(run: &Run, has_experiment: bool) -> impl Iterator<Item = &BTreeMap<String, String>> {
    let experiment = run.experiment.as_ref().filter(|_| has_experiment);
    [Some(&run.setup), experiment].into_iter().flatten().map(|setup| &setup.0)
}

/// The parameters in which candidates differ, with each candidate's value. Runs of one candidate
/// that differ, in their seed say, have all their values.
pub fn differences(candidates: &[Candidate]) -> Vec<(String, Vec<String>)> {
    let runs = || candidates.iter().flat_map(|one| &one.runs);
    // Results of an older version do not tell their experiment.
    let has_experiment = runs().all(|run| run.experiment.is_some());
    let keys = runs().flat_map(|run| setups(run, has_experiment).flat_map(BTreeMap::keys));
    let names: BTreeSet<&String> = keys.collect();
    let values_of = |candidate: &Candidate, name: &str| {
        let mut values: Vec<&str> = Vec::new();
        for run in &candidate.runs {
            let value = setups(run, has_experiment)
                .find_map(|setup| setup.get(name))
                .map_or("–", String::as_str);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let more = if values.len() > LISTED { ", …" } else { "" };
        values.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ") + more
    };
    let rows = names.into_iter().map(|name| {
        let values: Vec<_> =
            candidates.iter().map(|candidate| values_of(candidate, name)).collect();
        (name.clone(), values)
    });
    rows.filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
}

/// The differences as a table, a column for each candidate.
pub(crate) fn table<'a>(
    candidates: &[Candidate],
    differences: impl Iterator<Item = &'a (String, Vec<String>)>,
) -> Table {
    let named = candidates.iter().map(|candidate| Column::left(candidate.name.clone()));
    let mut table = Table::new([Column::left("parameter")].into_iter().chain(named).collect());
    let short = |text: &String| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.clone(),
    };
    for (name, values) in differences {
        table.push([name.clone()].into_iter().chain(values.iter().map(short)).collect());
    }
    table
}
