//! Open-Channel namespaces as a controller has them: [`set`] holds the chunks' states; the rest is the
//! way of commands to it.

mod completion;
mod geometry;
mod notifications;
mod report;
mod scalar;
mod set;
mod transfer;
mod vector;

use crate::context::AdminCommand;
use crate::io::IoCommand;

pub use completion::{leave, write_failure};
pub use notifications::{About, Notifications};
pub use report::chunk_information;
pub use set::ChunkSet;

/// Every admin command of Open-Channel drives.
pub const ADMIN_COMMANDS: [AdminCommand; 1] = [geometry::GEOMETRY];

/// Every I/O command of Open-Channel namespaces (OCSSD 2.0 section 4) but Flush.
pub const IO_COMMANDS: [IoCommand; 7] = [
    scalar::WRITE,
    scalar::READ,
    scalar::DATASET_MANAGEMENT,
    vector::VECTOR_RESET,
    vector::VECTOR_WRITE,
    vector::VECTOR_READ,
    vector::VECTOR_COPY,
];
