//! Disk images in qcow2, as a layer over any model and medium.
//!
//! A command of the guest becomes reads, writes and orders of the drive below, each of which takes
//! that drive's time. Changes of tables are held back and written in an order in which the image
//! is sound at every instant, whatever part of the drive's cache a power cut loses.
//!
//! Promises:
//! - Virtual time only: the same commands at the same times end at the same
//!   times. One thread; nothing waits for the host.
//! - After a power cut at any instant the image is sound: leaks at worst. Further guarantees depend
//!   on its [`Durability`]: everything that was acknowledged before a flush that ended; or, with
//!   [`Durability::Ordered`], everything before some flush and nothing after the next.
//! - On request ([`Opening::kill_safe`]), acknowledged writes are there after the program was
//!   killed, flushed or not.
//! - A write that finds no room ends with an error, and the image stays sound and remains usable.
//! - No file makes it panic or hang: a contradictory one is refused with one message.
//!
//! The module `disk` finds a part of the disk by the tables in [`tables`], which allocate and order
//! too; commands of the guest run in `core`, and wait there for the drive below.

mod below;
mod chain;
mod core;
mod create;
mod disk;
mod error;
mod host;
mod job;
mod kill_safety;
mod lag;
mod layer;
mod lock;
mod map;
mod open;
mod opening;
mod redo_log;
mod repair;
mod rescue;
mod salvage;
mod tables;
mod tasks;
mod turns;
mod zero_latency;

pub use chain::{describe, find, links, newer_below, Description, Format, Found, Link, MAX_DEPTH};
pub use create::{create, CreateOptions};
pub use error::ImageError;
pub use layer::Image;
pub use map::{Extent, Kind};
pub use open::{
    find as open_files, find_kept as open_kept, find_links as open_links, grow, largest_length,
    make_room, trim,
};
pub use opening::Opening;
pub use rescue::{Fate, Loss, Rescue};
pub use stasis_block::inside::ImageCounters as Counters;
pub use stasis_qcow2_format::check::{Report, Verdict};
pub use stasis_qcow2_format::{Compression, Header, Snapshot};
pub use zero_latency::ZeroLatency;

pub use stasis_media::{Durability, ImageSettings as Settings};

use std::path::Path;

use stasis_qcow2_format::{header, layout, refcounts};

/// Checks the qcow2 file at `path`, without the files below it.
///
/// # Errors
/// An [`ImageError`] if it cannot be read as an image at all.
pub fn check(path: &Path) -> Result<(Header, Report, Vec<Snapshot>), ImageError> {
    chain::examine(path)
}
