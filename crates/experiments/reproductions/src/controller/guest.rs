//! The guest of all measurements.

/// The definition of the guest, which is the software host's system as well.
pub const GUEST: &str = include_str!("guest.toml");
