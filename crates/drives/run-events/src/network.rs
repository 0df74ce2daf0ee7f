//! A network's figures at a run's end.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

/// A network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkOutcome {
    /// Its name.
    pub name: String,
    /// Each direction of each link over which frames were sent.
    pub links: Vec<LinkOutcome>,
}

/// One direction of a link between two machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// The machine that sends.
    pub from: String,
    /// The machine that receives.
    pub to: String,
    /// Frames that set out.
    pub frames: u64,
    /// Bytes of those frames.
    pub bytes: u64,
    /// Frames that arrived, doubles included.
    pub arrived: u64,
    /// Frames that the link's conditions lost.
    pub lost: u64,
    /// Frames for which a queue had no room.
    pub queue_full: u64,
    /// Frames that random early detection dropped.
    pub dropped_early: u64,
    /// Frames that it marked.
    pub marked: u64,
    /// Frames for which the receiving machine had no buffer, or that it was no longer there for.
    pub no_buffer: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames that were held back for others to overtake.
    pub reordered: u64,
    /// Frames in which a bit was changed.
    pub corrupted: u64,
    /// Shortest time from a frame's sending to its arrival (ns).
    pub shortest_ns: Nanos,
    /// Longest time from a frame's sending to its arrival (ns).
    pub longest_ns: Nanos,
    /// Mean time from a frame's sending to its arrival (ns).
    pub mean_ns: Nanos,
    /// Largest difference between a frame's modelled and its true arrival (ns).
    pub max_error_ns: Nanos,
}
