//! How far processors may go at a turn.

/// How far a processor may go (ticks).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limit {
    pub(super) until: u64,
    /// Whether an event ends it, and not the quantum.
    pub(super) is_event: bool,
}

/// How far processors may go: those of each machine, or all as far.
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
