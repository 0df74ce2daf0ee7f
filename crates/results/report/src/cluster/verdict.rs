//! The facts for the answer of a run of several machines.

use serde_json::Value;

use super::Cluster;
use crate::run_page::Time;
use crate::shared_page;
use crate::table::Table;
use crate::verdict::{self, Fault, Operations, Verdict};
use stasis_results::faults::{FaultInterval, FaultSummary};
use stasis_results::history::Witnessed;
use stasis_results::summary::Summary;

/// The answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The last words of commands, and faults.
    pub verdict: Option<Verdict>,
    /// A note on the operations of clients.
    pub clients: Option<String>,
    /// The machines.
    pub table: Table,
}

impl Answer {
    /// Returns the answer for a run.
    pub(crate) fn of(cluster: &Cluster, summary: &Summary, time: &Time) -> Self {
        let faults = summary.faults();
        let history = summary.extra.get("history").cloned();
        let whole: Option<Witnessed> = history.and_then(|all| serde_json::from_value(all).ok());
        let ended = ended(summary);
        let facts = verdict::Cluster {
            last_lines: ended
                .iter()
                .filter_map(|(name, _)| Some((name.as_str(), last_line(cluster, name)?)))
                .collect(),
            has_faults: !faults.is_empty(),
            faults: befell(&faults, time),
            has_ios: summary.ios() > 0,
        };
        Self {
            verdict: facts.verdict(),
            clients: whole.map(|whole| operations(&whole, &faults, time).note()),
            table: shared_page::machines(summary, time, |name| {
                last_line(cluster, name).map(str::to_owned)
            }),
        }
    }
}

/// The machines whose commands have ended, with their status; those that failed first.
fn ended(summary: &Summary) -> Vec<(String, Option<i64>)> {
    let machines = summary.extra.get("machines").and_then(Value::as_array);
    let ended = machines.into_iter().flatten().filter(|machine| machine["ending"] == "exited");
    let named = |machine: &Value| {
        let name = machine["name"].as_str().unwrap_or_default().to_owned();
        (name, machine["exit_status"].as_i64())
    };
    let mut ended: Vec<_> = ended.map(named).collect();
    ended.sort_by_key(|(_, status)| *status == Some(0));
    ended
}

fn last_line<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a str> {
    let machine = cluster.machines.iter().find(|machine| machine.name == name)?;
    let written = || machine.lines.kept().filter(|line| !line.text.trim().is_empty());
    // Errors where there is nothing else.
    let line = written().filter(|line| !line.error).last().or_else(|| written().last());
    line.map(|line| line.text.trim())
}

/// Each time that a fault came, with the fault.
fn happenings(faults: &[FaultSummary]) -> impl Iterator<Item = (&FaultSummary, &FaultInterval)> {
    faults.iter().flat_map(|fault| fault.intervals.iter().map(move |interval| (fault, interval)))
}

/// A fault as the answer names it.
fn named<'a>((fault, interval): (&'a FaultSummary, &FaultInterval), time: &Time) -> Fault<'a> {
    Fault {
        kind: &fault.kind,
        target: &fault.target,
        begin: time.since(interval.begin_ns as f64),
        length: (interval.end_ns - interval.begin_ns) as f64,
    }
}

/// The faults that came, in the order of time.
fn befell<'a>(faults: &'a [FaultSummary], time: &Time) -> Vec<Fault<'a>> {
    let mut each: Vec<_> = happenings(faults).collect();
    each.sort_by_key(|(_, interval)| interval.begin_ns);
    each.into_iter().map(|one| named(one, time)).collect()
}

/// The operations of clients, with the fault that the longest time without success is around.
fn operations<'a>(whole: &Witnessed, faults: &'a [FaultSummary], time: &Time) -> Operations<'a> {
    let gap = |interval: &FaultInterval| Some(interval.operations.as_ref()?.longest_gap_ns);
    let around =
        happenings(faults).find(|(_, interval)| gap(interval) == Some(whole.longest_gap_ns));
    Operations {
        counts: [whole.count, whole.ok, whole.fail, whole.info],
        longest: whole.longest_ns as f64,
        gap: (whole.longest_gap_ns as f64, around.map(|one| named(one, time))),
    }
}
