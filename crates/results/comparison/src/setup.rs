//! The set-up of a run.

use std::collections::BTreeMap;

use serde_json::Value;
use stasis_results::{Summary, INCIDENTAL_FIELDS};

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
