//! Open-Channel namespaces, whose host places its data itself, by the
//! "Open-Channel Solid State Drives Specification, revision 2.0" of
//! 2018-01-29, cited as "OCSSD 2.0" with the section.
//!
//! [`chunks`] has the chunks' states, and the way of commands to them, in a program that is built with
//! the feature `open-channel`. What users write and what is kept is there in any program.
//! As with zones, state changes when a command is executed. Requests go to the
//! drive at linear addresses: chunk after chunk, unit after unit, group after
//! group.

#[cfg(feature = "open-channel")]
mod chunks;
#[cfg(not(feature = "open-channel"))]
#[path = "no_chunks/mod.rs"]
mod chunks;
mod config;
mod kept;
mod word;

pub use chunks::{
    chunk_information, leave, write_failure, About, ChunkSet, Notifications, ADMIN_COMMANDS,
    IO_COMMANDS,
};
pub use config::{Ocssd, OcssdError};
pub use kept::{ChunkState, KeptChunks};
pub use word::ocssd_option;
