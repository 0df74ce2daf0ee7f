//! The language in which frontends, schedulers, images, models and media talk
//! about block I/O: what a command is, and how it can end.
//!
//! Promise: plain data only.

pub mod units;

use serde::{Deserialize, Serialize};

/// What a command asks of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Operation {
    /// Bytes from the drive to the guest.
    Read = 0,
    /// Bytes from the guest to the drive.
    Write = 1,
    /// Everything acknowledged so far becomes durable.
    Flush = 2,
    /// The range's contents are no longer needed.
    Discard = 3,
    /// The range reads as zeroes afterwards.
    WriteZeroes = 4,
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Operation; 5] =
        [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::WriteZeroes];

    /// The operation's name as results and configurations spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
        }
    }

    /// The operation of a number as written in a journal.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A command as drives see it, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// What is asked.
    pub operation: Operation,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes; 0 for a flush.
    pub length: u64,
    /// Durable before it is acknowledged (forced unit access).
    pub fua: bool,
}

/// Names a command while it is in flight at one drive: unique among those.
pub type Tag = u32;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// As asked.
    Ok,
    /// The medium could not read the data.
    ReadError,
    /// The medium could not write the data.
    WriteError,
}
