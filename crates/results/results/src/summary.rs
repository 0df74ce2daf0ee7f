//! `summary.json`: a run in figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stasis_run_events::{
    Ending, Exits, MachineOutcome, Outcome, Overshoot, ProcessorOutcome, SharedOutcome,
};

use crate::faults::FaultSummary;
use crate::folder::folder_of;
use crate::jobs::JobSummary;
use crate::slowest;
use crate::thresholds::{Judgement, UNMET};
use crate::SUMMARY_FILE;

pub use crate::drive_summary::{DriveSummary, FirstError, OperationSummary};

/// Fields of a summary that depend on the wall clock, the machine, the build, or where files are.
/// All others are the same for two runs of one experiment under `exact`. Those that are no field of
/// [`Summary`] are a caller's.
pub const INCIDENTAL_FIELDS: &[&str] = &[
    "wall_seconds",
    "boot_wall_seconds",
    "engine_wall_seconds",
    "frozen_seconds",
    "stasis_version",
    "stasis_commit",
    "started_at",
    "qemu",
    "host_kernel",
    "command_line",
    "repeat",
    "repeat_test",
    "command_wall_seconds",
    "experiment",
];

/// A summary without [`INCIDENTAL_FIELDS`], wherever in it they stand.
pub fn comparable(summary: &Value) -> Value {
    match summary {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !INCIDENTAL_FIELDS.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), comparable(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(comparable).collect(),
        other => other.clone(),
    }
}

/// A run in figures. Seconds are exact to the nanosecond.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The engine that ran the guest: `kvm`, `softkvm` or `exact`; `sim` and `serve` have none.
    pub engine: String,
    /// Ending of the run, in the words of [`Ending`]'s serialized form: `exited`, `not-started`,
    /// `panicked`, `hung`, `virtual-limit`, `wall-limit` or `cancelled`.
    pub ending: String,
    /// Why the command could not be started, or why the run was cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// See [`exit_status`].
    pub exit_status: i32,
    /// Virtual time of the command.
    pub virtual_seconds: f64,
    /// Virtual time of the guest's boot, up to the command.
    pub boot_virtual_seconds: f64,
    /// Wall-clock time, by this machine's clock.
    pub wall_seconds: f64,
    /// Wall-clock time of the boot, by the clock of the machine's host.
    pub boot_wall_seconds: f64,
    /// Wall-clock time of the command, by the clock of the machine's host. Within the
    /// software host of `exact` that clock counts instructions.
    pub engine_wall_seconds: f64,
    /// Wall-clock time during which guest time stood still for a medium.
    pub frozen_seconds: f64,
    /// Virtual time that was skipped as every processor was idle.
    pub skipped_seconds: f64,
    /// Exits from guest mode while the command ran.
    pub exits: u64,
    /// Exits while the command ran, by reason.
    pub exits_by_reason: Exits,
    /// Exits for each I/O after boot, by reason; empty without I/Os.
    #[serde(default)]
    pub exits_per_io: BTreeMap<String, f64>,
    /// Delays of the ends of slices of guest time.
    pub overshoot_ns: Overshoot,
    /// Calibrated cost of entry and exit, by kind (TSC ticks).
    pub calibration_ticks: Vec<(String, i64)>,
    /// TSC frequency as declared to the guest (kHz).
    pub tsc_khz: u64,
    /// Number of times that a processor was entered while the command ran.
    #[serde(default)]
    pub slices: u64,
    /// Largest distance by which one processor was ahead of another, in virtual time.
    #[serde(default)]
    pub clock_skew_max_ns: u64,
    /// Largest distance by which the clock that the processors share was ahead of the mean of their
    /// times.
    #[serde(default)]
    pub clock_lead_max_ns: u64,
    /// On how many of the host's threads processors were in guest mode at once.
    #[serde(default)]
    pub threads: u32,
    /// Largest distance that processors were allowed: the experiment's quantum, or more where
    /// slices end late.
    #[serde(default)]
    pub quantum_ns: u64,
    /// Duration of an interrupt from one processor to another.
    #[serde(default)]
    pub processor_call_ns: Overshoot,
    /// The processors, machine by machine.
    #[serde(default)]
    pub processors: Vec<ProcessorSummary>,
    /// The drives, in the order of the experiment.
    pub drives: Vec<DriveSummary>,
    /// The jobs of a job file, where one was simulated.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub jobs: Vec<JobSummary>,
    /// Reasons not to trust the result, see [`crate::trust`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// The run's thresholds, in the order of the experiment.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub thresholds: Vec<Judgement>,
    /// Fields that the caller added.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The activity of a processor while the command ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessorSummary {
    /// The number of its machine, and its own there.
    pub machine: u16,
    /// Its number there.
    pub number: u32,
    /// Virtual time for which it ran.
    pub running_seconds: f64,
    /// The rest of the command's virtual time. None of it is time for which the machine
    /// was frozen: then no virtual time passes, on any processor.
    #[serde(default)]
    pub idle_seconds: f64,
    /// The share of the command's virtual time for which it ran.
    pub utilization: f64,
    /// The length of a step of `shares`.
    pub step_seconds: f64,
    /// The share of each step for which it ran.
    pub shares: Vec<f64>,
}

