//! The Keep Alive timer of a controller (NVMe 1.4 section 7.12).

use stasis_block::clock::{Nanos, MILLISECOND};

/// Keep Alive Support of Identify Controller: the timer's granularity, in units of 100 ms.
pub const GRANULARITY: u16 = 1;

/// The timer: where no Keep Alive command comes for that long, the host has gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// The time-out in milliseconds; 0 for none.
    timeout: u32,
    deadline: Option<Nanos>,
}

impl KeepAlive {
    /// A timer of `timeout` milliseconds, rounded up to its granularity, from `now` on; 0 turns it
    /// off.
    pub fn new(timeout: u32, now: Nanos) -> Self {
        let unit = u32::from(GRANULARITY) * 100;
        let timeout = timeout.checked_next_multiple_of(unit).unwrap_or(timeout);
        let mut timer = Self { timeout, deadline: None };
        timer.restart(now);
        timer
    }

    /// The time-out in milliseconds; 0 for none.
    pub fn timeout(&self) -> u32 {
        self.timeout
    }

    /// A command has come at `now`.
    pub fn restart(&mut self, now: Nanos) {
        let timeout = Nanos::from(self.timeout) * MILLISECOND;
        self.deadline = (timeout > 0).then(|| now.saturating_add(timeout));
    }

    /// Returns the time at which the host counts as gone.
    pub fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }
}
