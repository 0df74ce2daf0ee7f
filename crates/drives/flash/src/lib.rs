//! A flash SSD from the translation layer up, on a NAND array ([`stasis_nand`]).
//!
//! Promise: pure, as the models are. Virtual time and a seed only, no threads,
//! no I/O: the same commands at the same times complete at the same times. No
//! data lives here.
//!
//! - [`Spec`]: the drive as experiments describe it;
//! - [`Ssd`]: the drive: host link, controller, write buffer and faults;
//! - [`ftl`], [`gc`], [`vendor`]: translation layers, policies of collection and
//!   a vendor's commands, of which each is a file and a line.

#![warn(clippy::cast_possible_truncation)]
// A layer is the same file here and in a crate of its own (`docs/guides/ftl.md`).
extern crate self as stasis_flash;

mod buffer;
mod cached_reads;
mod front;
pub mod ftl;
pub mod gc;
pub mod kept;
mod link;
mod logical;
mod narrow;
mod owners;
mod precondition;
mod read_cache;
mod service;
#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod shadow;
pub mod spec;
mod ssd;
pub mod statistics;
pub mod vendor;
mod watch;

pub use spec::{FaultKind, FaultSpec, Spec, SpecError};
pub use ssd::{Ssd, ADAPTS};
pub use statistics::Statistics;

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;
