//! The bounds of a run. Owns the limits on its time, and the way by which a user ends it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use stasis_block::clock::Nanos;
use stasis_run_events::Ending;

use super::config::Stop;
use crate::freeze::Clock;
use crate::statistics::Statistics;

/// The bounds.
pub(super) struct Bounds {
    /// Limit on the commands' virtual time, if there is one.
    virtual_limit: Option<Nanos>,
    stop: Stop,
}

impl Bounds {
    /// Creates the bounds: a limit on the commands' virtual time, if there is one, and the user's
    /// request to stop.
    pub(super) fn new(virtual_limit: Option<Nanos>, stop: Stop) -> Self {
        Self { virtual_limit, stop }
    }

    /// The limit on the commands' virtual time is another from now on, or none.
    pub(super) fn limit(&mut self, virtual_limit: Option<Nanos>) {
        self.virtual_limit = virtual_limit;
    }

    /// Returns whether the user has ended the run.
    pub(super) fn is_cancelled(&self) -> bool {
        self.stop.flag.load(Ordering::Relaxed)
    }

    /// The time at which the commands' virtual time is over (ns), once they run.
    fn over(&self, statistics: &Statistics) -> Option<Nanos> {
        let limit = self.virtual_limit.filter(|_| statistics.running)?;
        Some(statistics.started_virtual.saturating_add(limit))
    }

    /// Returns whether the commands' virtual time is over.
    pub(super) fn is_over(&self, clock: &Clock, statistics: &Statistics) -> bool {
        self.over(statistics).is_some_and(|over| clock.now_ns() >= over)
    }

    /// The tick at which the commands' virtual time is over: a limit is reached at its own instant.
    pub(super) fn latest(&self, clock: &Clock, statistics: &Statistics) -> u64 {
        self.over(statistics).map_or(u64::MAX, |over| clock.scale().to_ticks(over))
    }

    /// Lets the user say that the run ends, and looks at the wall clock. Returns its time, or how the
    /// run ends by it.
    pub(super) fn look(&self) -> Result<Instant, Ending> {
        if let Some(poll) = &self.stop.poll {
            poll();
        }
        let now = Instant::now();
        match self.stop.deadline.is_some_and(|deadline| now >= deadline) {
            true => Err(Ending::WallLimit),
            false => Ok(now),
        }
    }
}
