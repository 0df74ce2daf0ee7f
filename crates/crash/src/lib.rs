//! What a power cut can leave of a drive, and what each way to be durable
//! promised.
//!
//! A run is recorded once, at both ends of each drive ([`Stream`],
//! [`RecordWriter`]): what the guest asked and was told, and what the drive
//! below an image was asked. From the record ([`Story`]) a [`Walk`] makes the
//! disks that a power cut can leave at each instant, and a [`Judge`] says
//! whether the guest may find such a disk.
//!
//! Promises:
//! - No I/O but that of the readers and writers that it is given, no threads, no
//!   clock; the same record and seed give the same states.
//! - A state is never one that the drive's model does not permit: see
//!   [`stasis_drive::power_cut`].
//! - A judge never blames a disk that the drive's promise allows.

mod check;
mod disk;
mod file;
mod frame;
mod judge;
mod plan;
mod plant;
mod sectors;
mod story;
mod walk;
mod witness;

pub use check::{Check, StateReader, Verdict};
pub use disk::Disk;
pub use file::{FileError, Head, HeadDrive, RecordReader, RecordWriter};
pub use frame::{Damaged, Frame, Level};
pub use judge::{Judge, Promise, Violation};
pub use plan::{Cut, Plan};
pub use plant::{Plant, Planted};
pub use sectors::{Content, Contents, SECTOR};
pub use story::{Asked, BaseReader, DriveStory, Moment, Position, Story, StoryError, Trace, What};
pub use walk::{Remains, Walk};
pub use witness::Stream;
