//! Reservations: which hosts may read and write a namespace (NVMe 1.4 sections 6.10 to 6.13 and
//! 8.8). They are offered on fabrics, where a host has named itself when it connected.
//!
//! Nothing persists through power loss (PTPL is not offered).

mod commands;
mod log;
mod state;

pub use commands::{ACQUIRE, REGISTER, RELEASE, REPORT};
pub use log::{Notice, ReservationLog};
pub use state::Reservations;

/// A Host Identifier, of 128 bits.
pub type HostId = [u8; 16];

/// RESCAP of Identify Namespace: all types, and Ignore Existing Key as since revision 1.3; not
/// through power loss.
pub const CAPABILITIES: u8 = 0xfe;
