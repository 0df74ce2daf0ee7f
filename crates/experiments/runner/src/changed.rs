//! A run that is another one's branch: up to a moment it is that run, and its own experiment from there
//! on.

use std::path::Path;

use anyhow::{bail, Context, Result};
use serde_json::{json, Value};
use stasis_channel::Call;
use stasis_experiment::{Engine, Experiment};
use stasis_results::Drive;
use stasis_run_events::Moment;

use crate::debugged::At;

/// The run that a branch begins as.
#[derive(Debug, Clone)]
pub struct Changed<'a> {
    /// Its experiment.
    pub run: &'a Experiment,
    /// The folder of its relative paths.
    pub base: &'a Path,
    /// The moment at which the branch leaves that run; None for the last snapshot.
    pub at: Option<At>,
    /// The way to call the guests' agents, for a branch that changes commands.
    pub call: Option<Call>,
}

/// A value of an experiment that a branch has changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Its key, as `drive.d.model.read`.
    pub key: String,
    /// The run's value, null where it has none.
    pub was: Value,
    /// The branch's.
    pub is: Value,
}

/// Keys that a branch may change, with all below them. Of drives and those who share them there are
/// others ([`SETTINGS`]), of machines the command.
const MAY: [&str; 7] =
    ["seed", "fault", "fault-space", "virtual-limit", "wall-limit", "results", COMMAND];
/// Keys that may change of each table: those of drives, and those of who shares them.
const SETTINGS: [(&str, &[&str]); 3] = [
    ("drive", &["model", "scheduler", "limits"]),
    ("disk", &["weight", "ioprio", "limits"]),
    ("workload", &["weight", "ioprio", "group-weight", "limits"]),
];
/// The key of a command, of all machines or of one.
const COMMAND: &str = "command";

impl Changed<'_> {
    /// The moment in a run of `drives`.
    pub(crate) fn moment(&self, engine: Engine, drives: &[Drive]) -> Result<Option<Moment>> {
        self.at.as_ref().map(|at| at.moment("a branch of a run", engine, drives)).transpose()
    }

    /// The values that `branch` has changed.
    ///
    /// # Errors
    /// Names the key of one that a branch cannot change.
    pub fn differences(&self, branch: &Experiment) -> Result<Vec<Difference>> {
        let table = |experiment: &Experiment| {
            serde_json::to_value(experiment).context("cannot write an experiment")
        };
        let (was, is) = (table(self.run)?, table(branch)?);
        let mut all = Vec::new();
        differ("", &was, &is, &mut all);
        // The place of the results, and the time that somebody waits for them, is no part of the
        // run.
        all.retain(|one| one.key != "results" && one.key != "wall-limit");
        if let Some(one) = all.iter().find(|one| !may(&one.key)) {
            bail!(
                "a branch cannot change {} ({} in the run, {} here): the machines have begun with \
                 it. It can change the seed, commands, faults, models and sharing of drives, and limits of time",
                one.key,
                one.was,
                one.is
            );
        }
        Ok(all)
    }

    /// Returns whether `branch` has another command than the run, and needs [`Self::call`].
    ///
    /// # Errors
    /// Names the key of a value that a branch cannot change.
    pub fn has_commands(&self, branch: &Experiment) -> Result<bool> {
        Ok(self.differences(branch)?.iter().any(|one| is_command(&one.key)))
    }

    /// The branch in the results' words: of which run it is one, and what differs. `at`: the moment
    /// that it became one (ns), if it did.
    pub fn described(&self, branch: &Experiment, at: Option<u64>) -> Result<Value> {
        let change = |one: Difference| json!({ "key": one.key, "was": one.was, "is": one.is });
        let changes: Vec<_> = self.differences(branch)?.into_iter().map(change).collect();
        Ok(json!({ "of_seed": self.run.seed, "at_ns": at, "changes": changes }))
    }
}

/// Returns whether the key is that of a command.
fn is_command(key: &str) -> bool {
    let of_machine = |rest: &str| rest.ends_with(&format!(".{COMMAND}"));
    key == COMMAND || key.strip_prefix("machine.").is_some_and(of_machine)
}

