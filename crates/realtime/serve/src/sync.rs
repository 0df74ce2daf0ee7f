//! The part of the standard library that a [`mailbox`](crate::mailbox) uses.

pub use std::sync::atomic::{AtomicBool, Ordering};
pub use std::sync::mpsc::{channel, Receiver, Sender};
pub use std::sync::Arc;
