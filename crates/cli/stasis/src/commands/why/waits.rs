//! Waits of the guest's threads: how long, in what, who ended each, and for whom that one had waited.

use std::fmt::Write;

use anyhow::{bail, Result};
use stasis_block::clock::Nanos;
use stasis_results::units;
use stasis_results::waits::KeptWait;

/// Limit on the wakers that are followed from a wait.
const MAX_CHAIN: usize = 8;
/// Functions of a stack that are named, the innermost first.
const MAX_FUNCTIONS: usize = 6;

/// The waits that are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// So many, the longest first.
    Longest(usize),
    /// The wait of a thread at a time, or its next one.
    Of { pid: u64, at: Nanos },
}

/// A wait, and those that its wakers had, the nearest first.
pub type Chain<'a> = Vec<&'a KeptWait>;

/// The waits that are asked for, with their wakers' waits.
///
/// # Errors
/// If no thread of that number waits from that time on.
pub fn find<'a>(all: &'a [KeptWait], asked: &Asked) -> Result<Vec<Chain<'a>>> {
    let found: Vec<&KeptWait> = match *asked {
        Asked::Longest(count) => {
            let mut waits: Vec<&KeptWait> = all.iter().collect();
            waits.sort_by_key(|wait| (std::cmp::Reverse(wait.length()), wait.begun_ns));
            waits.truncate(count);
            waits
        }
        Asked::Of { pid, at } => {
            let own = all.iter().filter(|wait| wait.pid == pid);
            let Some(wait) = own.filter(|wait| wait.ran_ns > at).min_by_key(|wait| wait.begun_ns)
            else {
                bail!("no thread {pid} of a program waits from {} on", units::duration(at as f64));
            };
            vec![wait]
        }
    };
    Ok(found.into_iter().map(|wait| chain(all, wait)).collect())
}

/// A wait, and in its time those of whoever ended it, and so on.
pub fn chain<'a>(all: &'a [KeptWait], wait: &'a KeptWait) -> Chain<'a> {
    let mut chain = vec![wait];
    while let Some(last) = chain.last().filter(|_| chain.len() <= MAX_CHAIN) {
        let (Some(pid), Some(woken)) = (last.waker_pid, last.woken_ns) else { break };
        let begun = last.begun_ns;
        let own = all.iter().filter(|other| (other.machine, other.pid) == (last.machine, pid));
        // The last one that ended before the wake-up, of those that ended in the wait.
        let within = own.filter(|other| (begun..=woken).contains(&other.ran_ns));
        let Some(next) = within.max_by_key(|other| other.ran_ns) else { break };
        if chain.iter().any(|known| std::ptr::eq(*known, next)) {
            break;
        }
        chain.push(next);
    }
    chain
}

