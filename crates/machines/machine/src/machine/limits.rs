//! Limits of processors at a turn.

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
        self.each.get(machine).copied().unwrap_or(self.same)
    }
}
