//! The answer of a run of several machines: what their commands said last, which faults there were,
//! and what clients saw of them.

use serde_json::Value;

use super::Cluster;
use crate::faults::FaultSummary;
use crate::history::Witnessed;
use crate::run_page::Time;
use crate::summary::Summary;
use crate::table::Table;
use crate::{shared_page, units};

/// Faults that the sentence names; of more it has their number.
const NAMED: usize = 3;
/// Limit on the characters of a line that the answer repeats.
const MAX_WORDS: usize = 160;

/// The answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The last words of commands, and faults.
    pub sentence: String,
    /// A note on the operations of clients.
    pub clients: Option<String>,
    /// The machines.
    pub table: Table,
}

impl Answer {
    /// That of a run.
    pub(crate) fn of(cluster: &Cluster, summary: &Summary, time: &Time) -> Self {
        let faults = FaultSummary::all(summary);
        let history = summary.extra.get("history").cloned();
        let whole: Option<Witnessed> = history.and_then(|all| serde_json::from_value(all).ok());
        Self {
            sentence: format!("{}{}", last_words(cluster, summary), told_faults(&faults, time)),
            clients: whole.map(|whole| clients(&whole, &faults, time)),
            table: shared_page::machines(summary, |name| {
                last_line(cluster, name).map(str::to_owned)
            }),
        }
    }
}

/// The machines whose commands have ended, with their status.
fn ended(summary: &Summary) -> Vec<(String, Option<i64>)> {
    let machines = summary.extra.get("machines").and_then(Value::as_array);
    let ended = machines.into_iter().flatten().filter(|machine| machine["ending"] == "exited");
    let named = |machine: &Value| {
        let name = machine["name"].as_str().unwrap_or_default().to_owned();
        (name, machine["exit_status"].as_i64())
    };
    ended.map(named).collect()
}

fn last_line<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a str> {
    let machine = cluster.machines.iter().find(|machine| machine.name == name)?;
    let written = || machine.lines.kept().filter(|line| !line.text.trim().is_empty());
    // Errors where there is nothing else.
    let line = written().filter(|line| !line.error).last().or_else(|| written().last());
    line.map(|line| line.text.trim())
}

/// The last words of the commands that ended, the first that failed before all others.
fn last_words(cluster: &Cluster, summary: &Summary) -> String {
    let mut ended = ended(summary);
    ended.sort_by_key(|(_, status)| *status == Some(0));
    let quoted = |(name, _): &(String, Option<i64>)| {
        let line = last_line(cluster, name)?;
        let mut words: String = line.chars().take(MAX_WORDS).collect();
        if words.len() < line.len() {
            words.push('…');
        }
        Some(format!("{name}: “{words}”. "))
    };
    ended.iter().filter_map(quoted).take(NAMED).collect()
}

/// The faults in a sentence.
fn told_faults(faults: &[FaultSummary], time: &Time) -> String {
    let each = faults.iter().flat_map(|fault| fault.intervals.iter().map(move |one| (fault, one)));
    let mut each: Vec<_> = each.collect();
    each.sort_by_key(|(_, one)| one.begin_ns);
    let shown = |at: u64| units::duration(time.since(at as f64));
    match each.len() {
        0 if faults.is_empty() => String::new(),
        0 => "No fault came.".to_owned(),
        count if count > NAMED => {
            let (first, last) = (each[0].1.begin_ns, each[count - 1].1.begin_ns);
            let (first, last) = (shown(first), shown(last));
            format!("{} faults, from {first} to {last}.", units::count(count as u64))
        }
        _ => {
            let told = each.iter().map(|(fault, one)| {
                let (kind, target) = (&fault.kind, &fault.target);
                let length = (one.end_ns - one.begin_ns) as f64;
                match one.end_ns == one.begin_ns {
                    true => format!("{kind} of {target} at {}", shown(one.begin_ns)),
                    false => format!(
                        "{kind} of {target} for {} from {} on",
                        units::duration(length),
                        shown(one.begin_ns)
                    ),
                }
            });
            let told = told.collect::<Vec<_>>().join("; ");
            let mut letters = told.chars();
            let first = letters.next().map(|first| first.to_uppercase().to_string());
            format!("{}{}.", first.unwrap_or_default(), letters.as_str())
        }
    }
}

/// A note on the operations of clients, and in which fault the longest time without success was.
fn clients(whole: &Witnessed, faults: &[FaultSummary], time: &Time) -> String {
    let [count, ok, fail] = [whole.count, whole.ok, whole.fail].map(units::count);
    let unknown = match whole.info {
        0 => String::new(),
        info => format!(", of {} nobody knows", units::count(info)),
    };
    let [longest, gap] =
        [whole.longest_ns, whole.longest_gap_ns].map(|ns| units::duration(ns as f64));
    let each = faults.iter().flat_map(|fault| fault.intervals.iter().map(move |one| (fault, one)));
    let during = each.into_iter().find(|(_, one)| {
        one.operations.as_ref().is_some_and(|seen| seen.longest_gap_ns == whole.longest_gap_ns)
    });
    let during = during.map_or(String::new(), |(fault, one)| {
        let at = units::duration(time.since(one.begin_ns as f64));
        format!(", around {} of {} at {at}", fault.kind, fault.target)
    });
    format!(
        "Clients began {count} operations: {ok} were done, {fail} failed{unknown}. The \
         longest took {longest}; for {gap} at most none was done{during}."
    )
}
