//! Differences in the set-up of candidates.

use std::collections::{BTreeMap, BTreeSet};

use stasis_report::{Column, Table};

use crate::{Candidate, Run};

/// Values of one parameter that are listed, and characters of a value that are shown.
const LISTED: usize = 8;
const SHOWN: usize = 120;

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
