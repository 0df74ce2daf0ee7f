//! Errors in a job file or a trace.

use crate::job::Place;
use crate::trace::Position;

/// Reason why a job file makes no load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A line is not right.
    #[error("{place}: {problem}")]
    Line {
        /// Its place.
        place: Place,
        /// The fault, and its remedy.
        problem: String,
    },
    /// A key that fio does not have.
    #[error("{place}: unknown key `{key}`{}", did_you_mean(.nearest))]
    Key {
        /// Its place.
        place: Place,
        /// The key as written.
        key: String,
        /// The valid key nearest to the written one.
        nearest: Option<&'static str>,
    },
    /// There is no section but `[global]`.
    #[error("no job: write a section such as `[job]` with its keys below it")]
    Empty,
    /// A job's keys together make no load on this drive.
    #[error("job `{job}`: {problem}")]
    Job {
        /// The section's name.
        job: String,
        /// The fault, and its remedy.
        problem: String,
    },
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"))
}

/// Reason why a trace cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line is not right.
    #[error("line {line}: {problem}: `{text}`")]
    Line {
        /// Its place in the file, from 1.
        line: u64,
        /// The fault.
        problem: String,
        /// The line, or its beginning.
        text: String,
    },
    /// An event of a binary trace is not right.
    #[error("byte {at}: {problem}")]
    Event {
        /// Its first byte in the file, from 0.
        at: u64,
        /// The fault.
        problem: String,
    },
    /// No device of a binary trace has such a name.
    #[error("the trace names its drives by numbers such as 8,0, and `{0}` is none")]
    Device(String),
    /// In one of several files.
    #[error("{file}: {error}")]
    File {
        /// Its name.
        file: String,
        /// The fault of the trace.
        error: Box<TraceError>,
    },
    /// An I/O lies beyond the drive.
    #[error(
        "{place}: an I/O of {length} bytes at {offset} ends beyond the drive of {capacity} \
         bytes; --wrap brings it back to the beginning, --size makes the drive larger"
    )]
    Beyond {
        /// Its place in the file.
        place: Position,
        /// The I/O's first byte.
        offset: u64,
        /// Its length.
        length: u64,
        /// The drive's size.
        capacity: u64,
    },
    /// The trace is of several drives.
    #[error("{place}: the trace is of drive `{other}` too, not of `{drive}` alone; choose with --trace-drive {drive}")]
    Drives {
        /// Its place in the file.
        place: Position,
        /// The first drive.
        drive: String,
        /// The other one.
        other: String,
    },
    /// The trace is not in a known format.
    #[error(
        "the file is no trace: expected blktrace's events, blkparse's text, CSV of MSR Cambridge, \
         Alibaba or Tencent, or the ios.csv of a run"
    )]
    Unknown,
    /// Think times need completions.
    #[error(
        "--think-times needs the trace's completions, and it has none: traces of blktrace with C \
         events, of MSR Cambridge, and of runs have them"
    )]
    NoCompletions,
    /// There is nothing in it.
    #[error("the trace has no I/O{0}")]
    Empty(String),
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Read(#[from] std::io::Error),
}

impl TraceError {
    /// Names the file of the error, where there are several.
    pub(crate) fn within(self, file: &str) -> Self {
        match file {
            "" => self,
            file => Self::File { file: file.to_owned(), error: Box::new(self) },
        }
    }
}
