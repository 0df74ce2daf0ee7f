//! The handing of work between two threads, in every order in which they can do their steps.

#[path = "../src/vcpu_pool/handoff.rs"]
mod handoff;

/// The services that the file needs, from loom, which then tracks what each thread may see.
mod sync {
    pub use loom::sync::atomic::{AtomicU8, Ordering};
    pub use loom::sync::{Mutex, MutexGuard};
    pub use loom::thread::{current, park, Thread};

    /// The time to sleep comes at once: how long a thread spins changes no order.
    pub struct SpinWait;

    impl SpinWait {
        pub fn new() -> Self {
            Self
        }

        pub fn wait(&mut self) -> bool {
            false
        }
    }
}

use handoff::Handoff;
use loom::sync::Arc;

/// Rounds of one worker: each is done once, its result is seen, and the thread ends.
fn rounds(count: u32) {
    loom::model(move || {
        let handoff = Arc::new(Handoff::new(0u32));
        let own = Arc::clone(&handoff);
        let worker = loom::thread::spawn(move || own.serve(|work| *work += 1));
        for round in 0..count {
            *handoff.work() = 10 * round;
            handoff.begin(worker.thread());
            let mut result = None;
            handoff.collect(|work| result = Some(*work));
            assert_eq!(result, Some(10 * round + 1));
            // Nothing was begun: there is nothing to wait for.
            handoff.collect(|_| panic!("collected twice"));
        }
        handoff.end(worker.thread());
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_without_a_round_ends() {
    rounds(0);
}

#[test]
fn no_wake_up_is_lost() {
    rounds(2);
}

/// A thread that is asked to end while it works does not hang.
#[test]
fn a_worker_ends_in_the_middle() {
    loom::model(|| {
        let handoff = Arc::new(Handoff::new(0u32));
        let own = Arc::clone(&handoff);
        let worker = loom::thread::spawn(move || own.serve(|work| *work += 1));
        handoff.begin(worker.thread());
        handoff.end(worker.thread());
        worker.join().unwrap();
        assert!(*handoff.work() <= 1);
    });
}
