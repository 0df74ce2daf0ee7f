//! The services of the system that a [`Handoff`](super::handoff::Handoff) needs.

use std::time::{Duration, Instant};

pub use std::sync::atomic::{AtomicU8, Ordering};
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::{current, park, Thread};

/// For how long a thread spins before it sleeps: several times what it takes
/// to wake one.
const MAX_SPIN: Duration = Duration::from_micros(50);
/// Number of spins before it looks at the time.
const SPINS_PER_CHECK: u32 = 64;

/// A thread that spins before it sleeps.
pub struct SpinWait {
    spins: u32,
    since: Option<Instant>,
}

impl SpinWait {
    pub fn new() -> Self {
        Self { spins: 0, since: None }
    }

    /// Waits a little; false when it is time to sleep.
    pub fn wait(&mut self) -> bool {
        std::hint::spin_loop();
        self.spins += 1;
        if !self.spins.is_multiple_of(SPINS_PER_CHECK) {
            return true;
        }
        self.since.get_or_insert_with(Instant::now).elapsed() < MAX_SPIN
    }
}
