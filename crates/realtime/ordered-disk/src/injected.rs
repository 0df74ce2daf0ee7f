//! Bugs that tests inject, to see that the simulation finds them. Outside of
//! tests there are none.

/// Injected bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub enum Bug {
    /// Data is accepted without its checksum.
    NoChecksum,
    /// The last epoch counts although its end is not there.
    OpenEpoch,
    /// The disk's file is written before the log is durable.
    CheckpointEarly,
    /// The newest data is checkpointed, durable or not.
    CheckpointNewest,
    /// The superblock is written before the disk's file is durable.
    NoDiskSync,
    /// The log's place is used again before the superblock is durable.
    NoSuperblockSync,
    /// Records of earlier openings count.
    AnyIncarnation,
    /// A flush that has to be durable ends without a sync.
    EarlyDurable,
    /// A recovery begins to checkpoint before the log is durable.
    NoRecoverySync,
    /// A sync counts as covering writes made while it was under way.
    LateSyncPoint,
}

#[cfg(test)]
thread_local! {
    pub static INJECTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Returns whether `bug` is injected.
#[cfg(test)]
pub fn has(bug: Bug) -> bool {
    INJECTED.get() == Some(bug)
}

/// Returns whether `bug` is injected: never.
#[cfg(not(test))]
#[inline(always)]
pub const fn has(_: Bug) -> bool {
    false
}
