//! The channel between the agent inside a guest and the machine around it.
//!
//! A PCI device with a mailbox (plain memory that both sides see) and one doorbell register. The
//! guest writes a request into the mailbox and rings; the machine answers in the same place before
//! the guest continues, so a call takes no guest time beyond the doorbell's exit.
//! `docs/reference/channel.md` is the normative text.
//!
//! Promise: pure data handling. Nothing here maps memory or performs I/O, and
//! nothing that a guest writes makes [`Host`] panic, read outside the mailbox
//! or allocate more than the mailbox's size.

pub mod application_hint;
mod branch;
mod client;
mod host;
mod job;
mod message;
mod orders;
mod terminal;

pub use branch::{Branch, Call};
pub use client::{Client, ClientError, InputReader, ResultsWriter, Start, Transport};
pub use host::{Host, Mailbox, ProtocolError};
pub use job::{CheckedDisk, Container, Health, Job, NetworkInterface, RootDevice, Volume};
pub use message::{Refusal, Request, Response, Stream};
pub use orders::{Begins, GuestFault, Orders, ScheduledGuestFault};
pub use terminal::{Keyboard, SharedKeyboard, Typed, WindowSize, MAX_TYPED};

/// Version of the protocol; also the PCI revision of the device.
pub const VERSION: u32 = 2;

/// Name of the virtio port that carries the channel in a stock machine.
pub const PORT_NAME: &str = "stasis.channel";

/// Serial number of the virtio drive that a root is on which is read where it lies.
pub const ROOT_SERIAL: &str = "stasis-root";

/// Type of the entry in the archive of `/results` that lists what is not in it, a line each: one of those
/// that POSIX leaves to implementations (pax, "ustar Interchange Format").
pub const LEFT_OUT: u8 = b'O';

/// Name of the program by which a process of a guest asks for a fault.
pub const FAULT_PROGRAM: &str = "stasis-fault";

/// Name of the program by which a process of a guest asks servers.
pub const CLIENT_PROGRAM: &str = "stasis-client";

/// PCI vendor of the device: "ST". Not assigned by the PCI-SIG; the device
/// exists in Stasis's machines only.
pub const VENDOR_ID: u16 = 0x5354;

/// PCI device of the channel.
pub const DEVICE_ID: u16 = 0x0001;

/// PCI revision of the device: the protocol's version.
pub const REVISION: u8 = VERSION as u8;

/// BAR that holds the mailbox: memory, 64-bit, prefetchable. Its upper half is
/// BAR 1.
pub const MAILBOX_BAR: usize = 0;

/// Size of the mailbox in bytes. Large enough that moving a file costs one exit
/// for each 4 MiB, small enough to be populated up front.
pub const MAILBOX_SIZE: usize = 4 << 20;

/// BAR that holds the registers: memory, 32-bit, not prefetchable.
pub const REGISTERS_BAR: usize = 2;

/// Size of the registers' BAR in bytes: a page, the least that a guest's user
/// space can map.
pub const REGISTERS_SIZE: usize = 4096;

/// Offset of the doorbell in the registers: a 32-bit write of any value hands
/// the request in the mailbox to the machine. Reads return [`VERSION`].
pub const DOORBELL_OFFSET: u64 = 0;

/// Bytes before the payload of a request or response: two `u32`.
pub const HEADER_SIZE: usize = 8;

/// The longest payload in bytes.
pub const MAX_PAYLOAD: usize = MAILBOX_SIZE - HEADER_SIZE;
