//! The set-up of runs, and what differs in it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use stasis_report::{Column, Summary, Table, INCIDENTAL_FIELDS};

use crate::Candidate;

/// Fields of a summary beside those of [`Summary`] that are results, or names.
const RESULTS: [&str; 5] = ["title", "machines", "shared", "unfinished", "lost_ios"];
/// Incidental fields that are a set-up all the same: another program may give other figures.
const PROGRAM: [&str; 2] = ["stasis_version", "stasis_commit"];
/// Values of one parameter that are listed, and characters of a value that are shown.
const LISTED: usize = 8;
const SHOWN: usize = 120;

/// The set-up of a run: parameters by their names, such as `drive0: model` or `vcpus`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setup(pub BTreeMap<String, String>);

impl Setup {
    /// That of a summary.
    pub fn of(summary: &Summary) -> Self {
        let mut all = BTreeMap::from([("engine".to_owned(), summary.engine.clone())]);
        for (name, value) in &summary.extra {
            let incidental = INCIDENTAL_FIELDS.contains(&name.as_str());
            if !RESULTS.contains(&name.as_str())
                && (!incidental || PROGRAM.contains(&name.as_str()))
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

    /// Calls its drives `name`; it has one.
    pub(crate) fn rename(&mut self, name: &str) {
        let renamed = std::mem::take(&mut self.0).into_iter().map(|(key, value)| {
            let key = match key.split_once(": ") {
                Some((_, of)) => format!("{name}: {of}"),
                None => key,
            };
            (key, value)
        });
        self.0 = renamed.collect();
    }
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
        Value::Array(items) => {
            let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            let all: Vec<_> = items.iter().map(text).collect();
            into.insert(name.to_owned(), all.join(" "));
        }
        Value::String(text) => drop(into.insert(name.to_owned(), text.clone())),
        other => drop(into.insert(name.to_owned(), other.to_string())),
    }
}

/// The parameters in which candidates differ, with each candidate's value. Runs of one candidate
/// that differ, in their seed say, have all their values.
pub fn differences(candidates: &[Candidate]) -> Vec<(String, Vec<String>)> {
    let names: BTreeSet<&String> = candidates
        .iter()
        .flat_map(|one| one.runs.iter().flat_map(|run| run.setup.0.keys()))
        .collect();
    let of = |candidate: &Candidate, name: &str| {
        let mut values: Vec<&str> = Vec::new();
        for run in &candidate.runs {
            let value = run.setup.0.get(name).map_or("–", String::as_str);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let more = if values.len() > LISTED { ", …" } else { "" };
        values.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ") + more
    };
    let rows = names.into_iter().map(|name| {
        let values: Vec<_> = candidates.iter().map(|candidate| of(candidate, name)).collect();
        (name.clone(), values)
    });
    rows.filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
}

/// The differences as a table, a column for each candidate.
pub(crate) fn table(candidates: &[Candidate], differences: &[(String, Vec<String>)]) -> Table {
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
