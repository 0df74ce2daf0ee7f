//! The transport of a drive's requests, as the drive's thread sees it.

use std::time::Instant;

use stasis_block::clock::Nanos;
use stasis_block::Model;

use crate::backend::Backend;
use crate::nvme_tcp;
use crate::statistics::{InUse, Snapshot};
use crate::ublk::Ublk;
use crate::vfio_user;
use crate::vhost_user::served::Served;

/// Transport of a drive's requests.
pub(crate) enum Transport {
    /// A vhost-user-blk socket.
    Socket(Box<Served>),
    /// A block device of the host's.
    Ublk(Box<Ublk>),
    /// An NVMe/TCP target.
    NvmeTcp(Box<nvme_tcp::Served>),
    /// A vfio-user device.
    VfioUser(Box<vfio_user::Served>),
}

impl Transport {
    pub(crate) fn backend(&self) -> &Backend {
        match self {
            Self::Socket(served) => &served.backend,
            Self::Ublk(ublk) => &ublk.backend,
            Self::NvmeTcp(served) => &served.backend,
            Self::VfioUser(served) => &served.backend,
        }
    }

    pub(crate) fn backend_mut(&mut self) -> &mut Backend {
        match self {
            Self::Socket(served) => &mut served.backend,
            Self::Ublk(ublk) => &mut ublk.backend,
            Self::NvmeTcp(served) => &mut served.backend,
            Self::VfioUser(served) => &mut served.backend,
        }
    }

    /// Does the work that is due; returns whether there was any.
    pub(crate) fn turn(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        match self {
            Self::Socket(served) => served.turn(now, clock),
            Self::Ublk(ublk) => ublk.turn(now, clock),
            Self::NvmeTcp(served) => served.turn(now, clock),
            Self::VfioUser(served) => served.turn(now, clock),
        }
    }

    /// Returns whether requests are announced from now on, or looked for.
    pub(crate) fn set_notifications(&mut self, on: bool) {
        match self {
            Self::Socket(served) => served.set_notifications(on),
            // The kernel announces each, or nobody does.
            Self::Ublk(_) | Self::NvmeTcp(_) | Self::VfioUser(_) => {}
        }
    }

    /// Returns the time at which something is to be looked at even if nothing rings.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        match self {
            Self::Socket(served) => served.backend.store.next_event(),
            Self::Ublk(ublk) => ublk.next_event(),
            Self::NvmeTcp(served) => served.next_event(),
            Self::VfioUser(served) => served.next_event(),
        }
    }

    /// Returns the time to look for work that nothing announces.
    pub(crate) fn next_look(&self, now: Nanos) -> Option<Nanos> {
        match self {
            Self::VfioUser(served) => served.next_look(now),
            Self::Socket(_) | Self::Ublk(_) | Self::NvmeTcp(_) => None,
        }
    }

    /// Returns whether there is work that nothing announces.
    pub(crate) fn is_rung(&self) -> bool {
        match self {
            Self::VfioUser(served) => served.is_rung(),
            Self::Socket(_) | Self::Ublk(_) | Self::NvmeTcp(_) => false,
        }
    }

    /// The snapshot from its thread.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let transport = match self {
            Self::Socket(served) => InUse {
                capacity: served.device.config().capacity,
                in_use: served.is_running(),
                in_flight: served.in_flight(),
                way: None,
            },
            Self::Ublk(ublk) => ublk.in_use(),
            Self::NvmeTcp(served) => served.in_use(),
            Self::VfioUser(served) => served.in_use(),
        };
        let backend = self.backend();
        backend.times.snapshot(backend.counts, transport)
    }

    /// Gives the drive another capacity, and the model for it.
    pub(crate) fn resize(
        &mut self,
        capacity: u64,
        model: Option<Box<dyn Model>>,
        clock: &impl Fn() -> Nanos,
    ) -> Result<(), String> {
        match self {
            Self::Socket(served) => served.resize(capacity, model, clock),
            Self::Ublk(_) => {
                Err("a ublk device keeps its size; detach it, and attach it anew".into())
            }
            Self::NvmeTcp(_) | Self::VfioUser(_) => Err("an NVMe drive keeps its size".into()),
        }
    }

    /// Grants a namespace of an NVMe drive to a host by its NQN, or to all, or withdraws it.
    pub(crate) fn set_attached(
        &mut self,
        nsid: u32,
        host: Option<&str>,
        attached: bool,
    ) -> Result<(), String> {
        match self {
            Self::NvmeTcp(served) => served.set_attached(nsid, host, attached),
            Self::VfioUser(served) => served.set_attached(nsid, host, attached),
            Self::Socket(_) | Self::Ublk(_) => {
                Err("it is no NVMe drive, and has no namespaces".into())
            }
        }
    }

    /// Begins the drive's end: nobody waits any more for requests to end.
    pub(crate) fn begin_end(&mut self, now: Nanos) {
        match self {
            Self::Socket(served) => served.begin_end(),
            Self::Ublk(ublk) => ublk.begin_end(now),
            Self::NvmeTcp(served) => served.begin_end(),
            Self::VfioUser(served) => served.begin_end(),
        }
    }

    /// Waits until `limit` for requests under way, makes everything durable and closes the drive.
    pub(crate) fn finish(self, clock: &impl Fn() -> Nanos, limit: Instant) -> Result<(), String> {
        match self {
            Self::Socket(served) => served.finish(clock, limit),
            Self::Ublk(ublk) => ublk.finish(clock, limit),
            Self::NvmeTcp(served) => served.finish(clock, limit),
            Self::VfioUser(served) => served.finish(clock, limit),
        }
    }
}
