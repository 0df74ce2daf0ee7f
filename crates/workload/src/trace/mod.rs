//! I/Os from a trace: its formats, and its replay.

mod ios;
mod msr;
mod reader;
mod replay;

use stasis_block::Command;
use stasis_clock::Nanos;

pub use reader::{Format, Reader};
pub use replay::{Pace, Replay, ReplayOptions};

/// One I/O of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When it was submitted, by the trace's clock (ns).
    pub at: Nanos,
    /// Who submitted it, where the trace says so.
    pub thread: u16,
    /// Whether it belongs to the boot of the run that the trace is of.
    pub early: bool,
    /// Its number among the submissions, where the trace has another order.
    pub order: u64,
    /// What was asked.
    pub command: Command,
    /// The line that says so, from 1.
    pub line: u64,
}

/// What a line says.
pub(crate) enum Parsed<'a> {
    /// Nothing of interest.
    Nothing,
    /// An I/O of a drive.
    Io {
        /// The drive's name in the trace.
        drive: &'a str,
        /// The I/O; its line is filled in by the reader.
        record: Record,
    },
}
