//! Stacks in which threads were off their processors, as flame graphs are drawn from.

use std::collections::BTreeMap;
use std::io::{self, Write};

use stasis_results::waits::KeptWait;

/// Writes `waits` as folded stacks: a line for each, the thread's name in brackets and the calls by semicolons,
/// then the time (ns) for which threads of that name were off their processors there. Waits that a thread did
/// not ask for end in `[preempted]`. Returns the number of lines.
///
/// # Errors
/// If writing fails.
pub fn off_cpu(waits: &[KeptWait], out: &mut dyn Write) -> io::Result<u64> {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for wait in waits {
        // A line's number follows the last space.
        let thread = wait.thread.replace([';', '\n'], "_");
        let mut stack = format!("[{thread}]");
        if !wait.stack.is_empty() {
            stack.push(';');
            stack.push_str(&wait.stack);
        }
        if wait.kind == "preempted" {
            stack.push_str(";[preempted]");
        }
        *stacks.entry(stack).or_default() += wait.length();
    }
    for (stack, time) in &stacks {
        writeln!(out, "{stack} {time}")?;
    }
    Ok(stacks.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_stacks_are_one_line() {
        let wait = |thread: &str, kind: &str, time: u64| KeptWait {
            machine: 0,
            pid: 1,
            process: 1,
            thread: thread.into(),
            kind: kind.into(),
            called_ns: None,
            begun_ns: 10,
            woken_ns: None,
            ran_ns: 10 + time,
            stack: "main;read;schedule".into(),
            waker_pid: None,
            waker: String::new(),
            waker_stack: String::new(),
        };
        let none = KeptWait { stack: String::new(), ..wait("a;b", "sleep", 1) };
        let waits =
            [wait("db", "block", 5), wait("db", "preempted", 2), wait("db", "block", 7), none];
        let mut out = Vec::new();
        assert_eq!(off_cpu(&waits, &mut out).unwrap(), 3);
        let expected =
            "[a_b] 1\n[db];main;read;schedule 12\n[db];main;read;schedule;[preempted] 2\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
