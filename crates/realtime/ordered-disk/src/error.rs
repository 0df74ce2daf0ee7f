//! Everything that can go wrong with an ordered disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::superblock::VERSION;

/// Cause of the failure of an operation of the disk.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DiskError {
    /// The range is not within the disk.
    #[error("{length} bytes at {offset} are beyond the disk's end at {capacity}")]
    OutOfRange {
        /// First byte of the range.
        offset: u64,
        /// Its length (bytes).
        length: u64,
        /// The disk's size (bytes).
        capacity: u64,
    },
    /// The host refused; the disk is as it was before.
    #[error(
        "{path}: {action} failed: {source}; check the host's disk and its free space, and try again"
    )]
    Host {
        /// The file.
        path: Arc<str>,
        /// The attempted action.
        action: &'static str,
        /// The host's error.
        source: Arc<io::Error>,
    },
    /// The log could not be made durable; nothing that is written later can be
    /// believed.
    #[error(
        "{path}: the log could not be made durable ({source}), and what was written last may be \
         lost; check the host's disk, then open the image again"
    )]
    Lost {
        /// The log.
        path: Arc<str>,
        /// The host's error.
        source: Arc<io::Error>,
    },
}

/// Reason why a disk cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The host refused.
    #[error("{path}: cannot {action}: {source}")]
    Host {
        /// The file.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The host's error.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{0} is in use by another process; end that one first, or use a copy")]
    Locked(PathBuf),
    /// The path is not a regular file.
    #[error("{0} is no regular file; ordered disks lie in files")]
    NoFile(PathBuf),
    /// The size is invalid for a disk.
    #[error("{path}: a disk of {capacity} bytes; use a multiple of 512 that is not 0")]
    Capacity {
        /// The file.
        path: PathBuf,
        /// Its size.
        capacity: u64,
    },
    /// The log's size is too small to work with, or not in whole pages.
    #[error("a log of {0} bytes; use a multiple of 4096 from {least} on", least = crate::MIN_LOG)]
    LogSize(u64),
    /// The log is of a newer version of the format.
    #[error("{log} is in version {version} of its format, and this program knows up to {VERSION}; use a newer program")]
    Newer {
        /// The file.
        log: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The log has no superblock.
    #[error(
        "{log} is damaged: it is no log; restore it. Without it {image} lacks what was written last: \
         remove the log only if the image was closed before"
    )]
    NoLog {
        /// The file.
        log: PathBuf,
        /// The image that it belongs to.
        image: PathBuf,
    },
    /// The log's end is missing.
    #[error("{log} is truncated: it has {length} bytes of {expected}; restore it")]
    Truncated {
        /// The file.
        log: PathBuf,
        /// Its length.
        length: u64,
        /// Its required length.
        expected: u64,
    },
    /// Records that were durable are damaged.
    #[error("{log} is damaged at {offset}: records that were durable do not hold; restore it")]
    Damaged {
        /// The file.
        log: PathBuf,
        /// Offset of the damage (bytes).
        offset: u64,
    },
    /// The log is that of another disk.
    #[error(
        "{log} is the log of a disk of {expected} bytes, and {image} has {capacity}; \
         put the image and its own log side by side"
    )]
    OtherDisk {
        /// The file.
        log: PathBuf,
        /// The image beside it.
        image: PathBuf,
        /// The image's size.
        capacity: u64,
        /// The size that the log belongs to.
        expected: u64,
    },
}
