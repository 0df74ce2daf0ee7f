//! Interface of a source of I/Os.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Fate};

use crate::TraceError;

/// One I/O on its way to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Submitter: a job's thread, or a trace's queue.
    pub thread: u16,
    /// True if it comes before the measurement: a job's ramp time, or the boot in a run's I/Os.
    pub early: bool,
    /// Its number among those of its source, where that tells them apart.
    pub number: u64,
    /// Requested command.
    pub command: Command,
}

/// A source of I/Os.
///
/// The caller takes each I/O at its time, and reports each completion at its time; of a completion
/// and a submission at the same time, the completion comes first.
pub trait Workload {
    /// Returns the time at which the next I/O is submitted (ns), if no completion changes that;
    /// `None` while it waits for a completion, and once it is over.
    fn next_at(&self) -> Option<Nanos>;

    /// Takes the I/O of [`Workload::next_at`]; `None` where something but an I/O was due then.
    ///
    /// # Errors
    /// [`TraceError`] where it cannot be read.
    fn take(&mut self) -> Result<Option<Io>, TraceError>;

    /// An I/O that was taken has completed at `at` (ns), with its fate.
    fn complete(&mut self, at: Nanos, io: &Io, fate: Fate);

    /// Part of it that has been taken, from 0 to 1, where that is known.
    fn fraction(&self, now: Nanos) -> Option<f64>;
}
