//! What a [`mailbox`](crate::mailbox) needs of the standard library.

pub use std::sync::atomic::{AtomicBool, Ordering};
pub use std::sync::mpsc::{channel, Receiver, Sender};
pub use std::sync::Arc;
