//! The drive as a source of I/Os needs to know it.

use stasis_block::clock::Nanos;
use stasis_models::LogShape;

/// Properties of the drive.
#[derive(Debug, Clone, Copy)]
pub struct DriveInfo {
    /// Size in bytes, if that is known.
    pub capacity: Option<u64>,
    /// Size of a logical block in bytes.
    pub block_size: u64,
    /// Time that software adds to each I/O (ns).
    pub path: Nanos,
    /// Properties that a log of pairs gains by.
    pub log: Option<LogShape>,
    /// True if it may begin with data of a run before.
    pub used: bool,
}
