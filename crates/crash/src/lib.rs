//! What a power cut can leave of a drive, and what each way to be durable
//! promised.
//!
//! A run is recorded once, at both ends of each drive ([`Stream`],
//! [`RecordWriter`]): what the guest asked and was told, and what the drive
//! below an image was asked. From the record ([`Trace`]) an [`Enumerator`] makes
//! the crash states of each [`CutPoint`], the disks that a power cut can leave
//! there, and an [`Oracle`] says whether the guest may find such a disk.
//!
//! Promises:
//! - No I/O but that of the readers and writers that it is given, no threads, no
//!   clock; the same record and seed give the same states.
//! - A state is never one that the drive's model does not permit: see
//!   [`stasis_drive::power_cut`].
//! - An oracle never blames a disk that the drive's promise allows.

mod check;
mod disk;
mod enumerator;
mod fault;
mod file;
mod frame;
mod oracle;
mod plan;
mod sectors;
mod tap;
mod trace;
mod violation;

pub use check::{Check, StateReader, Verdict};
pub use disk::WrittenSectors;
pub use enumerator::{Enumerator, Remains};
pub use fault::{Fault, FaultInjector};
pub use file::{FileError, Head, HeadDrive, RecordReader, RecordWriter};
pub use frame::{Damaged, Frame, Level};
pub use oracle::{Oracle, Promise};
pub use plan::{Cut, StateSampler};
pub use sectors::{Content, Contents, SECTOR};
pub use tap::Stream;
pub use trace::{
    BaseReader, CutPoint, DriveTrace, Event, EventKind, Request, RequestLog, Trace, TraceError,
};
pub use violation::Violation;
