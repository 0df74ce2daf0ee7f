//! Open-Channel namespaces, whose host places its data itself, by the
//! "Open-Channel Solid State Drives Specification, revision 2.0" of
//! 2018-01-29, cited as "OCSSD 2.0" with the section.
//!
//! [`set`] holds the chunks' states; the rest is the way of commands to it.
//! As with zones, state changes when a command is executed. Requests go to the
//! drive at linear addresses: chunk after chunk, unit after unit, group after
//! group.

mod completion;
mod config;
mod geometry;
mod notifications;
mod report;
mod scalar;
mod set;
mod transfer;
mod vector;
mod word;

pub use completion::{leave, write_failure};
pub use config::{Ocssd, OcssdError};
pub use geometry::GEOMETRY;
pub use notifications::{About, Notifications};
pub use report::chunk_information;
pub use scalar::{DATASET_MANAGEMENT, READ, WRITE};
pub use set::{ChunkSet, ChunkState, KeptChunks};
pub use vector::{VECTOR_COPY, VECTOR_READ, VECTOR_RESET, VECTOR_WRITE};
pub use word::ocssd_option;
