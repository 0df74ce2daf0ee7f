//! Snapshots of a run under the exact mode, from each of which it continues as it was.
//!
//! A snapshot is the whole emulated machine between two turns of its processors: the program, with
//! its drives, networks and guests. The first ones of a run begin from the machine that is kept for
//! it; each stores the pages of memory that have changed since the one before, the state of QEMU's
//! devices, and the events in between.

mod mapped;
mod pages;
mod record;
mod search;
mod set;

pub(crate) use pages::copy;
pub(crate) use record::{Recorder, TAKEN};
pub(crate) use set::{link, Chain, Set};