/// Returns whether a branch may change the value of this key.
fn may(key: &str) -> bool {
    let below = |allowed: &str| {
        key.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    MAY.iter().any(|allowed| below(allowed))
        || is_command(key)
        || SETTINGS.iter().any(|(table, keys)| is_setting(key, table, keys))
}

/// Returns whether the key is one of these of a table of that name: `TABLE.NAME.KEY`, which may lie
/// in a machine's.
fn is_setting(key: &str, table: &str, keys: &[&str]) -> bool {
    let own = key.strip_prefix(table).or_else(|| {
        let (machine, rest) = key.split_once(&format!(".{table}"))?;
        machine.starts_with("machine.").then_some(rest)
    });
    let Some(own) = own.and_then(|own| own.strip_prefix('.')) else { return false };
    let is = |setting: &str, key: &str| {
        setting.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // A name can have dots, as that of a disk without one: the plans' check has the last word.
    let mut settings = own.match_indices('.').map(|(dot, _)| &own[dot + 1..]);
    settings.any(|setting| keys.iter().any(|key| is(setting, key)))
}

/// Adds the values that differ between two tables, by their keys below `path`. Of tables in a list, that
/// of a drive or a machine is called by its name.
fn differ(path: &str, was: &Value, is: &Value, all: &mut Vec<Difference>) {
    if was == is {
        return;
    }
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match (was, is) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let value_in =
                    |table: &serde_json::Map<_, _>| table.get(key).cloned().unwrap_or_default();
                differ(&below(key), &value_in(before), &value_in(after), all);
            }
        }
        (Value::Array(before), Value::Array(after))
            if before.len() == after.len() && before.iter().all(Value::is_object) =>
        {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                let name = before.get("name").and_then(Value::as_str);
                let name = name.map_or_else(|| index.to_string(), str::to_owned);
                differ(&below(&name), before, after, all);
            }
        }
        _ => all.push(Difference { key: path.to_owned(), was: was.clone(), is: is.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "command = ['true']\nseed = 3\n\
        [[drive]]\nname = 'd'\nmodel = 'fixed:1us'\nmedium = { ram = '1MiB' }\n";

    fn experiment(text: &str) -> Experiment {
        let mut experiment: Experiment = stasis_config::read_text(text).unwrap();
        experiment.finish().unwrap();
        experiment
    }

    fn differences(from: &str, to: &str) -> Result<Vec<String>, String> {
        let run = experiment(RUN);
        let branch = experiment(&RUN.replacen(from, to, 1));
        let changed = Changed { run: &run, base: Path::new("."), at: None, call: None };
        let found = changed.differences(&branch).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|one| format!("{} {} {}", one.key, one.was, one.is)).collect())
    }

    #[test]
    fn what_a_branch_changes_is_told_by_its_key() {
        assert_eq!(differences("seed", "seed"), Ok(vec![]));
        assert_eq!(differences("seed = 3", "seed = 4"), Ok(vec!["seed 3 4".into()]));
        let model = differences("fixed:1us", "fixed:2us").unwrap();
        assert!(model.iter().any(|one| one.starts_with("drive.d.model.")), "{model:?}");
        let fault = differences("[[drive]]", "[[fault]]\nkind = 'slow'\nfactor = 2.0\n[[drive]]");
        assert!(fault.unwrap()[0].starts_with("fault [] [{"));
        let command = differences("['true']", "['false']").unwrap();
        assert_eq!(command, [r#"command ["true"] ["false"]"#]);
        let shared = differences("model =", "limits = { iops = 9 }\nmodel =").unwrap();
        assert_eq!(shared, ["drive.d.limits.iops null 9"]);
        assert_eq!(differences("seed", "results = 'r'\nwall-limit = '3s'\nseed"), Ok(vec![]));
    }

    #[test]
    fn what_the_machines_have_begun_with_is_refused_by_its_key() {
        for (from, to, key) in [
            ("1MiB", "2MiB", "drive.d.medium.ram"),
            ("name = 'd'", "name = 'd'\nqueues = 2", "drive.d.queues"),
            ("[[drive]]", "[machine]\nvcpus = 2\n[[drive]]", "machine.vcpus"),
            ("[[drive]]", "[guest]\npackages = ['jq']\n[[drive]]", "guest.packages"),
            ("seed = 3", "seed = 3\nengine = 'kvm'", "engine"),
        ] {
            let refused = differences(from, to).unwrap_err();
            assert!(refused.starts_with(&format!("a branch cannot change {key} ")), "{refused}");
        }
    }
}
