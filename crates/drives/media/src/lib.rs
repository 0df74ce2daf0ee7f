//! Media of this host behind the interface [`Medium`]: where a drive's bytes live. *When* an I/O
//! completes is a model's business; a medium only has to be done by then.
//!
//! Promises:
//! - An I/O starts when it is submitted. One that is submitted after another has finished sees its
//!   effect; overlapping I/Os that are under way together end in any order, as NVMe allows, but
//!   within bounds.
//! - A flush covers every write, discard and write of zeroes submitted before
//!   it. Once it has finished, killing the program loses none of them. After a
//!   flush has failed, so does every later one: the kernel reports lost data
//!   only once.
//! - Under [`Execution::Synchronous`] nothing is under way when
//!   [`Medium::submit`] returns, and I/Os happen in the order of submission.
//! - Every I/O is checked against the medium's bounds, and fails by itself: a medium remains usable
//!   after an error.
//! - Media allocate nothing per I/O once they have seen the deepest queue (RAM
//!   allocates where a range is written for the first time).
//! - Two runs never share an image: files and devices are locked.

mod aligned;
mod backing;
mod boot;
mod delay;
mod direct;
mod error;
pub mod faults;
mod file_io;
mod host;
mod image;
mod limits;
mod medium;
mod open;
mod overlay;
mod pieces;
mod ram;
mod size;
mod spec;
mod synchronous;
mod uring;
mod workers;

pub use boot::boot;
pub use error::{OpenError, SpecError};
pub use faults::{FaultPlan, Faults};
pub use host::{Access, HostFile, HostFiles};
pub use image::{Durability, ImageSettings};
pub use limits::{MIN_CAPACITY, SECTOR};
pub use medium::{Execution, HostMedium};
pub use overlay::MAX_OVERLAY;
pub use pieces::{PieceError, Pieces};
pub use ram::{Chunks, Ram};
pub use spec::{MediumSpec, OpenOptions};
pub use stasis_block::medium::{Finished, Medium, MediumError};
pub use synchronous::{Contents, Synchronous};
