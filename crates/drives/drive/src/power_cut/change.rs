//! A change that the drive holds, until it is settled.

/// Outcome of a change so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    InFlight,
    Acknowledged,
    Failed,
}

/// A change that is not known to be on the medium together with everything
/// before it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// Its place in the order of submission.
    pub(super) place: usize,
    /// Its first sector, and how many there are.
    pub(super) first: u64,
    pub(super) sectors: u64,
    /// Barriers before it.
    pub(super) epoch: u32,
    /// True if it cannot be lost.
    pub(super) durable: bool,
    /// True if it has a place in the order of a zone.
    pub(super) sequential: bool,
    /// True if it writes; otherwise it discards.
    pub(super) writes: bool,
    /// True if it takes room in a cache.
    pub(super) data: bool,
    pub(super) fua: bool,
    pub(super) end: End,
    /// The newest place when it ended: flushes behind that were submitted later.
    pub(super) ended_before: usize,
}
