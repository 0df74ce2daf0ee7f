//! Holders of a part of the array: who has it, and for how long.

use stasis_block::clock::Nanos;

use super::Priority;

/// The time for which others have had a part of the array (ns), up to an instant.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    /// Housekeeping.
    pub gc: Nanos,
    /// The host's writes, while housekeeping had not.
    pub writes: Nanos,
}

/// Counts who has a part of the array, and adds up for how long.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holders {
    held: Held,
    since: Nanos,
    // Operations that have it, and holds.
    gc: u32,
    writes: u32,
}

impl Holders {
    /// The times up to `now`.
    #[inline]
    pub fn at(&self, now: Nanos) -> Held {
        let (since, mut held) = (now - self.since, self.held);
        if self.gc > 0 {
            held.gc += since;
        } else if self.writes > 0 {
            held.writes += since;
        }
        held
    }

    /// An operation gets the part at `now`.
    #[inline]
    pub fn start(&mut self, priority: Priority, now: Nanos) {
        self.change(priority, now, |holders| *holders += 1);
    }

    /// An operation gives the part back at `now`.
    #[inline]
    pub fn stop(&mut self, priority: Priority, now: Nanos) {
        self.change(priority, now, |holders| {
            debug_assert!(*holders > 0);
            *holders -= 1;
        });
    }

    // Reads are not counted: who waits for nobody else waits for them.
    #[inline]
    fn change(&mut self, priority: Priority, now: Nanos, change: impl FnOnce(&mut u32)) {
        if priority != Priority::Read {
            (self.held, self.since) = (self.at(now), now);
            change(if priority == Priority::Gc { &mut self.gc } else { &mut self.writes });
        }
    }
}
