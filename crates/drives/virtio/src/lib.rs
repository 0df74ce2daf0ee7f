//! Virtio devices, independent of the carrier of their registers, their memory and their
//! interrupts: block devices ([`Device`]) and network devices ([`net::Device`]).
//!
//! A [`Device`] is a block device with its queues, for any transport: the carrier gives it the
//! features that the driver has accepted, starts its queues, and forwards notifications.
//! [`PciDevice`] has the registers of the modern PCI transport around it. Either hands out I/O
//! requests by `pop_request`, takes them back by `complete`, and returns by `pop_interrupt` the
//! interrupts to signal. After any call that takes a memory, both the requests and the interrupts
//! are to be looked at. A network device hands out frames and takes frames in the same way
//! ([`PciNetworkDevice`]).
//!
//! Promises:
//! - Linux's own `virtio_blk` driver finds its features here: several queues, flush and the write
//!   cache's switch, discard, write zeroes, indirect descriptors, the event index, and the I/O
//!   priority of each request. `virtio_net` finds its address, the transfer unit, the link's state,
//!   sums that the device completes, and buffers that a frame is spread over.
//! - Pure: no threads, no wall clock, no I/O. The same calls have the same
//!   results.
//! - Nothing that a guest writes can make it panic, loop without bound, use
//!   memory without bound, or touch memory but through [`Memory`]. The guest
//!   gets a status of its request or, where there is no place for one, a
//!   device that needs a reset ([`Fault`]).
//! - Each call's work is bounded by the sizes of the queues, and a descriptor
//!   is copied once before it is looked at.
//! - An I/O allocates nothing once the pools have grown to the load.
//!
//! References are to the OASIS "Virtual I/O Device (VIRTIO) Version 1.2",
//! cited as "virtio 1.2" with the section.

mod block;
mod chain;
mod features;
pub mod net;
mod pci;
mod ring;
mod virtio_device;

pub use block::{feature, Config, ConfigError, Device, Statistics, MAX_REFUSED};
pub use pci::{Capability, Pci, PciDevice, PciNetworkDevice};
pub use ring::{Fault, QueueSetup, Track};
pub use stasis_block::memory::{Memory, OutOfMemoryRange};
pub use virtio_device::{Interrupt, VirtioDevice};

/// Unit of the protocol's addresses and lengths in bytes, independent of the block size is (virtio
/// 1.2 section 5.2.6).
pub const SECTOR: u64 = 512;
