//! A thread that computes what authentications of hosts wait for, beside the thread of their drive.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Sender};

use stasis_nvme_auth::{Computed, Power};
use stasis_nvme_tcp::PowerId;

use crate::eventfd::EventFd;
use crate::mailbox::{mailbox, Inbox};
use crate::ServeError;

/// The thread, which ends with this.
pub(crate) struct Powers {
    asked: Sender<(PowerId, Power)>,
    computed: Inbox<(PowerId, Computed), EventFd>,
}

impl Powers {
    /// Starts the thread of the drive `name`.
    ///
    /// # Errors
    /// If the system has no more threads or descriptors.
    pub(crate) fn start(name: &str) -> Result<Self, ServeError> {
        let bell = EventFd::new()?;
        let (done, computed) = mailbox(bell);
        let (asked, jobs) = channel::<(PowerId, Power)>();
        std::thread::Builder::new()
            .name(format!("auth {name}"))
            .spawn(move || {
                for (id, power) in jobs {
                    if !done.give((id, power.compute())) {
                        return;
                    }
                }
            })
            .map_err(|source| ServeError::Wait { source })?;
        Ok(Self { asked, computed })
    }

    /// The descriptor that can be read once something is computed.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        self.computed.bell().descriptor()
    }

    /// Has a power computed.
    pub(crate) fn ask(&self, id: PowerId, power: Power) {
        // The thread is there as long as this is.
        let _ = self.asked.send((id, power));
    }

    /// Hands computed powers to `take`. Returns whether there were any.
    pub(crate) fn take(&self, take: impl FnMut((PowerId, Computed))) -> bool {
        self.computed.bell().hear();
        self.computed.take(take)
    }
}
