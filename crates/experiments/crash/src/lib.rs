//! States of a drive after a power cut, and the promises of each way to be durable.
//!
//! A run is traced once, at both ends of each drive ([`TraceStream`], [`TraceWriter`]): the guest's
//! requests and their acknowledgements, and the requests to the drive below an image. From the
//! trace ([`Trace`]) an [`Enumerator`] makes the crash states of each [`CutPoint`], the disks that
//! a power cut can leave there, and an [`Oracle`] decides whether the guest may find such a disk.
//!
//! Promises:
//! - No I/O but that of the readers and writers that it is given, no threads, no
//!   clock; the same trace and seed give the same states.
//! - A state is never one that the drive's model does not permit: see
//!   [`stasis_drive::power_cut`].
//! - An oracle never blames a disk that the drive's promise allows.

mod check;
mod device;
mod disk;
mod enumerator;
mod fault;
mod frame;
mod log_writes;
mod oracle;
mod sampler;
mod sectors;
mod tap;
mod trace;
mod trace_file;
mod violation;

pub use check::{Check, StateReader, Verdict};
pub use device::{DeviceKind, TracedDevice};
pub use disk::WrittenSectors;
pub use enumerator::{DriveCrashState, Enumerator, Loss, LossReason, LostChange};
pub use fault::{Fault, FaultInjector};
pub use frame::{Damaged, Frame, Level};
pub use log_writes::{
    read_log_writes, LogReadError, LogWrites, LogWritesError, LoggedDevice, ReadLog,
};
pub use oracle::{Oracle, Promise};
pub use sampler::{Cut, Place, StateSampler, MAX_FIXED};
pub use sectors::{Content, Contents, SECTOR};
pub use tap::TraceStream;
pub use trace::{
    BaseReader, CutPoint, DriveTrace, Event, EventKind, RequestLog, Trace, TraceError,
    TracedRequest,
};
pub use trace_file::{FileError, TraceHeader, TraceReader, TraceWriter, TracedDrive};
pub use violation::Violation;
