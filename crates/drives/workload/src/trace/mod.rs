//! I/Os from a trace: its formats, and its replay.

mod binary;
mod csv;
mod ios;
mod merged;
mod msr;
mod reader;
mod replay;
mod think;

use std::fmt;
use std::iter::Sum;

use stasis_block::clock::Nanos;
use stasis_block::Command;

pub use merged::Merged;
pub use reader::{Format, Reader};
pub use replay::{Pace, Placed, Replay, ReplayOptions};

/// Position in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// A line of a text, from 1.
    Line(u64),
    /// The first byte of an event, from 0.
    Byte(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// I/Os of a trace that are not replayed, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// I/Os of drives that were not chosen.
    pub other_drives: u64,
    /// I/Os of no length.
    pub empty: u64,
    /// Operations that no drive here supports, such as a vendor's commands.
    pub operations: u64,
    /// Refused by the controller of the run: no drive was asked.
    pub refused: u64,
    /// I/Os of the boot of the run.
    pub boot: u64,
}

impl LeftOut {
    fn count(&mut self, reason: Reason) {
        *match reason {
            Reason::Drive => &mut self.other_drives,
            Reason::Empty => &mut self.empty,
            Reason::Operation => &mut self.operations,
            Reason::Refused => &mut self.refused,
        } += 1;
    }
}

impl Sum for LeftOut {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            other_drives: sum.other_drives + one.other_drives,
            empty: sum.empty + one.empty,
            operations: sum.operations + one.operations,
            refused: sum.refused + one.refused,
            boot: sum.boot + one.boot,
        })
    }
}

/// Reason why an I/O is not replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Drive,
    Empty,
    Operation,
    Refused,
}

/// One I/O of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Time at which it was submitted, by the trace's clock (ns).
    pub at: Nanos,
    /// Submitter, where the trace names it.
    pub thread: u16,
    /// Process that issued it, where the trace names it.
    pub process: u32,
    /// Time at which it completed, where that stands with the I/O (ns).
    pub ended: Option<Nanos>,
    /// True if it belongs to the boot of the run that the trace is of.
    pub early: bool,
    /// Its number among the submissions, where the trace has another order.
    pub order: u64,
    /// Requested command.
    pub command: Command,
    /// Its line, from 1; of a binary trace the first byte of the event.
    pub line: u64,
}

/// An I/O that a process has queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) at: Nanos,
    /// First byte.
    pub(crate) offset: u64,
    pub(crate) process: u32,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) at: Nanos,
    /// First byte of the I/O.
    pub(crate) offset: u64,
    pub(crate) flush: bool,
}

/// An entry of a trace about an I/O. Only a reader that was asked for it has others than the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Io(Record),
    Queued(Queued),
    End(End),
}

impl Entry {
    /// Returns the entry's time, and its place among others of the same time: completions come
    /// first.
    fn order(&self) -> (Nanos, u8) {
        match self {
            Self::End(end) => (end.at, 0),
            Self::Queued(queued) => (queued.at, 1),
            Self::Io(record) => (record.at, 2),
        }
    }
}

/// Meaning of a line.
pub(crate) enum Parsed<'a> {
    /// Nothing of interest.
    Nothing,
    /// An I/O that is not replayed.
    Left(Reason),
    /// An I/O of a drive.
    Io {
        /// The drive's name in the trace.
        drive: &'a str,
        /// The I/O; its line is filled in by the reader.
        record: Record,
    },
    /// Something else about an I/O of a drive.
    Other {
        /// The drive's name in the trace.
        drive: &'a str,
        /// The entry.
        entry: Entry,
    },
}
