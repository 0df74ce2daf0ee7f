//! Drives in real time, for other programs: each on a vhost-user-blk socket,
//! which stock QEMU and Cloud Hypervisor connect to, as a block device of the
//! host (ublk), as an NVMe/TCP target, which every Linux connects to, or as an
//! NVMe controller of a virtual machine by vfio-user.
//!
//! A [`Server`] has polling threads; each serves many queues of many drives.
//! While there is work it looks into the guests' rings by itself, and the
//! guests need not ring. Where a drive has a model, a completion is held back
//! until its time by the thread's own clock, and begun as much
//! earlier as the way to the guest takes. The error that each I/O really had is
//! recorded ([`IoRecords`]).
//!
//! Promises:
//! - Guests and clients are hostile. Nothing outside the memory that a client shares is touched;
//!   its fault is logged once, counted, and ends its queue or its connection, never another
//!   drive's.
//! - An acknowledged write is with the medium before it is acknowledged: a server that is killed
//!   loses none of them. Requests under way are found in the client's buffer by the next server,
//!   which does them again.
//! - A flush covers all writes before it.
//! - An idle server waits, unless told to spin.
//! - An I/O allocates nothing once the pools have grown to the load.
//!
//! The messages are read by the crate `vhost`; requests are served by
//! [`stasis_virtio`]; the two are independent of each other.

mod backend;
mod compensation;
pub mod confine;
pub mod control;
mod description;
mod endpoint;
mod error;
mod eventfd;
mod io_records;
pub mod log;
mod mailbox;
mod new_drive;
mod new_nvme;
mod nvme_tcp;
pub mod polling;
mod powers;
mod realtime;
mod server;
#[cfg(test)]
mod slices;
mod statistics;
mod store;
mod sync;
pub mod systemd;
mod transport;
mod ublk;
mod vfio_user;
mod vhost_user;
mod worker;

pub use description::{Description, Made};
pub use error::ServeError;
pub use io_records::{IoRecordSender, IoRecords};
pub use new_drive::NewDrive;
pub use new_nvme::{FollowState, KeepState, MakeNvme, NewNvme};
pub use nvme_tcp::NvmeTcp;
pub use polling::Poll;
pub use realtime::{RealTime, SharedLayer, SharedRealTime};
pub use server::Server;
pub use statistics::{Counts, DriveReport, Summary};
pub use store::{check_served, OpenStore, Store};
pub use vfio_user::VfioUser;
pub use vhost_user::inflight;
pub use vhost_user::memory::{GuestMemory, MemoryRegion};
pub use vhost_user::socket::listen;
