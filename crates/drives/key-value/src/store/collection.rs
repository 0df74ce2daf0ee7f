//! State of a collection: the segment, and its copies under way.

use std::collections::BTreeMap;

/// The collection of a segment.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    pub(super) victim: Option<Victim>,
    /// Copies under way by their new places: their first byte and length.
    pub(super) copies: BTreeMap<u64, (u64, u64)>,
    /// Copies that have ended, and are not durable: first byte, new place, and length.
    pub(super) copied: Vec<(u64, u64, u64)>,
}

/// The segment that is collected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Victim {
    pub(super) segment: u32,
    /// The first byte that was not looked at.
    pub(super) next: u64,
    /// A copy has failed.
    pub(super) failed: bool,
    /// Writes that had ended are durable.
    pub(super) flushed: bool,
    pub(super) stage: Stage,
}

/// The work of a collection at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Copies,
    /// Copies are about to be made durable: until then pairs lie where they were.
    BeforeFlush,
    Flush,
    /// Pairs are in their new places; those who read the old ones are waited for.
    Reads,
    Discard,
}

impl Collection {
    /// The segment that is collected cannot be: what is left of it stays.
    pub(super) fn fail(&mut self) {
        if let Some(victim) = &mut self.victim {
            victim.failed = true;
        }
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        if let Some(victim) = &mut self.victim {
            victim.stage = stage;
        }
    }
}
