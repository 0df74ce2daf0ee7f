//! The differences between two folders of results, for `stasis repeat`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use stasis_results::{comparable, KeptIos, ResultsError, Summary, FIGURES_FILE};
use stasis_run_events::IoRecord;

use super::whole::{read_summary, Whole};

/// Fields of a summary on which all others depend: the guest with the first process of this
/// program's build, its kernel and recipe, the engine.
const CAUSES: [&str; 4] = ["guest", "kernel", "engine", "seed"];
/// Descriptions of several runs together, of a crash test and a reproduction.
const TOGETHER: [&str; 2] = [stasis_crash_test::FILE, FIGURES_FILE];
/// Fields of a crash test's description that follow from this machine's speed and paths.
const OF_THE_MACHINE: [&str; 4] = ["seconds", "states_per_hour", "disks", "experiment"];

/// Outcome of a comparison of two sets of results.
pub struct Compared {
    /// Each difference by its place; causes first: where these differ, all else may.
    pub differences: Vec<String>,
    /// The I/Os of the second.
    pub ios: u64,
}

/// Compares two folders of results.
pub fn compared(first: &Whole, second: &Whole) -> Result<Compared> {
    let mut differences = Vec::new();
    let mut ios = 0;
    let engine = |whole: &Whole| whole.first.as_ref().map(|first| first.engine.clone());
    if let (Some(one), Some(other)) = (engine(first), engine(second)) {
        if one != other {
            eprintln!("stasis: the results were made under {one}; these are under {other}");
        }
    }
    let names: BTreeSet<_> = first.runs.keys().chain(second.runs.keys()).collect();
    for name in names {
        let (Some(a), Some(b)) = (first.runs.get(name), second.runs.get(name)) else {
            differences.push((false, format!("only one of the two has the run {name}")));
            continue;
        };
        let found = runs(&read_summary(a)?, &read_summary(b)?, a, b)?;
        let is_cause = |found: &String| CAUSES.iter().any(|cause| found.starts_with(cause));
        differences.extend(found.into_iter().map(|found| {
            let place = if name.is_empty() { String::new() } else { format!("{name}: ") };
            (is_cause(&found), format!("{place}{found}"))
        }));
        ios += count(b)?;
    }
    for file in TOGETHER {
        let read = |whole: &Whole| {
            let text = std::fs::read(whole.folder.join(file)).ok();
            let value: Option<Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
            value.map(|value| {
                let mut value = comparable(&value);
                if let Some(fields) = value.as_object_mut() {
                    OF_THE_MACHINE.iter().for_each(|name| drop(fields.remove(*name)));
                }
                value
            })
        };
        let mut found = Vec::new();
        let (one, other) = (read(first).unwrap_or_default(), read(second).unwrap_or_default());
        compare("", &one, &other, &mut found);
        differences.extend(found.into_iter().map(|found| (false, format!("{file}: {found}"))));
    }
    // Stable: those of a kind stay in their order.
    differences.sort_by_key(|(is_cause, _)| !is_cause);
    Ok(Compared { differences: differences.into_iter().map(|(_, text)| text).collect(), ios })
}

/// Differences between two runs: figures by their place, then the first I/O.
fn runs(first: &Summary, second: &Summary, a: &Path, b: &Path) -> Result<Vec<String>> {
    let value =
        |summary: &Summary| Ok::<_, anyhow::Error>(comparable(&serde_json::to_value(summary)?));
    let mut found = Vec::new();
    compare("", &value(first)?, &value(second)?, &mut found);
    let (mut before, mut after) = match (open(a)?, open(b)?) {
        (Some(before), Some(after)) => (before, after),
        (None, None) => return Ok(found),
        _ => {
            found.push("only one of the two kept its I/Os".into());
            return Ok(found);
        }
    };
    for number in 1u64.. {
        let next = |ios: &mut KeptIos| ios.next().transpose();
        let pair: (Option<IoRecord>, Option<IoRecord>) = (next(&mut before)?, next(&mut after)?);
        match pair {
            (None, None) => break,
            (one, other) if one == other => {}
            (Some(one), Some(other)) => {
                found.push(format!(
                    "I/O {number}: submitted at {} and {} ns, delivered at {} and {} ns",
                    one.submit, other.submit, one.delivered, other.delivered
                ));
                break;
            }
            _ => {
                found.push(format!("one of the two ends before I/O {number}"));
                break;
            }
        }
    }
    Ok(found)
}

/// The I/Os of a run, where it kept them.
fn open(results: &Path) -> Result<Option<KeptIos>> {
    let kept = stasis_results::IOS_FILES.iter().any(|name| results.join(name).exists());
    kept.then(|| KeptIos::open(results)).transpose().map_err(|error: ResultsError| error.into())
}

fn count(results: &Path) -> Result<u64> {
    let mut count = 0;
    for io in open(results)?.into_iter().flatten() {
        io?;
        count += 1;
    }
    Ok(count)
}

fn compare(path: &str, first: &Value, second: &Value, found: &mut Vec<String>) {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (first, second) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let field = |fields: &serde_json::Map<String, Value>| {
                    fields.get(key.as_str()).cloned().unwrap_or_default()
                };
                compare(&at(key), &field(a), &field(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (number, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&at(&number.to_string()), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: {a}, now {b}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_by_its_place() {
        let mut found = Vec::new();
        let [a, b] = [r#"{"a":1,"b":[{"c":2}]}"#, r#"{"a":1,"b":[{"c":3}],"d":4}"#]
            .map(|text| serde_json::from_str(text).unwrap());
        compare("", &a, &b, &mut found);
        assert_eq!(found, ["b.0.c: 2, now 3", "d: null, now 4"]);
    }
}
