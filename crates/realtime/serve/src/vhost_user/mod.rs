//! Drives on vhost-user-blk sockets (vhost-user specification), for QEMU, Cloud Hypervisor and
//! other VMMs.
//!
//! A [`socket`] takes a client; its [`session`] learns of the guest's memory and queues
//! by messages; a drive that is [`served`] is polled there. Requests under way outlive a server
//! that is killed ([`inflight`]).

pub mod inflight;
pub(crate) mod mapping;
pub(crate) mod memory;
mod protocol;
pub(crate) mod served;
pub(crate) mod session;
pub(crate) mod socket;
