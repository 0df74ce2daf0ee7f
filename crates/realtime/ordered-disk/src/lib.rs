//! A virtual disk in a file of the host, in real time, whose flushes need not
//! wait: stock host file systems, stock guests.
//!
//! The writes between two flushes are an epoch. Epochs are appended to a log beside the disk's
//! file, with checksums, so that their order needs no sync of the host's file system: after a crash
//! the longest beginning of whole epochs counts. A thread syncs the log soon, and another
//! checkpoints durable epochs to the disk's own file, which is a plain image once closed.
//!
//! Promises:
//! - After a crash, of the host or of the program alone, the disk is a beginning of the writes to
//!   it, cut at a flush (or where more than a quarter of the log was written without one). Opening
//!   it is enough.
//! - A flush is durable when it ends, with [`Durability::Flush`] and
//!   [`Durability::Barrier`]; with [`Durability::Ordered`] at most `max_lag`
//!   later, and a write with FUA and [`OrderedDisk::make_durable`] when they end.
//! - After a crash of the program alone nothing that was acknowledged is lost.
//! - No space, or any other error of the host, is an error of the operation that met it; the disk
//!   stays sound and usable.
//! - From any number of threads. Memory is bounded by the log's size: about 150
//!   bytes for each record in it, and the host's page cache.
//!
//! [`record`], [`superblock`], [`index`], [`state`] are pure; [`checkpoint`] and [`recover`] access
//! files only by [`HostFile`], so that a simulation can cut the power at any point.

pub mod append;
pub mod checkpoint;
mod checkpointer;
mod disk;
mod error;
mod host;
pub mod index;
mod injected;
mod medium;
mod open;
mod options;
pub mod record;
pub mod recover;
pub mod ring;
mod shared;
#[cfg(test)]
mod simulation;
pub mod state;
pub mod superblock;

pub use disk::OrderedDisk;
pub use error::{DiskError, OpenError};
pub use host::HostFile;
pub use medium::OrderedMedium;
pub use open::{log_path, Recovered};
pub use options::Options;
pub use shared::Counters;
pub use stasis_media::Durability;

/// The smallest log (bytes): a few of the longest records.
pub const MIN_LOG: u64 = 8 << 20;
