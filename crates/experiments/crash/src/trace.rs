//! A trace in memory: the events of each drive, in the order of time.

mod loader;

use std::io;

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, PowerLoss, ZoneLayout};

use crate::frame::Level;
use crate::sectors::{Content, Contents, SECTOR};
use crate::trace_file::{FileError, TraceHeader};

/// A place in the order of all events: the number of events before it.
pub type CutPoint = u32;

/// A command that changes a drive or puts changes in order.
#[derive(Debug, Clone)]
pub struct TracedRequest {
    /// The command.
    pub command: Command,
    /// Time of submission (ns), and its event.
    pub submit: (Nanos, CutPoint),
    /// Time of completion (ns), its event, and whether the command succeeded.
    pub end: Option<(Nanos, CutPoint, bool)>,
    // The command's contents among those of the log.
    contents: std::ops::Range<usize>,
}

impl TracedRequest {
    /// Returns whether the command had succeeded after `point` events.
    pub fn well_by(&self, point: CutPoint) -> bool {
        self.end.is_some_and(|(_, event, well)| well && event < point)
    }
}

/// Requests at one end of a drive.
#[derive(Debug, Default)]
pub struct RequestLog {
    /// Size of the disk (bytes).
    pub capacity: u64,
    /// True if discarded ranges read as zeroes.
    pub discard_zeroes: bool,
    /// Data that the drive can lose in a power cut.
    pub power_loss: PowerLoss,
    /// The zones, where the drive has some.
    pub zones: ZoneLayout,
    /// Commands in the order of submission.
    pub requests: Vec<TracedRequest>,
    contents: Vec<Content>,
}

impl RequestLog {
    /// Returns whether the command `place` changes the disk.
    pub fn changes(&self, place: usize) -> bool {
        self.command_changes(&self.requests[place].command)
    }

    /// Returns whether a command changes the disk. A zone reads as zeroes after its reset.
    pub(crate) fn command_changes(&self, command: &Command) -> bool {
        match command.operation {
            Operation::Write | Operation::WriteZeroes | Operation::Copy => true,
            Operation::Discard => self.discard_zeroes || self.zones.resets(command),
            _ => false,
        }
    }

    /// Number of flushes that were submitted during a write that then ended before them: the drives
    /// here make such a write durable, which NVMe does not require.
    pub fn overlapping_flushes(&self) -> u64 {
        let mut count = 0;
        // Changes that had not ended by the last submission.
        let mut in_flight: Vec<&TracedRequest> = Vec::new();
        for (place, request) in self.requests.iter().enumerate() {
            let now = request.submit.1;
            in_flight.retain(|earlier| earlier.end.is_none_or(|(_, event, _)| event > now));
            match (request.command.operation, request.end) {
                (Operation::Flush, Some((_, end, true))) => {
                    let covered = |earlier: &&TracedRequest| earlier.well_by(end);
                    count += u64::from(in_flight.iter().any(covered));
                }
                _ if self.changes(place) && !request.command.fua => in_flight.push(request),
                _ => {}
            }
        }
        count
    }

    /// The command that made the change `place` durable before `point`, by its own place: the first
    /// flush that was submitted after the change had ended, or the change itself if it is durable
    /// (FUA).
    pub fn promised_by(&self, place: usize, point: CutPoint) -> Option<usize> {
        let change = self.requests.get(place)?;
        let (_, ended, true) = change.end? else { return None };
        if change.command.fua {
            return (ended < point).then_some(place);
        }
        let flushes = self.requests.iter().enumerate().filter(|(_, request)| {
            request.command.operation == Operation::Flush
                && request.submit.1 > ended
                && request.well_by(point)
        });
        flushes
            .min_by_key(|(_, flush)| flush.end.map(|(_, event, _)| event))
            .map(|(place, _)| place)
    }

    /// Content of each sector after the command `place`.
    pub fn sectors(&self, place: usize) -> impl Iterator<Item = (u64, Content)> + '_ {
        let TracedRequest { command, contents, .. } = &self.requests[place];
        let first = command.offset / SECTOR as u64;
        let count = if self.changes(place) { command.length / SECTOR as u64 } else { 0 };
        let written = &self.contents[contents.clone()];
        (0..count).map(move |index| {
            let content = written.get(index as usize).copied().unwrap_or(Content::ZERO);
            (first + index, content)
        })
    }
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A command of this place was submitted.
    Request(u16, Level, u32),
    /// The command ended.
    Completion(u16, Level, u32),
    /// The command in the guest wrote something.
    Output,
}

/// Something that happened at an instant.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Time of the event (ns).
    pub at: Nanos,
    /// Kind of the event.
    pub kind: EventKind,
}

/// A drive, seen from both ends.
#[derive(Debug, Default)]
pub struct DriveTrace {
    /// The guest's.
    pub guest: RequestLog,
    /// The drive's below an image; `None` where it is the same.
    pub lower: Option<RequestLog>,
}

impl DriveTrace {
    /// Requests to the drive with the cache.
    pub fn cached(&self) -> &RequestLog {
        self.lower.as_ref().unwrap_or(&self.guest)
    }

    /// The end of [`DriveTrace::cached`].
    pub fn cached_level(&self) -> Level {
        if self.lower.is_some() {
            Level::Drive
        } else {
            Level::Guest
        }
    }
}

/// Everything that a trace has.
#[derive(Debug, Default)]
pub struct Trace {
    /// Description of the run.
    pub header: TraceHeader,
    /// The drives, in order.
    pub drives: Vec<DriveTrace>,
    /// Events, in order.
    pub events: Vec<Event>,
    /// Whole lines of the command's output, with the event after which each
    /// was there, and its time (ns).
    pub lines: Vec<(CutPoint, Nanos, Vec<u8>)>,
    /// Contents of sectors.
    pub contents: Contents,
    /// Times at which the command in the guest began and ended (ns).
    pub command: (Nanos, Nanos),
}

/// A trace that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// An error in the file.
    #[error("{0}")]
    File(#[from] FileError),
    /// The disk before the run.
    #[error("the disk as it was before the run cannot be read: {0}")]
    Base(io::Error),
    /// A command that does not fit its drive.
    #[error("drive {drive}: {reason}")]
    Command {
        /// The drive's number.
        drive: u16,
        /// The reason.
        reason: String,
    },
}

/// Reads a sector of a drive's disk as it was before the run, as the guest saw
/// it.
pub type BaseReader<'a> = dyn FnMut(usize, u64, &mut [u8]) -> io::Result<()> + 'a;

impl Trace {
    /// Requests at a level of a drive.
    pub fn log(&self, drive: u16, level: Level) -> Option<&RequestLog> {
        let drive = self.drives.get(usize::from(drive))?;
        match level {
            Level::Guest => Some(&drive.guest),
            Level::Drive => drive.lower.as_ref(),
        }
    }

    /// Number of events until `at` (ns), including those at `at`.
    pub fn point_at(&self, at: Nanos) -> CutPoint {
        self.events.partition_point(|event| event.at <= at) as CutPoint
    }

    /// The time after `point` events (ns).
    pub fn time(&self, point: CutPoint) -> Nanos {
        let last = (point as usize).min(self.events.len());
        last.checked_sub(1).map_or(0, |index| self.events[index].at)
    }

    /// The points between which the command in the guest ran.
    pub fn span(&self) -> (CutPoint, CutPoint) {
        let first = self.events.partition_point(|event| event.at < self.command.0) as CutPoint;
        (first, self.point_at(self.command.1).max(first))
    }
}
