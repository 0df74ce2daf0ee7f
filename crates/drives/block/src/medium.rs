//! The interface of a medium: a place for a drive's bytes.

use std::io;
use std::sync::Arc;

use crate::{Operation, Request, Tag};

/// An I/O that a medium has finished.
#[derive(Debug)]
pub struct Finished {
    /// The request's tag.
    pub tag: Tag,
    /// Outcome of the I/O. Data that was read is valid only where this is `Ok`.
    pub result: Result<(), MediumError>,
    /// The buffer it was submitted with; for a read, filled.
    pub data: Vec<u8>,
}

/// A place for bytes.
pub trait Medium: Send {
    /// Capacity in bytes, which does not change while I/Os are under way.
    fn capacity(&self) -> u64;
    /// Starts an I/O. Its tag is unique among those under way. Errors come back with the I/O.
    fn submit(&mut self, request: Request);

    /// Appends finished I/Os, without waiting.
    fn poll(&mut self, done: &mut Vec<Finished>);

    /// Appends finished I/Os, and waits for at least one I/O if any is under way.
    fn wait(&mut self, done: &mut Vec<Finished>);

    /// Number of I/Os submitted and not yet handed back.
    fn in_flight(&self) -> usize;
    /// Returns whether a discarded range reads as zeroes afterwards. Otherwise a discard changes
    /// nothing. Never changes.
    fn discard_zeroes(&self) -> bool {
        true
    }

    /// Returns whether [`Medium::submit`] does nothing that takes time, so that how long it takes
    /// need not be measured. Never changes.
    fn is_immediate(&self) -> bool {
        false
    }
}

impl<M: Medium + ?Sized> Medium for Box<M> {
    fn capacity(&self) -> u64 {
        (**self).capacity()
    }
    fn submit(&mut self, request: Request) {
        (**self).submit(request);
    }
    fn poll(&mut self, done: &mut Vec<Finished>) {
        (**self).poll(done);
    }
    fn wait(&mut self, done: &mut Vec<Finished>) {
        (**self).wait(done);
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
    fn discard_zeroes(&self) -> bool {
        (**self).discard_zeroes()
    }
    fn is_immediate(&self) -> bool {
        (**self).is_immediate()
    }
}

/// Cause of an I/O's failure.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// The range is not within the medium.
    #[error(
        "{} of {length} bytes at {offset} is beyond the medium's end at {capacity}",
        operation.name()
    )]
    OutOfRange {
        /// The failed operation.
        operation: Operation,
        /// First byte of the range.
        offset: u64,
        /// Bytes asked for.
        length: u64,
        /// The medium's size in bytes.
        capacity: u64,
    },
    /// The buffer is not as long as the range.
    #[error("{} of {length} bytes with a buffer of {buffer}", operation.name())]
    Buffer {
        /// The failed operation.
        operation: Operation,
        /// The buffer's length in bytes.
        buffer: u64,
        /// Bytes asked for.
        length: u64,
    },
    /// A copy between places that lie in different files.
    #[error(
        "copy of {length} bytes from {source_offset} to {offset}: they lie in different media; read \
         and write them"
    )]
    Apart {
        /// First byte that is copied.
        source_offset: u64,
        /// Its offset (bytes).
        offset: u64,
        /// Bytes asked for.
        length: u64,
    },
    /// The operating system refused.
    #[error(
        "{medium}: {} of {length} bytes at {offset} failed: {source}; \
         check the disk and its free space",
        operation.name()
    )]
    Os {
        /// The medium's label.
        medium: Arc<str>,
        /// The failed operation.
        operation: Operation,
        /// First byte of the range.
        offset: u64,
        /// Bytes asked for.
        length: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// An earlier flush failed, so that no later one can be believed.
    #[error("{medium}: an earlier flush failed, and what was written may be lost; check the disk")]
    Lost {
        /// The medium's label.
        medium: Arc<str>,
    },
    /// No memory for a range that is written for the first time.
    #[error("no memory left for a RAM medium at {offset}; use a smaller one, or a file")]
    Memory {
        /// First byte of the range without memory.
        offset: u64,
    },
    /// More was written than an overlay holds.
    #[error(
        "{medium}: the run has changed more than {} of it, which snapshots hold in memory; leave \
         --snapshots and --from out, or let it write less",
        crate::units::format_size(*most)
    )]
    Overlay {
        /// The medium's label.
        medium: Arc<str>,
        /// Limit on the changes in bytes.
        most: u64,
    },
    /// A disk image could not be opened again after a power cut.
    #[error("the image cannot be used after the power cut: {cause}")]
    Image {
        /// The reason.
        cause: String,
    },
    /// A fault that was asked for.
    #[error("{} at {offset}: an injected fault", operation.name())]
    Injected {
        /// The failed operation.
        operation: Operation,
        /// First byte of the range.
        offset: u64,
    },
}

impl MediumError {
    /// The failure and its cause, without the medium's name: where a machine runs within
    /// another, that name is not its user's.
    pub fn cause(&self) -> String {
        match self {
            Self::Os { operation, offset, length, source, .. } => {
                format!("{} of {length} bytes at {offset}: {source}", operation.name())
            }
            Self::Lost { .. } => "an earlier flush failed".to_owned(),
            other => other.to_string(),
        }
    }
}
