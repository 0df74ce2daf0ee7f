//! Zoned namespaces, by the "NVM Express Zoned Namespace Command Set
//! Specification, revision 1.1", cited as "ZNS 1.1" with the section.
//!
//! [`set`] holds the zones' states; the rest is the way of commands to it.
//! State changes when a command is executed, before the drive has done the request: commands that
//! follow in the queue see it.

mod append;
mod changes;
mod config;
mod identify;
mod namespace;
mod receive;
mod send;
mod set;

pub use append::ZONE_APPEND;
pub use config::{Zones, ZonesError, Zrwa, CSI};
pub use identify::fill_zoned_namespace;
pub use namespace::ZonedNamespace;
pub use receive::ZONE_MANAGEMENT_RECEIVE;
pub use send::ZONE_MANAGEMENT_SEND;
pub use set::{KeptZones, ZoneState};
