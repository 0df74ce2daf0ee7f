//! Reservations: which hosts may read and write a namespace (NVMe 1.4 sections 6.10 to 6.13 and
//! 8.8). They are offered where a subsystem can have several hosts. One on a fabric names itself when it
//! connects, one on PCIe by the feature Host Identifier.
//!
//! Nothing persists through power loss (PTPL is not offered).

mod commands;
mod log;
mod state;

use crate::controller_id::ControllerId;

pub use commands::{ACQUIRE, REGISTER, RELEASE, REPORT};
pub use log::{Notice, ReservationLog};
pub use state::Reservations;

/// A host, as reservations know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostId {
    /// By its Host Identifier, of 128 bits.
    Named([u8; 16]),
    /// One that has given none: that of no other controller, and another one after a reset (NVMe 1.4
    /// section 5.21.1.25).
    Unnamed(ControllerId),
}

impl HostId {
    /// Returns the host's Host Identifier; 0 if the host has given none.
    pub fn identifier(self) -> [u8; 16] {
        match self {
            Self::Named(identifier) => identifier,
            Self::Unnamed(_) => [0; 16],
        }
    }
}

/// RESCAP of Identify Namespace: all types, and Ignore Existing Key as since revision 1.3; not
/// through power loss.
pub const CAPABILITIES: u8 = 0xfe;