impl Summary {
    /// The faults that could happen.
    pub fn faults(&self) -> Vec<FaultSummary> {
        let faults = self.extra.get("faults").cloned();
        faults.and_then(|faults| serde_json::from_value(faults).ok()).unwrap_or_default()
    }

    /// Reads the summary in a folder of results, or beside a file of results; None where there is
    /// none.
    pub fn beside(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder_of(path).join(SUMMARY_FILE)).ok()?).ok()
    }

    /// Names a fault as the cause of a drive's first error, if it can be.
    pub fn blame(&mut self, fault: &FaultSummary) {
        let fails = fault.kind.ends_with("-error") && fault.happened > 0;
        let is_target = |drive: &&mut DriveSummary| fails && drive.described.name == fault.target;
        let drive = self.drives.iter_mut().find(is_target);
        if let Some(first) = drive.and_then(|drive| drive.first_error.as_mut()) {
            let cause = || format!("the experiment's fault {}", fault.kind);
            first.cause.get_or_insert_with(cause);
        }
    }

    /// The summary of a run: `drives` in the order of the experiment, with the fields of the caller.
    pub fn new(
        outcome: &Outcome,
        engine: &str,
        wall: Duration,
        mut drives: Vec<DriveSummary>,
        mut extra: Map<String, Value>,
    ) -> Self {
        let message = match &outcome.ending {
            Ending::NotStarted { message, .. } => Some(message.clone()),
            Ending::Cancelled => Some(CANCELLED.to_owned()),
            _ => None,
        };
        for (drive, inside) in drives.iter_mut().zip(&outcome.inside) {
            drive.inside.clone_from(inside);
            slowest::join(&mut drive.slowest, &mut drive.inside);
        }
        for (drive, cut) in drives.iter_mut().zip(&outcome.cut_ios) {
            drive.cut_ios = *cut;
        }
        for (drive, error) in drives.iter_mut().zip(&outcome.medium_errors) {
            if let Some(first) = &mut drive.first_error {
                first.cause.clone_from(error);
            }
        }
        extra.retain(|name, _| !OWN_FIELDS.contains(&name.as_str()));
        // Figures of several machines, and of drives that are shared, where there are any.
        let machines: Vec<Value> =
            outcome.machines.iter().map(|one| machine(one, outcome)).collect();
        let of_shared = |shared: &SharedOutcome| {
            let mut shared = shared.clone();
            let its = |name: &str| shared.tenants.iter().any(|tenant| tenant.name == name);
            let disks = drives.iter_mut().filter(|drive| its(&drive.described.name));
            slowest::join_disks(disks.flat_map(|drive| &mut drive.slowest), &mut shared.inside);
            serde_json::to_value(shared).ok()
        };
        let shared: Vec<Value> = outcome.shared.iter().filter_map(of_shared).collect();
        let networks: Vec<Value> =
            outcome.networks.iter().filter_map(|one| serde_json::to_value(one).ok()).collect();
        for (name, rows) in [("machines", machines), ("shared", shared), ("networks", networks)] {
            if !rows.is_empty() {
                extra.insert(name.into(), rows.into());
            }
        }
        let ios = drives.iter().flat_map(DriveSummary::used).map(|(_, used)| used.count).sum();
        Self {
            engine: engine.to_owned(),
            ending: ending_name(&outcome.ending).to_owned(),
            message,
            exit_status: exit_status(&outcome.ending),
            virtual_seconds: seconds(outcome.virtual_ns),
            boot_virtual_seconds: seconds(outcome.boot_virtual_ns),
            wall_seconds: seconds(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)),
            boot_wall_seconds: seconds(outcome.boot_wall_ns),
            engine_wall_seconds: seconds(outcome.wall_ns),
            frozen_seconds: seconds(outcome.frozen_ns),
            skipped_seconds: seconds(outcome.skipped_ns),
            exits: outcome.exits.total,
            exits_by_reason: outcome.exits,
            exits_per_io: exits_per_io(&outcome.exits, ios),
            overshoot_ns: outcome.overshoot,
            calibration_ticks: outcome.calibration.clone(),
            tsc_khz: outcome.tsc_khz,
            slices: outcome.processors.slices,
            clock_skew_max_ns: outcome.processors.clock_skew_max_ns,
            clock_lead_max_ns: outcome.processors.clock_lead_max_ns,
            threads: outcome.processors.threads,
            quantum_ns: outcome.processors.quantum_ns,
            processor_call_ns: outcome.processors.call,
            processors: processors(outcome),
            drives,
            jobs: Vec::new(),
            warnings: Vec::new(),
            thresholds: Vec::new(),
            extra,
        }
    }

    /// The exit status for the run: the command's, or [`UNMET`] where it succeeded and a threshold was
    /// not met.
    pub fn status(&self) -> u8 {
        let unmet = self.thresholds.iter().any(|one| !one.met);
        let status = if self.exit_status == 0 && unmet { UNMET } else { self.exit_status };
        u8::try_from(status).unwrap_or(1)
    }

    /// I/Os of all drives after boot.
    pub fn ios(&self) -> u64 {
        self.drives.iter().flat_map(DriveSummary::used).map(|(_, used)| used.count).sum()
    }

    /// I/Os a second of all drives, each while it was active: the time before the first I/O, such as
    /// a job's `startdelay`, and after the last does not count.
    pub fn iops(&self) -> f64 {
        self.rate(|used| used.count)
    }

    /// Bytes a second of all drives, over the same times.
    pub fn bytes_per_second(&self) -> f64 {
        self.rate(|used| used.bytes)
    }

    /// The sum of an amount of all operations for each second in which their drive was active.
    fn rate(&self, amount: impl Fn(&OperationSummary) -> u64) -> f64 {
        let active = self.drives.iter().filter(|drive| drive.active_seconds > 0.0);
        let rate = |drive: &DriveSummary| {
            let all: u64 = drive.used().map(|(_, used)| amount(used)).sum();
            all as f64 / drive.active_seconds
        };
        active.map(rate).sum()
    }

    /// The largest of all deviations, see [`OperationSummary::max_error_percent`].
    pub fn max_error_percent(&self) -> Option<f64> {
        let errors = self.drives.iter().flat_map(DriveSummary::used);
        errors
            .filter_map(|(_, used)| used.max_error_percent)
            .max_by(|a, b| a.abs().total_cmp(&b.abs()))
    }
}

