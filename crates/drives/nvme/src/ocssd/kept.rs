//! Chunks as they outlive the controller.

use serde::{Deserialize, Serialize};

/// State of a chunk, as its descriptor has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ChunkState {
    /// Erased.
    Free = 1,
    /// Written, and taking no more until it is reset.
    Closed = 2,
    /// Written in part.
    Open = 4,
    /// The chunk is of no use any more.
    Offline = 8,
}

/// Chunks that follow one another and are alike, but free ones that were never reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptChunks {
    /// The first of them, counted through the drive.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Their state.
    pub state: ChunkState,
    /// Sectors of each before its write pointer.
    pub written: u32,
    /// Number of resets of each: its wear.
    pub resets: u32,
}
