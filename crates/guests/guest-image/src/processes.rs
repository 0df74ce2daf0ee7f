//! Programs that a build has started.

use std::fs;

use rustix::process::{kill_process, Pid, Signal};

/// Sends a signal to a process and all below it, as the terminal does. Those of other users, which only
/// the kernel may, end with the program that waits for them.
pub(crate) fn signal_all(process: u32, signal: Signal) {
    let mut all = vec![process];
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        all.extend(children(parent));
        next += 1;
    }
    // From below, so that none of them starts another meanwhile for one that is gone.
    for pid in all.iter().rev().filter_map(|pid| Pid::from_raw(*pid as i32)) {
        let _ = kill_process(pid, signal);
    }
}

/// The processes whose parent is `parent` (proc(5)).
fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may have any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