/// Why a run was cancelled: there is no other cause.
const CANCELLED: &str =
    "it was stopped by SIGINT (Ctrl-C), by SIGTERM, or by the program that started it; what was \
                         recorded until then is kept";

/// The names of [`Summary`]'s own fields, which a caller's may not replace.
pub const OWN_FIELDS: &[&str] = &[
    "engine",
    "ending",
    "message",
    "exit_status",
    "virtual_seconds",
    "boot_virtual_seconds",
    "wall_seconds",
    "boot_wall_seconds",
    "engine_wall_seconds",
    "frozen_seconds",
    "skipped_seconds",
    "exits",
    "exits_by_reason",
    "exits_per_io",
    "overshoot_ns",
    "calibration_ticks",
    "tsc_khz",
    "slices",
    "clock_skew_max_ns",
    "clock_lead_max_ns",
    "threads",
    "quantum_ns",
    "processor_call_ns",
    "processors",
    "drives",
    "jobs",
    "warnings",
    "thresholds",
];

/// To the thousandth.
fn exits_per_io(exits: &Exits, ios: u64) -> BTreeMap<String, f64> {
    let Exits { total, io, mmio, doorbell, msr, halt, interrupt_window, kick, other } = *exits;
    let counts = [
        ("total", total),
        ("io", io),
        ("mmio", mmio),
        ("doorbell", doorbell),
        ("msr", msr),
        ("halt", halt),
        ("interrupt_window", interrupt_window),
        ("kick", kick),
        ("other", other),
    ];
    let each = |(name, count): (&str, u64)| {
        (name.to_owned(), (1000.0 * count as f64 / ios as f64).round() / 1000.0)
    };
    counts.into_iter().filter(|_| ios > 0).map(each).collect()
}

/// The status with which a run ends.
///
/// The command's own, where it ran (or 126 and 127, where it could not be
/// started). Otherwise as the tools around it have it: 124 at a time limit
/// (timeout(1)), 125 where what runs the command failed (timeout(1), env(1)),
/// 130 after Ctrl-C (bash(1), "EXIT STATUS": 128 + SIGINT).
pub fn exit_status(ending: &Ending) -> i32 {
    match ending {
        Ending::Exited(status) | Ending::NotStarted { status, .. } => *status,
        Ending::VirtualLimit | Ending::WallLimit => 124,
        Ending::Panicked | Ending::Hung => 125,
        Ending::Cancelled => 130,
    }
}

