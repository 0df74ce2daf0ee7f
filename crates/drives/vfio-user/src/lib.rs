//! A vfio-user device: an NVMe controller of [`stasis_nvme`] on the PCI bus of a virtual machine of
//! another process, independent of who carries its messages, its memory and its interrupts.
//!
//! The carrier (a server's thread, or a test) gives a [`Connection`] the bytes and descriptors that
//! have come, and gets [`Request`]s; a [`Device`] answers those that concern its registers, and
//! says of the others what the carrier is to do ([`Handled`]). The carrier sends the reply
//! ([`Header::reply`]). It looks for the doorbells that a driver rings in mapped memory
//! ([`Device::poll`]), and carries the subsystem's requests to a drive. Several devices are controllers
//! of one subsystem, each with a client of its own.
//!
//! Promises:
//! - Stock QEMU (`vfio-user-pci`) boots from it: configuration space, registers, MSI-X, DMA by
//!   descriptors, doorbells in memory that guest and device share.
//! - Pure: no threads, no wall clock, no I/O; a descriptor is a value of any type. The same calls
//!   have the same results.
//! - Nothing that a client sends can make it panic, loop without bound, or use memory without
//!   bound. A request that cannot be done is refused by an errno and by name ([`Refusal`]), and the
//!   stream stays in step; what is no message ends the connection ([`Fault`]).
//!
//! The messages are written here because the crate `vfio_user` 0.1.7 does not serve: it blocks on
//! one connection, answers a backend's error with errno 0, which QEMU takes for success, is out of
//! step with the stream after an error, trusts the lengths that a client says, and takes one
//! descriptor a message.
//!
//! References are to the "vfio-user Protocol Specification" of QEMU's documentation
//! (`docs/interop/vfio-user`), version 0.0, cited as "vfio-user" with the section, and to the
//! structures of `<linux/vfio.h>` that it takes over.

mod config_space;
mod connection;
mod device;
mod doorbells;
mod fault;
mod layout;
mod limits;
mod payloads;
mod replies;
mod request;

pub use connection::{Connection, Header, Message};
pub use device::{Answer, Device, Drive, Handled};
pub use doorbells::Doorbells;
pub use fault::{Fault, Refusal};
pub use layout::{DOORBELLS, DOORBELLS_SIZE};
pub use limits::{MAX_DESCRIPTORS, MAX_MESSAGE};
pub use request::{DmaMap, DmaUnmap, Request, Vectors};
