//! The waits of a guest's threads: from the switch away from each until it runs again, and the wake-up in
//! between.
//!
//! Pure: what happens in the guest comes in, in the order of the run; whole waits go out. Processors are a
//! quantum apart at most, so a later fact of one that is behind counts as of the same instant. Owns the waits that
//! have not ended.

use std::collections::HashMap;

use stasis_block::clock::Nanos;
use stasis_run_events::{Tasks, Wait, Waker};

use super::guest_io::Thread;

/// Limit on the waits that have not ended.
const MAX_OPEN: usize = 1 << 16;

/// The waits of a run's threads.
pub(super) struct GuestWaits {
    /// Places of the kernel's tasks.
    pub(super) tasks: Tasks,
    open: HashMap<Thread, Wait>,
    /// The times at which threads have entered their last system calls.
    calls: HashMap<Thread, Nanos>,
    done: Vec<Wait>,
}

impl GuestWaits {
    pub(super) fn new(tasks: Tasks) -> Self {
        Self { tasks, open: HashMap::new(), calls: HashMap::new(), done: Vec::new() }
    }

    /// A thread enters a system call.
    pub(super) fn called(&mut self, thread: Thread, now: Nanos) {
        if self.calls.len() >= MAX_OPEN {
            self.calls.clear();
        }
        self.calls.insert(thread, now);
    }

    /// Returns the time at which a thread has entered its last system call.
    pub(super) fn call(&self, thread: Thread) -> Option<Nanos> {
        self.calls.get(&thread).copied()
    }

    /// A thread leaves its processor.
    pub(super) fn left(&mut self, thread: Thread, wait: Wait) {
        if self.open.len() < MAX_OPEN || self.open.contains_key(&thread) {
            self.open.insert(thread, wait);
        }
    }

    /// Returns whether a thread waits, and nobody has woken it.
    pub(super) fn is_asleep(&self, thread: Thread) -> bool {
        self.open.get(&thread).is_some_and(|wait| wait.woken.is_none())
    }

    /// A thread is woken.
    pub(super) fn woken(&mut self, thread: Thread, waker: Option<Waker>, now: Nanos) {
        if let Some(wait) = self.open.get_mut(&thread).filter(|wait| wait.woken.is_none()) {
            (wait.woken, wait.waker) = (Some(now.max(wait.begun)), waker);
        }
    }

    /// A thread runs again.
    pub(super) fn ran(&mut self, thread: Thread, now: Nanos) {
        if let Some(mut wait) = self.open.remove(&thread) {
            wait.ran = now.max(wait.woken.unwrap_or(wait.begun));
            self.done.push(wait);
        }
    }

    /// Returns the number of those that have ended and were not taken.
    pub(super) fn ended(&self) -> usize {
        self.done.len()
    }

    /// Waits that have ended.
    pub(super) fn take(&mut self) -> Vec<Wait> {
        std::mem::take(&mut self.done)
    }
}

#[cfg(test)]
mod tests {
    use stasis_run_events::{Threads, WaitKind, THREAD_NAME};

    use super::*;

    fn waits() -> GuestWaits {
        let threads = Threads { current: 0, comm: 0, maps: None };
        GuestWaits::new(Tasks {
            threads,
            first: 0,
            list: 0,
            signal: 0,
            head: 0,
            node: 0,
            pid: 0,
            group: 0,
            state: 0,
            exit_state: 0,
            runs: 0,
            stack: 0,
            space: 0,
            table: 0,
        })
    }

    fn wait(begun: Nanos, called: Option<Nanos>) -> Wait {
        Wait {
            machine: 0,
            pid: 7,
            group: 7,
            thread: [0; THREAD_NAME],
            kind: WaitKind::Block,
            called,
            begun,
            woken: None,
            waker: None,
            ran: begun,
            frames: vec![1],
        }
    }

    #[test]
    fn a_wait_ends_when_its_thread_runs() {
        let (mut waits, one, other) = (waits(), (0, 100), (0, 200));
        waits.called(one, 5);
        assert_eq!((waits.call(one), waits.call(other)), (Some(5), None));
        waits.left(one, wait(10, waits.call(one)));
        assert!(waits.is_asleep(one) && !waits.is_asleep(other));
        let waker =
            Waker { pid: 9, thread: [0; THREAD_NAME], in_interrupt: false, frames: vec![2] };
        // Nobody waits for the other one.
        waits.woken(other, None, 11);
        // A processor that is behind.
        waits.woken(one, Some(waker.clone()), 8);
        assert!(!waits.is_asleep(one));
        waits.woken(one, None, 30);
        waits.ran(one, 20);
        waits.ran(other, 21);
        let expected = Wait { woken: Some(10), waker: Some(waker), ran: 20, ..wait(10, Some(5)) };
        assert_eq!((waits.ended(), waits.take()), (1, vec![expected]));
        assert_eq!(waits.ended(), 0);
    }

    #[test]
    fn no_more_are_known_than_the_limit() {
        let mut waits = waits();
        for thread in 0..2 * MAX_OPEN as u64 {
            waits.called((0, thread), 1);
            waits.left((0, thread), wait(1, None));
        }
        assert!(waits.open.len() <= MAX_OPEN && waits.calls.len() <= MAX_OPEN);
    }
}
