//! The language in which frontends, schedulers, images, models and media talk about block I/O:
//! commands, and their possible outcomes.
//!
//! Promise: plain data, and the interfaces of a drive's [`Model`] and its [`medium`].

pub mod blkparse;
mod block_layout;
pub mod clock;
pub mod command_log;
mod delivery;
mod doorbells;
mod health;
pub mod inside;
mod link;
pub mod medium;
pub mod memory;
mod model;
mod power;
mod random;
mod rate;
mod request;
pub mod slowest;
pub mod splitmix;
pub mod timeline;
mod token_bucket;
pub mod units;
mod zone_layout;

pub use block_layout::{AtomicUnits, BlockLayout, Interleaved};
pub use delivery::Delivery;
pub use doorbells::Doorbells;
pub use health::Health;
pub use link::{Link, LinkError};
pub use model::{Completion, Fate, Model, VendorCommand, VendorError};
pub use power::{CacheKind, PowerLoss, SECTOR};
pub use random::Random;
pub use rate::{Rate, RateError, TimePerByte};
pub use request::Request;
pub use token_bucket::TokenBucket;
pub use zone_layout::{ZoneLayout, ZonedPart};

/// Drives that a machine has at most: its PCI bus has 32 slots, of which the host bridge and the
/// channel to the machine take two. A root that is read where it lies takes one more.
pub const MAX_DRIVES: usize = 30;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of a command.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
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
    /// The range gets the contents of another, within the drive.
    Copy = 5,
    /// The range is read within the drive, and nothing is transferred.
    Verify = 6,
    /// Orders writes without a wait: everything submitted before becomes durable before anything
    /// submitted after it (eMMC 5.1, 6.6.30: cache barrier).
    Barrier = 7,
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Operation; 8] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Copy,
        Self::Verify,
        Self::Barrier,
    ];

    /// The operation's name as results and configurations spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
            Self::Copy => "copy",
            Self::Verify => "verify",
            Self::Barrier => "barrier",
        }
    }

    /// Returns whether bytes of its range are moved or written, so that bytes a second have a meaning: a
    /// discard takes as long for many.
    pub const fn has_bandwidth(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::WriteZeroes | Self::Copy)
    }

    /// Status of a command that the medium refuses.
    pub fn failure(self) -> Status {
        match self {
            Self::Read | Self::Verify => Status::ReadError,
            _ => Status::WriteError,
        }
    }

    /// The operation of a number as written in an event stream.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Streams from this number on are the ends of the log of pairs, in a drive that has one: the first
/// takes the host's values, the second those that collection moves.
pub const LOG_STREAM: u16 = u16::MAX - 1;

/// A command as drives see it, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Requested operation.
    pub operation: Operation,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes; 0 for a flush and a barrier.
    pub length: u64,
    /// Durable before it is acknowledged (forced unit access).
    pub fua: bool,
    /// First byte of the range that a copy takes its contents from; otherwise 0.
    pub source: u64,
    /// Stream or placement identifier of a write, as the host numbers them: writes with the same
    /// one belong together; 0 for none. From [`LOG_STREAM`] on: an end of a log in the drive.
    pub stream: u16,
    /// I/O priority as Linux numbers it: the class in bits 15:13, real-time,
    /// best-effort, idle from 1 on, and a level within it; 0 for none
    /// (linux/ioprio.h).
    pub priority: u16,
}

impl Command {
    /// A command on the `length` bytes from `offset` on, with nothing special.
    pub fn new(operation: Operation, offset: u64, length: u64) -> Self {
        Self { operation, offset, length, fua: false, source: 0, stream: 0, priority: 0 }
    }

    /// Everything acknowledged so far becomes durable.
    pub fn flush() -> Self {
        Self::new(Operation::Flush, 0, 0)
    }

    /// A barrier: writes submitted before become durable before those that come after.
    pub fn barrier() -> Self {
        Self::new(Operation::Barrier, 0, 0)
    }
}

/// A command that a controller has ended with an error, without asking its drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The queue it came by.
    pub queue: u16,
    /// The command, as far as it is known: the range may lie beyond the drive, and is
    /// empty where it stands in the command's data.
    pub command: Command,
    /// The status reported to the guest, as the interface numbers it.
    pub code: u16,
}

/// Names a command while it is in flight at one drive: unique among those.
pub type Tag = u32;

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// As asked.
    Ok,
    /// The medium could not read the data.
    ReadError,
    /// The medium could not write the data.
    WriteError,
    /// The medium has no room for the data.
    NoSpace,
}