/// The text for people.
pub fn text(chains: &[Chain<'_>]) -> String {
    let mut text = String::new();
    chains.iter().for_each(|chain| write(&mut text, chain, 0));
    if text.is_empty() {
        text.push_str("no thread of a program has waited\n");
    }
    text
}

/// Appends a wait and those of its wakers, from so many steps of indentation on.
pub fn write(text: &mut String, chain: &[&KeptWait], from: usize) {
    for (depth, wait) in chain.iter().enumerate() {
        let indent = "  ".repeat(from + depth);
        let _ = writeln!(text, "{indent}{}", sentence(wait));
        for (name, stack) in [("in", &wait.stack), ("woken in", &wait.waker_stack)] {
            if !stack.is_empty() {
                let _ = writeln!(text, "{indent}    {name}: {}", functions(stack));
            }
        }
        if depth + 1 < chain.len() {
            let _ = writeln!(text, "{indent}  which had waited itself until then:");
        }
    }
}

/// A wait in a sentence.
fn sentence(wait: &KeptWait) -> String {
    let time = |ns: Nanos| units::duration(ns as f64);
    let who = match wait.pid == wait.process {
        true => format!("{} ({})", wait.thread, wait.pid),
        false => format!("{} ({} of {})", wait.thread, wait.pid, wait.process),
    };
    let call = wait.call().map_or(String::new(), |call| format!(", in {call}"));
    let begun = format!("{who} from {} ns on{call}", wait.begun_ns);
    let Some(woken) = wait.woken_ns else {
        return format!("{} {begun}: other threads had its processor", time(wait.length()));
    };
    let waker = match (&*wait.waker, wait.waker_pid) {
        ("", _) => "somebody".to_owned(),
        (_, None) => "an interrupt".to_owned(),
        (name, Some(pid)) => format!("{name} ({pid})"),
    };
    let (slept, late) = (woken.saturating_sub(wait.begun_ns), wait.ran_ns.saturating_sub(woken));
    format!(
        "{} {begun}: {} until {waker} woke it, {} until it ran",
        time(wait.length()),
        time(slept),
        time(late)
    )
}

/// The innermost functions of a stack, without those of the scheduler.
fn functions(stack: &str) -> String {
    const SCHEDULER: [&str; 7] = [
        "__switch_to_asm",
        "__schedule",
        "schedule",
        "schedule_timeout",
        "preempt_schedule_common",
        "try_to_wake_up",
        "wake_up_process",
    ];
    let functions = stack.rsplit(';').skip_while(|function| SCHEDULER.contains(function));
    let mut named: Vec<&str> = functions.take(MAX_FUNCTIONS + 1).collect();
    if named.len() > MAX_FUNCTIONS {
        named[MAX_FUNCTIONS] = "…";
    }
    named.join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(
        pid: u64,
        (begun, woken, ran): (u64, Option<u64>, u64),
        waker: Option<u64>,
    ) -> KeptWait {
        KeptWait {
            machine: 0,
            pid,
            process: pid,
            thread: format!("t{pid}"),
            kind: "block".into(),
            called_ns: Some(begun),
            begun_ns: begun,
            woken_ns: woken,
            ran_ns: ran,
            stack: "main;__x64_sys_futex;futex_wait;schedule;__schedule".into(),
            waker_pid: waker,
            waker: waker.map_or("interrupt".into(), |pid| format!("t{pid}")),
            waker_stack: "unlock;try_to_wake_up".into(),
        }
    }

    #[test]
    fn a_wait_leads_to_that_of_its_waker() {
        let all = [
            // The disk ends the wait of 3, which then unlocks for 2, and that for 1.
            wait(3, (10, Some(50), 60), None),
            wait(2, (20, Some(70), 80), Some(3)),
            wait(3, (75, Some(76), 77), None),
            wait(1, (30, Some(90), 100), Some(2)),
        ];
        let chains = find(&all, &Asked::Of { pid: 1, at: 40 }).unwrap();
        let pids: Vec<u64> = chains[0].iter().map(|wait| wait.pid).collect();
        assert_eq!(pids, [1, 2, 3]);
        let text = text(&chains);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "70 ns t1 (1) from 30 ns on, in futex: 60 ns until t2 (2) woke it, 10 ns until it ran"
        );
        assert_eq!(lines[1], "    in: futex_wait < __x64_sys_futex < main");
        assert_eq!(lines[2], "    woken in: unlock");
        assert!(lines.last().unwrap().contains("woken in"), "{text}");
        assert!(text.contains("until an interrupt woke it"), "{text}");
        let longest = find(&all, &Asked::Longest(2)).unwrap();
        assert_eq!(longest.iter().map(|chain| chain[0].pid).collect::<Vec<_>>(), [1, 2]);
        assert!(find(&all, &Asked::Of { pid: 1, at: 100 }).is_err());
        // A wait that was nobody's, and waits in a circle.
        let circle = [wait(1, (0, Some(5), 9), Some(2)), wait(2, (0, Some(5), 5), Some(1))];
        assert_eq!(find(&circle, &Asked::Longest(1)).unwrap()[0].len(), 2);
        let preempted = KeptWait { waker: String::new(), ..wait(1, (0, None, 9), None) };
        assert!(sentence(&preempted).ends_with("other threads had its processor"));
    }
}
