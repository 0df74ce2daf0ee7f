//! Services of page mapping for a layer above it, which keeps its map in flash.

/// The layer above page mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ftl) enum Above {
    /// Nothing.
    Nothing,
    /// A layer that keeps its map in units behind the host's.
    Map {
        /// Number of units.
        units: u32,
    },
}

/// Why a unit's entry of the map changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ftl) enum Event {
    /// The unit was written.
    Written,
    /// The unit was moved, or trimmed.
    Moved,
    /// Data that could not be read, and is lost.
    Lost,
}

/// A unit's entry of the map changed.
#[derive(Debug, Clone, Copy)]
pub(in crate::ftl) struct Change {
    pub unit: u32,
    pub event: Event,
}
