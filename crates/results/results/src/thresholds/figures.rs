//! The figures that a threshold can name: the numbers of `summary.json` that depend on the run
//! alone, under their names there.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Serialize;
use serde_json::{json, Map, Value};
use stasis_block::inside::{FlashInside, Inside};
use stasis_block::{Health, Operation};
use stasis_run_events::{Ending, Outcome};

use super::unit::Unit;
use crate::summary::{DriveSummary, OperationSummary, Summary, INCIDENTAL_FIELDS};

/// The latencies that a name without another one's prefix is of: those that the guest got.
const DELIVERED: &str = "delivered_ns.";

/// Subject of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The run as a whole.
    Run,
    /// A drive.
    Drive,
    /// An operation on a drive, or of a job.
    Operation,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Its name in a threshold.
    pub name: String,
    /// Its place in `summary.json`, below its subject's.
    pub path: String,
    /// Its subject.
    pub subject: Subject,
    /// Its unit there.
    pub unit: Unit,
}

/// Every figure, those of the run first.
pub fn all() -> &'static [Figure] {
    static ALL: LazyLock<Vec<Figure>> = LazyLock::new(list);
    &ALL
}

/// The numbers of a value by their keys, with dots between them; none for one without a value.
pub(super) fn flat(value: &impl Serialize) -> BTreeMap<String, Option<f64>> {
    fn walk(path: &str, value: &Value, numbers: &mut BTreeMap<String, Option<f64>>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    walk(&format!("{path}{dot}{key}"), value, numbers);
                }
            }
            Value::Number(number) => drop(numbers.insert(path.to_owned(), number.as_f64())),
            Value::Null => drop(numbers.insert(path.to_owned(), None)),
            _ => {}
        }
    }
    let mut numbers = BTreeMap::new();
    // A summary can be written as JSON.
    walk("", &serde_json::to_value(value).unwrap_or_default(), &mut numbers);
    numbers
}

/// A flash drive's internal activity, every figure of which is written.
pub(super) fn flash() -> Option<FlashInside> {
    let nothing = json!({ "bucket": 0, "busy": [] });
    let read = serde_json::from_value(json!({
        "at": 0, "write_amplification": 1, "effective_over_provisioning": 0, "host_units": 0,
        "programmed_units": 0, "moved_units": 0, "collections": 0, "read_reclaims": 1,
        "refreshes": 1, "scrub_reads": 1, "line_padding": 1, "collection_time": 0,
        "operations": {}, "latency": {}, "channels": nothing, "luns": nothing, "wear": [],
        "health": Health::default(), "ftl": null,
    }));
    read.ok()
}

/// The list, from a summary in which every figure has a value.
fn list() -> Vec<Figure> {
    let outcome = Outcome::of(Ending::Exited(0));
    let run = Summary::new(&outcome, "", Duration::ZERO, Vec::new(), Map::new());
    let inside = flash().map(|flash| Inside::Flash(Box::new(flash)));
    let drive = DriveSummary { way_ns: Some(0), inside, ..DriveSummary::default() };
    let operation = OperationSummary {
        max_error_percent: Some(0.0),
        way_percent: Some(0.0),
        ..OperationSummary::default()
    };
    let names = |numbers: BTreeMap<String, Option<f64>>| {
        numbers.into_iter().filter_map(|(name, value)| value.map(|_| name))
    };
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let incidental = |name: &String| INCIDENTAL_FIELDS.contains(&first(name).as_str());
    let operations = Operation::ALL.map(Operation::name);
    // Of a flash drive's parts, steps over time and the like only the whole.
    let own = |name: &String| {
        let deep = name.split('.').count() > 2;
        !operations.contains(&first(name).as_str()) && !deep
    };
    let mut figures = Vec::new();
    let mut add = |name: &str, path: &str, subject| {
        let (name, path) = (name.to_owned(), path.to_owned());
        figures.push(Figure { unit: Unit::of(&path), name, path, subject });
    };
    names(flat(&run)).filter(|name| !incidental(name)).for_each(|name| {
        add(&name, &name, Subject::Run);
    });
    let of_drive: Vec<String> = names(flat(&drive)).filter(own).collect();
    of_drive.iter().for_each(|name| add(name, name, Subject::Drive));
    // A name is of one subject: the drive's active time, not that of its operations.
    for name in names(flat(&operation)).filter(|name| !of_drive.contains(name)) {
        if let Some(short) = name.strip_prefix(DELIVERED) {
            add(short, &name, Subject::Operation);
        }
        add(&name, &name, Subject::Operation);
    }
    figures
}
