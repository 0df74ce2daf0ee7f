//! Jobs for a thread that waits for many things, of which a bell is one.
//!
//! The sender of a job first flags that there are jobs, then rings. The thread looks whether there
//! are jobs before it waits, and after each ringing: so no job stays behind, however the steps of
//! both fall together. `tests/mailbox.rs` has loom try every order of them; so the parts used of
//! the standard library come from [`super::sync`], for which that test has loom's.

use super::sync::{channel, Arc, AtomicBool, Ordering, Receiver, Sender};

/// Wakes a thread that waits, or that will wait next.
pub trait Bell {
    /// Rings: a wait that follows ends at once, until the ring has been heard.
    fn ring(&self);
}

struct Shared<B> {
    bell: B,
    /// True if there are jobs.
    called: AtomicBool,
}

/// Sending side.
pub struct Mailbox<J, B> {
    jobs: Sender<J>,
    shared: Arc<Shared<B>>,
}

/// Receiving side, of the thread.
pub struct Inbox<J, B> {
    jobs: Receiver<J>,
    shared: Arc<Shared<B>>,
}

/// Both ends, and a bell for the thread.
pub fn mailbox<J, B: Bell>(bell: B) -> (Mailbox<J, B>, Inbox<J, B>) {
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared { bell, called: AtomicBool::new(false) });
    (Mailbox { jobs: sender, shared: Arc::clone(&shared) }, Inbox { jobs: receiver, shared })
}

impl<J, B: Bell> Mailbox<J, B> {
    /// Sends a job; returns false if the thread has ended.
    pub fn give(&self, job: J) -> bool {
        if self.jobs.send(job).is_err() {
            return false;
        }
        // A swap where a store seems enough: so a thread that sees the flag of the last of several
        // senders sees the jobs of the others, too (a release sequence continues over a swap, not
        // over a store).
        self.shared.called.swap(true, Ordering::Release);
        self.shared.bell.ring();
        true
    }
}

impl<J, B> Inbox<J, B> {
    /// Hands all waiting jobs to `work`, in their order; returns whether there were any, or may
    /// have been.
    pub fn take(&self, mut work: impl FnMut(J)) -> bool {
        if !self.shared.called.swap(false, Ordering::Acquire) {
            return false;
        }
        while let Ok(job) = self.jobs.try_recv() {
            work(job);
        }
        true
    }

    /// The bell that wakes the thread.
    pub fn bell(&self) -> &B {
        &self.shared.bell
    }
}
