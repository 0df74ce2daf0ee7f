//! Connection of a queue to its guest.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

/// Connection of a queue to its guest.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The guest rings here.
    pub(super) kick: Option<OwnedFd>,
    /// The guest is rung here.
    pub(super) call: Option<OwnedFd>,
    /// Waiter for the queue to have nothing under way.
    pub(super) drained: Option<Sender<Option<u16>>>,
}

/// Rings the listener, if there is one.
pub(super) fn ring(call: &Option<OwnedFd>) {
    if let Some(call) = call {
        // It can only be full, and then it rings already.
        let _ = rustix::io::write(call, &1u64.to_ne_bytes());
    }
}
