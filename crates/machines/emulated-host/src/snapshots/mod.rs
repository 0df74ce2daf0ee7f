//! Snapshots of a run under the exact mode, from each of which it continues as it was.
//!
//! A snapshot is the whole emulated machine between two turns of its processors: the program, with
//! its drives, networks and guests. The first ones of a run begin from the machine that is kept for
//! it; each stores the pages of memory that have changed since the one before, the state of QEMU's
//! devices, and the events in between.

mod pages;
mod record;
mod set;

pub(crate) use pages::{copy, read_all};
pub(crate) use record::Recorder;
pub use set::From;
pub(crate) use set::{link, Chain, Set};

use std::path::Path;

/// What a job wants of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshots {
    /// Everything that the run depends on beside its machine.
    pub identity: Vec<u8>,
    /// Whether those are stored that the inner side takes ([`crate::inside::snapshot`]).
    pub records: bool,
    /// Where the job begins.
    pub from: From,
    /// Whether it begins there or not at all; else at its beginning, where there is no such snapshot.
    pub must: bool,
}

/// Bytes of the pages in a set.
fn bytes(folder: &Path) -> u64 {
    let pages = crate::kept::entries(folder).map(|path| path.join("pages"));
    pages.filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum()
}
