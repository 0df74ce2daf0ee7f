//! The calls of programs that waited for an I/O which a thread of the kernel has submitted: a journal's commit,
//! write-back, the block layer's flushes.
//!
//! Nothing in a request names them. They are found by the waits of the run: a thread that was off its processor
//! from before the I/O was delivered until the thread that has submitted it, or the I/O's own completion, woke it.

use stasis_block::clock::Nanos;
use stasis_results::guest_ios::GuestTimes;
use stasis_results::units;
use stasis_results::waits::KeptWait;

use crate::table::printable;

/// Limit on the calls that are named.
const MAX_NAMED: usize = 4;
/// Who wakes several threads for one reason does it within this time (ns).
const TOGETHER: Nanos = 20_000;
/// A completion wakes its thread within this time of the interrupt (ns).
const COMPLETION: Nanos = 100_000;
/// Threads of the kernel that serve many.
const WORKERS: [&str; 2] = ["kworker/", "ksoftirqd/"];
/// Functions of a block request's completion (Linux, block/blk-mq.c, block/blk-flush.c, block/bio.c).
const COMPLETES: [&str; 4] = ["blk_mq_complete", "blk_mq_end", "flush_end_io", "bio_endio"];

/// The function by which the block layer issues the flush of a request that is to have one (Linux,
/// block/blk-flush.c: `blk_kick_flush` has it queued again).
const ISSUES_FLUSH: &str = "blk_mq_requeue_work";

/// The number of the I/O among `own`, those of its drive, whose flush the block layer has issued by an I/O of these
/// times: one that the block layer had before, and the drive after it. None if it is no such flush.
pub(crate) fn flush_of<'a>(
    own: impl Iterator<Item = (u64, &'a GuestTimes)>,
    flush: &GuestTimes,
) -> Option<u64> {
    if !flush.stack.split(';').any(|function| function == ISSUES_FLUSH) {
        return None;
    }
    let waits_for_it = |(_, io): &(u64, &GuestTimes)| {
        io.queued_ns <= flush.queued_ns && io.rung_ns >= flush.delivered_ns
    };
    own.filter(waits_for_it).min_by_key(|(order, io)| (io.rung_ns, *order)).map(|(order, _)| order)
}

/// The calls that waited for an I/O of these times in its guest, the one that was woken first before the others;
/// `waits` are those of its machine.
pub(crate) fn find<'a>(
    waits: impl Iterator<Item = &'a KeptWait>,
    guest: &GuestTimes,
) -> Vec<&'a KeptWait> {
    if !guest.is_of_kernel() {
        // The call that has submitted it.
        let is_its = |wait: &&KeptWait| {
            wait.called_ns == Some(guest.begun_ns) && wait.thread == guest.thread
        };
        return waits.filter(is_its).max_by_key(|wait| wait.length()).into_iter().collect();
    }
    woken(waits, guest)
}

/// The calls whose threads the I/O's own thread, or its completion, has woken.
fn woken<'a>(waits: impl Iterator<Item = &'a KeptWait>, guest: &GuestTimes) -> Vec<&'a KeptWait> {
    let is_worker = |name: &str| WORKERS.iter().any(|worker| name.starts_with(worker));
    let is_its = |wait: &KeptWait, woken: Nanos| match (wait.waker_pid, &*wait.waker) {
        (None, _) => {
            let functions = || wait.waker_stack.split(';');
            let completes = |name: &str| COMPLETES.iter().any(|begin| name.starts_with(begin));
            woken >= guest.interrupted_ns
                && woken - guest.interrupted_ns <= COMPLETION
                && functions().any(completes)
        }
        // One that has handed it on, as XFS's log does, has the completion in another worker.
        (Some(_), waker) => waker == guest.thread || is_worker(waker) && is_worker(&guest.thread),
    };
    let mut found: Vec<(Nanos, &KeptWait)> = waits
        .filter(|wait| wait.called_ns.is_some() && wait.begun_ns <= guest.delivered_ns)
        .filter_map(|wait| Some((wait.woken_ns?, wait)))
        .filter(|(woken, wait)| *woken >= guest.delivered_ns && is_its(wait, *woken))
        .collect();
    found.sort_by_key(|(woken, wait)| (*woken, wait.pid));
    let until = found.first().map_or(0, |(woken, _)| woken + TOGETHER);
    let together = found.into_iter().take_while(|(woken, _)| *woken <= until);
    together.map(|(_, wait)| wait).collect()
}

