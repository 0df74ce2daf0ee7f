//! Storage functions in separate virtual machines: a file server or a compression that runs on the
//! storage controller, apart from it.
//!
//! A [`Definition`] describes a function, [`Instance`] the machine it becomes under stock QEMU, and
//! [`supervisor`] starts it, watches it and starts it again. Its drives are vhost-user sockets of
//! `stasis serve`: they survive its failure.
//!
//! Promises: a function that has crashed or does not answer is ended whole and
//! started anew, with growing pauses; nothing of a definition or of the guest
//! panics; no process is left behind.

pub mod backoff;
pub mod definition;
pub mod instance;
pub mod network;
pub mod pin;
pub mod scripts;
pub mod shipped;
pub mod status;
pub mod supervisor;

mod disk;
mod error;
mod forward;

pub use definition::Definition;
pub use error::Error;
pub use instance::{Instance, Polling};
