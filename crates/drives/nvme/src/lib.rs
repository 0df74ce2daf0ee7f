//! An NVMe 1.4 controller, independent of who carries its registers, its
//! memory and its interrupts.
//!
//! The carrier (a virtual machine, or a test) makes a [`Subsystem`] and adds controllers. It forwards
//! register accesses to [`ControllerMut::read_register`] and [`ControllerMut::write_register`], gives
//! access to guest memory through [`Memory`], carries the I/O requests of [`Subsystem::pop_request`]
//! to a drive, returns them by [`Subsystem::complete`], likewise those of [`Subsystem::pop_vendor`] by
//! [`ControllerMut::complete_vendor`], and signals the MSI-X vectors of
//! [`ControllerMut::pop_interrupt`]. After any call that takes a memory, the controllers that are
//! [waiting](Subsystem::waiting) are to be attended to, and both the requests and the interrupts
//! looked at.
//!
//! Promises:
//! - Linux's own `nvme` driver finds here what it needs, and several queue
//!   pairs, PRP lists, SGLs, shadow doorbells, log pages and features among it.
//! - Pure: no threads, no wall clock, no I/O. The same calls have the same
//!   results.
//! - Nothing that a guest writes can make it panic, loop without bound, use
//!   memory without bound, or touch memory but through [`Memory`]. The guest
//!   gets an NVMe status, or a controller in the fatal state (`CSTS.CFS`).
//! - Each call's work is bounded by the sizes of the queues, and a submission
//!   entry is copied once before it is looked at.
//! - An I/O allocates nothing once the pools have grown to the load.
//!
//! References are to the "NVM Express Base Specification, revision 1.4" of
//! 2019-06-10, cited as "NVMe 1.4" with the section. What is newer (Copy, zoned
//! namespaces, Flexible Data Placement) names its own specification.

#![warn(clippy::cast_possible_truncation)]
// Without a kind of drive, what serves it alone idles.
#![cfg_attr(
    not(all(feature = "open-channel", feature = "computational", feature = "key-value")),
    allow(dead_code, unused_imports)
)]

mod admin;
mod ana;
mod atomicity;
mod attachments;
mod buffers;
mod capsule_fault;
mod capsules;
mod changes;
mod command;
mod commands;
mod computing;
mod condition;
mod config;
mod connect;
mod context;
mod controller;
mod controller_id;
mod endurance;
mod error_log;
mod event_log;
mod events;
mod extent;
mod features;
mod firmware;
mod formatting;
mod fused;
mod host;
mod identity;
mod interrupts;
mod intervals;
mod io;
mod keep_alive;
mod kept;
mod key_value;
mod lba_status;
mod listing;
mod log_page;
mod memory_buffer;
mod metadata;
mod namespaces;
mod narrow;
mod ocssd;
pub mod older;
mod optional;
mod outgoing;
mod placement;
mod power;
mod power_states;
mod protection;
mod prp;
mod queue;
mod queues;
mod registered;
mod registers;
mod reservations;
mod sanitize;
mod sanitizing;
mod scanning;
mod self_test;
mod self_testing;
mod sgl;
mod shadow;
mod slices;
mod slots;
mod smart;
mod state;
mod statistics;
mod status;
mod subsystem;
mod telemetry;
mod transport;
mod vendor;
mod write_cache;
mod zoned;

pub use ana::AnaState;
pub use computing::{Part as ComputingPart, Programs, ProgramsError};
pub use config::{Config, ConfigError, Namespace, MAX_NAMESPACES, VENDOR_ID};
pub use context::ControllerMut;
pub use controller::Ended;
pub use controller_id::{ControllerId, MAX_CONTROLLERS};
pub use endurance::{EnduranceGroup, MediaPart};
pub use kept::{
    KeptCreated, KeptFdp, KeptFirmware, KeptGroup, KeptHandle, KeptNamespace, KeptSanitize,
    KeptState, Standing, StateError, STATE_VERSION,
};
pub use key_value::{KeptPairs, KeyValue, KeyValueError};
pub use memory_buffer::{
    can_have as can_have_memory_buffer, BAR as MEMORY_BUFFER_BAR, SIZES as MEMORY_BUFFER_SIZES,
};
pub use metadata::{BlockFormat, Guard, Metadata, MetadataNumber, Protection};
pub use ocssd::{ocssd_option, ChunkState, KeptChunks, Ocssd, OcssdError};
pub use optional::{NotBuilt, OptionalKind};
pub use outgoing::MAX_REFUSED;
pub use placement::Placement;
pub use power_states::{PowerState, PowerStates};
pub use queues::QueuePair;
pub use registers::{is_admin_doorbell, is_doorbell, BAR_SIZE};
pub use stasis_block::memory::{Memory, OutOfMemoryRange};
pub use statistics::Statistics;
pub use subsystem::Subsystem;
pub use transport::Transport;
pub use vendor::VendorRequest;
pub use zoned::{KeptZones, ZoneState, Zones, ZonesError, Zrwa};

/// NVMe over Fabrics: how hosts make controllers and queues by capsules.
pub mod fabrics {
    pub use crate::capsules::{CapsuleFault, ConnectedHost, DiscoveryEntry};
    pub use crate::capsules::{CONNECT, DISCOVERY_NQN, IN_CAPSULE, OPCODE};
    pub use crate::connect::{Connect, ConnectError, Connected, CONNECT_DATA, MAX_NQN};
}

/// Size of a memory page as the controller uses it, in bytes: the only one
/// offered (`CAP.MPSMIN` = `CAP.MPSMAX` = 0, NVMe 1.4 section 3.1.1).
pub const PAGE_SIZE: usize = 4096;