/// The calls in words, a line each.
pub(crate) fn text(waits: &[KeptWait], delivered: Nanos) -> String {
    let mut text = String::new();
    let time = |ns: Nanos| units::duration(ns as f64);
    for wait in waits.iter().take(MAX_NAMED) {
        let call = wait.call().map_or(String::new(), |call| format!(", in {call}"));
        let woken = wait.woken_ns.unwrap_or(wait.ran_ns);
        let waker = if wait.waker_pid.is_some() { &*wait.waker } else { "its completion" };
        text.push_str(&format!(
            "For {} ({}){call} from {} ns on: {} woke it {} after the delivery\n",
            printable(&wait.thread),
            wait.pid,
            wait.called_ns.unwrap_or(wait.begun_ns),
            printable(waker),
            time(woken.saturating_sub(delivered)),
        ));
    }
    match waits.len().saturating_sub(MAX_NAMED) {
        0 => {}
        more => text.push_str(&format!("and for {more} more calls\n")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pid: u64, times: (Nanos, Nanos), waker: Option<&str>, stack: &str) -> KeptWait {
        KeptWait {
            machine: 0,
            pid,
            process: pid,
            thread: format!("t{pid}"),
            kind: "block".into(),
            called_ns: Some(times.0 - 5),
            begun_ns: times.0,
            woken_ns: Some(times.1),
            ran_ns: times.1 + 1,
            stack: "main;__x64_sys_fdatasync;jbd2_log_wait_commit;schedule".into(),
            waker_pid: waker.map(|_| 85),
            waker: waker.unwrap_or("interrupt").into(),
            waker_stack: stack.into(),
        }
    }

    fn guest(thread: &str) -> GuestTimes {
        GuestTimes {
            submitter: "kernel-thread".into(),
            thread: thread.into(),
            begun_ns: 90,
            queued_ns: 100,
            rung_ns: 110,
            delivered_ns: 1000,
            interrupted_ns: 1010,
            woken_ns: Some(1020),
            ran_ns: Some(1030),
            stack: "kthread;kjournald2".into(),
        }
    }

    fn pids(waits: &[KeptWait], thread: &str) -> Vec<u64> {
        find(waits.iter(), &guest(thread)).into_iter().map(|wait| wait.pid).collect()
    }

    #[test]
    fn a_journals_flush_is_of_the_calls_that_it_wakes() {
        let jbd2 = Some("jbd2/d-8");
        let waits = [
            // Before it, for the next commit, of another journal, and one that nobody called.
            wait(1, (50, 900), jbd2, ""),
            wait(2, (1100, 5000), jbd2, ""),
            wait(3, (50, 1050), Some("jbd2/e-8"), ""),
            KeptWait { called_ns: None, ..wait(4, (50, 1050), jbd2, "") },
            wait(6, (500, 1060), jbd2, ""),
            wait(5, (50, 1050), jbd2, ""),
            wait(7, (50, 1060 + 2 * TOGETHER), jbd2, ""),
        ];
        assert_eq!(pids(&waits, "jbd2/d-8"), [5, 6]);
        let found: Vec<KeptWait> =
            find(waits.iter(), &guest("jbd2/d-8")).into_iter().cloned().collect();
        assert_eq!(
            text(&found, 1000).lines().next(),
            Some(
                "For t5 (5), in fdatasync from 45 ns on: jbd2/d-8 woke it 50 ns after the delivery"
            )
        );
        assert!(text(&vec![waits[0].clone(); 6], 0).ends_with("and for 2 more calls\n"));
    }

    #[test]
    fn a_flush_before_a_write_is_the_writes() {
        let flush = GuestTimes {
            stack: format!("kthread;{ISSUES_FLUSH};nvme_queue_rq"),
            ..guest("kworker/0:1H")
        };
        let io = |queued_ns, rung_ns| GuestTimes { queued_ns, rung_ns, ..guest("jbd2/d-8") };
        // Given to the drive before it ended, given to the block layer after it began, its own, a later one.
        let own = [io(50, 900), io(105, 1100), io(95, 1040), io(60, 2000)];
        let whose =
            |flush| flush_of(own.iter().enumerate().map(|(order, io)| (order as u64, io)), flush);
        assert_eq!(whose(&flush), Some(2));
        assert_eq!(whose(&guest("kworker/0:1H")), None);
        let called = GuestTimes {
            submitter: "system-call".into(),
            thread: "t1".into(),
            begun_ns: 45,
            ..guest("")
        };
        let waits =
            [wait(1, (50, 60), None, ""), wait(1, (70, 90), None, ""), wait(2, (50, 90), None, "")];
        let found = find(waits.iter(), &called);
        assert_eq!(found, [&waits[0]]);
    }

    #[test]
    fn a_flush_of_the_block_layer_is_of_the_call_that_its_completion_wakes() {
        let completes = "asm_common_interrupt;nvme_irq;blk_mq_end_request;flush_end_io;swake_up";
        let waits = [
            wait(1, (50, 1015), None, "asm_sysvec_apic_timer_interrupt;hrtimer_wakeup"),
            wait(2, (50, 1005), None, completes),
            wait(3, (50, 1018), None, completes),
            wait(4, (50, 1012 + COMPLETION), None, completes),
        ];
        assert_eq!(pids(&waits, "kworker/0:1H"), [3]);
        assert_eq!(pids(&[wait(9, (50, 1100), Some("kworker/1:2"), "")], "kworker/0:1H"), [9]);
        assert!(pids(&[wait(9, (50, 1100), Some("kworker/1:2"), "")], "jbd2/d-8").is_empty());
    }
}
