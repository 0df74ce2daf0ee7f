//! A bell for a thread that waits by epoll.

use std::os::fd::OwnedFd;

use rustix::event::{eventfd, EventfdFlags};

use crate::mailbox::Bell;
use crate::ServeError;

/// An event descriptor, which epoll waits for (eventfd(2)).
pub(crate) struct EventFd(OwnedFd);

impl Bell for EventFd {
    fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl EventFd {
    /// A bell that has not rung.
    ///
    /// # Errors
    /// If the process has no more descriptors.
    pub(crate) fn new() -> Result<Self, ServeError> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(Self).map_err(|source| ServeError::Wait { source: source.into() })
    }

    /// The descriptor to wait for.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Hears it: the next wait is for the next ringing.
    pub(crate) fn hear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}
