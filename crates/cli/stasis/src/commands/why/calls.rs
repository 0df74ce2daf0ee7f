//! System calls of programs that had to wait: which took the longest, and in what.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use serde::Serialize;
use stasis_block::clock::Nanos;
use stasis_report::{Column, Table};
use stasis_results::units;
use stasis_results::waits::KeptWait;

use super::waits::{chain, Chain};

/// A system call in which its thread has waited.
#[derive(Debug, Clone, Serialize)]
pub struct Call<'a> {
    /// The call, by the kernel's name.
    pub call: &'a str,
    /// The thread's machine, number and name.
    pub machine: u64,
    pub pid: u64,
    pub thread: &'a str,
    /// Time at which it was entered (ns).
    pub called_ns: Nanos,
    /// From there until its thread ran for the last time after a wait in it (ns).
    pub length_ns: Nanos,
    /// The part of that in which it was off its processor.
    pub waited_ns: Nanos,
    /// The number of its waits.
    pub waits: usize,
    /// Its longest wait, and those of its wakers.
    pub longest: Chain<'a>,
}

/// All calls of these waits, the longest first.
pub fn of(all: &[KeptWait]) -> Vec<Call<'_>> {
    let mut by_call: HashMap<(u64, u64, Nanos), Vec<&KeptWait>> = HashMap::new();
    for wait in all {
        if let Some(called) = wait.called_ns {
            by_call.entry((wait.machine, wait.pid, called)).or_default().push(wait);
        }
    }
    let mut calls: Vec<Call> = by_call
        .into_iter()
        .filter_map(|((machine, pid, called_ns), waits)| {
            let longest = *waits.iter().max_by_key(|wait| wait.length())?;
            let call = waits.iter().find_map(|wait| wait.call())?;
            let ended = waits.iter().map(|wait| wait.ran_ns).max()?;
            Some(Call {
                call,
                machine,
                pid,
                thread: &longest.thread,
                called_ns,
                length_ns: ended.saturating_sub(called_ns),
                waited_ns: waits.iter().map(|wait| wait.length()).sum(),
                waits: waits.len(),
                longest: vec![longest],
            })
        })
        .collect();
    let place = |call: &Call| (std::cmp::Reverse(call.length_ns), call.called_ns, call.pid);
    calls.sort_by_key(place);
    calls
}

/// The `count` longest of `calls`, each with the waits of its wakers; of `only` one, where it is named.
pub fn longest<'a>(
    all: &'a [KeptWait],
    calls: &[Call<'a>],
    (count, only): (usize, Option<&str>),
) -> Vec<Call<'a>> {
    let own = calls.iter().filter(|call| only.is_none_or(|only| only == call.call));
    let with_wakers = |call: &Call<'a>| {
        let longest = call.longest.first().map_or(Vec::new(), |wait| chain(all, wait));
        Call { longest, ..call.clone() }
    };
    own.take(count).map(with_wakers).collect()
}

/// A table of the calls by name, and the longest ones in sentences.
pub fn text(calls: &[Call<'_>], listed: &[Call<'_>]) -> String {
    let time = |ns: Nanos| units::duration(ns as f64);
    let mut by_name: BTreeMap<&str, Vec<Nanos>> = BTreeMap::new();
    calls.iter().for_each(|call| by_name.entry(call.call).or_default().push(call.length_ns));
    let mut names: Vec<_> = by_name.into_iter().collect();
    names.sort_by_key(|(name, all)| (std::cmp::Reverse(all.iter().sum::<Nanos>()), *name));
    let mut columns = vec![Column::left("system call")];
    columns.extend(["times", "mean", "p50", "p99", "longest", "sum"].map(Column::right));
    let mut table = Table::new(columns);
    for (name, all) in &mut names {
        all.sort_unstable();
        let rank = |percent: usize| all[(all.len() * percent).div_ceil(100).max(1) - 1];
        let sum: Nanos = all.iter().sum();
        let figures = [sum / all.len() as Nanos, rank(50), rank(99), rank(100), sum].map(time);
        let row = [(*name).to_owned(), units::count(all.len() as u64)];
        table.push(row.into_iter().chain(figures).collect());
    }
    let mut text = match calls.is_empty() {
        true => return "no system call of a program has waited\n".to_owned(),
        false => table.to_text(),
    };
    text.push('\n');
    for call in listed {
        let Call { thread, pid, waited_ns, waits, .. } = call;
        let _ = writeln!(
            text,
            "{} {} of {thread} ({pid}) from {} ns on, {} of it off its processor, in {}",
            time(call.length_ns),
            call.call,
            call.called_ns,
            time(*waited_ns),
            if *waits == 1 {
                "one wait:".to_owned()
            } else {
                format!("{waits} waits, the longest:")
            },
        );
        super::waits::write(&mut text, &call.longest, 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pid: u64, called: Option<Nanos>, begun: Nanos, ran: Nanos, call: &str) -> KeptWait {
        KeptWait {
            machine: 0,
            pid,
            process: pid,
            thread: format!("t{pid}"),
            kind: "block".into(),
            called_ns: called,
            begun_ns: begun,
            woken_ns: Some(ran),
            ran_ns: ran,
            stack: format!("main;__x64_sys_{call};schedule"),
            waker_pid: None,
            waker: "interrupt".into(),
            waker_stack: String::new(),
        }
    }

    #[test]
    fn waits_of_a_call_are_one_call() {
        let all = [
            wait(1, Some(10), 20, 50, "fsync"),
            wait(1, Some(10), 60, 160, "fsync"),
            wait(1, Some(200), 210, 220, "fsync"),
            wait(2, Some(10), 15, 1015, "poll"),
            wait(2, None, 2000, 9000, "poll"),
        ];
        let calls = of(&all);
        let lengths: Vec<_> = calls.iter().map(|call| (call.call, call.length_ns)).collect();
        assert_eq!(lengths, [("poll", 1005), ("fsync", 150), ("fsync", 20)]);
        assert_eq!((calls[1].waits, calls[1].waited_ns), (2, 130));
        assert_eq!(calls[1].longest[0].begun_ns, 60);
        let listed = longest(&all, &calls, (1, Some("fsync")));
        assert_eq!((listed.len(), listed[0].called_ns), (1, 10));
        let text = text(&calls, &listed);
        let lines: Vec<&str> = text.lines().collect();
        let rows: Vec<Vec<&str>> = lines[1..3]
            .iter()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(
            rows[0],
            ["poll", "1", "1.005 µs", "1.005 µs", "1.005 µs", "1.005 µs", "1.005 µs"]
        );
        assert_eq!(rows[1], ["fsync", "2", "85 ns", "20 ns", "150 ns", "150 ns", "170 ns"]);
        assert_eq!(
            lines[4],
            "150 ns fsync of t1 (1) from 10 ns on, 130 ns of it off its processor, in 2 waits, the longest:"
        );
        assert!(lines[5].starts_with("  100 ns t1 (1) from 60 ns on, in fsync"), "{text}");
        assert!(super::text(&[], &[]).contains("no system call"));
    }
}
