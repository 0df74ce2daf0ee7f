//! The format of qcow2 images (QEMU, docs/interop/qcow2.txt), read in one place: the header with
//! its layout in each version, refcounts, the uses of each cluster in the tables, and a reader of
//! disks that no guest writes to.
//!
//! Promises:
//! - No file makes it panic, or take more than its limits: a contradictory file is refused
//!   with one message.
//! - Nothing is written. The crate `qcow2` does that, with the layout that is here.

pub mod check;
pub mod entries;
mod error;
pub mod header;
pub mod layout;
mod reader;
pub mod refcounts;

pub use entries::Compression;
pub use error::FormatError;
pub use header::{Directory, Header, Snapshot};
pub use reader::Reader;
