//! Limits of processors at a turn. Owns them, and the list that is kept between turns.
//!
//! Invariants: every machine has a limit of its own, or none has one; none is beyond the next event
//! of its machine.

/// Limit of a processor (ticks).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limit {
    pub(super) until: u64,
    /// True if an event ends it, and not the quantum.
    pub(super) is_event: bool,
}

/// Limits of processors: those of each machine, or one for all.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) same: Limit,
    pub(super) each: Vec<Limit>,
}

impl Limits {
    /// The limit of a machine's processors.
    pub(super) fn of(&self, machine: usize) -> Limit {
        debug_assert!(self.each.is_empty() || machine < self.each.len(), "it has no limit");
        self.each.get(machine).copied().unwrap_or(self.same)
    }
}
