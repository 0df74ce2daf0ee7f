//! Figures of a summary by steps of virtual time: for which share of each step a processor ran, a
//! channel or a LUN was in use, and how many bytes each workload on a shared drive moved.

use serde_json::Value;
use stasis_block::inside::Usages;
use stasis_results::Summary;

/// A quantity by steps of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    /// Its owner, such as a drive.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Time at which the first step begins (ns of virtual time).
    pub begin: u64,
    /// Length of a step (ns).
    pub step: u64,
    /// Its value in each step.
    pub values: Vec<f64>,
}

/// ns of a second.
const SECOND: f64 = 1e9;
/// The step of a workload's bandwidth (ns): its name in `summary.json` contains the step.
const BANDWIDTH_STEP: u64 = 2_000_000_000;

/// The counters of a run; of the drives only those that `wanted` takes, by name.
pub fn counters(summary: &Summary, wanted: impl Fn(&str) -> bool) -> Vec<Counter> {
    let begin = (summary.boot_virtual_seconds * SECOND) as u64;
    let processors = summary.processors.iter().map(|processor| Counter {
        group: format!("Processors of {}", machine(summary, processor.machine)),
        name: format!("vCPU {} running", processor.number),
        unit: "%",
        begin,
        step: (processor.step_seconds * SECOND) as u64,
        values: percent(&processor.shares),
    });
    let drives = summary.drives.iter().filter(|drive| wanted(&drive.described.name));
    let insides = drives.flat_map(|drive| {
        drive.inside.as_ref().map_or(Vec::new(), |inside| inside.flashes(&drive.described.name))
    });
    let flash = insides.flat_map(|(name, inside)| {
        let parts = [(&inside.channels, "channel"), (&inside.luns, "LUN")];
        let of_parts = parts.map(|(of_part, part)| usages(&name, of_part, part));
        of_parts.into_iter().flatten()
    });
    let shared = summary.extra.get("shared").and_then(Value::as_array).into_iter().flatten();
    processors.chain(flash).chain(shared.flat_map(workloads)).collect()
}

/// A machine's name; of one that is alone, which has none, the word that tracks have too.
fn machine(summary: &Summary, number: u16) -> &str {
    let name =
        summary.extra.get("machines").and_then(|all| all[usize::from(number)]["name"].as_str());
    name.unwrap_or("machine")
}

/// Returns the counters of a flash drive's resources; time begins with the machine.
fn usages(drive: &str, usages: &Usages, part: &str) -> Vec<Counter> {
    let step = usages.bucket;
    let counter = |(number, row): (usize, &Vec<f64>)| Counter {
        group: format!("Inside {drive}"),
        name: format!("{part} {number} in use"),
        unit: "%",
        begin: 0,
        step,
        values: percent(row),
    };
    usages.busy.iter().enumerate().filter(|_| step > 0).map(counter).collect()
}

/// Returns the counters of the host's workloads on a shared drive.
fn workloads(shared: &Value) -> Vec<Counter> {
    let drive = shared["name"].as_str().unwrap_or_default();
    let workloads = shared["workloads"].as_array().into_iter().flatten();
    let counter = |workload: &Value| Counter {
        group: format!("Host workloads on {drive}"),
        name: workload["name"].as_str().unwrap_or_default().to_owned(),
        unit: "B/s",
        begin: 0,
        step: BANDWIDTH_STEP,
        values: numbers(&workload["bytes_per_second_each_2s"]),
    };
    workloads.map(counter).filter(|counter| !counter.values.is_empty()).collect()
}

fn numbers(row: &Value) -> Vec<f64> {
    row.as_array().into_iter().flatten().map(|value| value.as_f64().unwrap_or_default()).collect()
}

/// Shares of 1 in percent, to the thousandth.
fn percent(shares: &[f64]) -> Vec<f64> {
    shares.iter().map(|share| (share * 1e5).round() / 1e3).collect()
}