fn processors(outcome: &Outcome) -> Vec<ProcessorSummary> {
    let step_seconds = seconds(outcome.processors.step_ns);
    let whole = outcome.virtual_ns.max(1) as f64;
    let summary = |processor: &ProcessorOutcome| ProcessorSummary {
        machine: processor.machine,
        number: processor.number,
        running_seconds: seconds(processor.running_ns),
        idle_seconds: seconds(outcome.virtual_ns.saturating_sub(processor.running_ns)),
        utilization: processor.running_ns as f64 / whole,
        step_seconds,
        shares: processor.shares.clone(),
    };
    outcome.processors.each.iter().map(summary).collect()
}

fn machine(outcome: &MachineOutcome, run: &Outcome) -> Value {
    let ending = outcome.ending.as_ref();
    // The clock of a machine that waits is ahead of the run's end, at its next timer.
    let end = run.boot_virtual_ns.saturating_add(run.virtual_ns);
    let lifetime = end.saturating_sub(outcome.started_ns.unwrap_or(0));
    let virtual_ns = outcome.virtual_ns.map(|own| own.min(lifetime));
    serde_json::json!({
        "name": outcome.name,
        "ending": ending.map_or("went-on", ending_name),
        "exit_status": ending.map(exit_status),
        "started_seconds": outcome.started_ns.map(seconds),
        "virtual_seconds": virtual_ns.map(seconds),
        "refused_help": outcome.refused_help,
        "refused_calls": outcome.refused_calls,
    })
}

fn ending_name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Exited(_) => "exited",
        Ending::NotStarted { .. } => "not-started",
        Ending::Panicked => "panicked",
        Ending::Hung => "hung",
        Ending::VirtualLimit => "virtual-limit",
        Ending::WallLimit => "wall-limit",
        Ending::Cancelled => "cancelled",
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comparable_forgets_what_is_incidental_at_any_depth() {
        let summary = json!({"a": 1, "wall_seconds": 2, "b": [{"frozen_seconds": 3, "c": 4}]});
        assert_eq!(comparable(&summary), json!({"a": 1, "b": [{"c": 4}]}));
    }

    #[test]
    fn own_fields_are_all_that_are_written() {
        let ending = Ending::NotStarted { status: 127, message: "no".into() };
        let outcome = Outcome { virtual_ns: 1, wall_ns: 4, tsc_khz: 7, ..Outcome::of(ending) };
        let extra = OWN_FIELDS.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
        let mut summary = Summary::new(&outcome, "kvm", Duration::ZERO, Vec::new(), extra);
        summary.warnings.push("late".into());
        summary.thresholds.push(Judgement {
            that: "exits == 0".into(),
            name: None,
            met: true,
            figure: "exits".into(),
            value: Some(0.0),
            limit: 0.0,
            unit: crate::thresholds::Unit::Number,
        });
        summary.jobs.push(JobSummary {
            name: "job".into(),
            virtual_seconds: 0.0,
            operations: Default::default(),
        });
        let json = serde_json::to_value(summary).unwrap();
        let mut names: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        let mut own = OWN_FIELDS.to_vec();
        names.sort();
        own.sort_unstable();
        assert_eq!(names, own);
        assert!(json.as_object().unwrap().values().all(|value| !value.is_null()));
        // A reproduction's part has this one, and no summary.
        let of_a_part = |name: &&&str| **name == "command_wall_seconds";
        let seconds = INCIDENTAL_FIELDS.iter().filter(|name| name.ends_with("_seconds"));
        for name in seconds.filter(|name| !of_a_part(name)) {
            assert!(own.contains(name), "{name}");
        }
    }

    #[test]
    fn endings_are_named_as_they_are_serialized() {
        for ending in [
            Ending::Exited(3),
            Ending::NotStarted { status: 127, message: "no".into() },
            Ending::Panicked,
            Ending::Hung,
            Ending::VirtualLimit,
            Ending::WallLimit,
            Ending::Cancelled,
        ] {
            let serialized = match serde_json::to_value(&ending).unwrap() {
                Value::String(name) => name,
                Value::Object(fields) => fields.keys().next().unwrap().clone(),
                other => panic!("{other}"),
            };
            assert_eq!(serialized, ending_name(&ending));
        }
    }
}
