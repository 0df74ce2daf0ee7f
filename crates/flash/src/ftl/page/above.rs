//! What page mapping does for a layer above it, which keeps its map in flash.

use stasis_clock::Nanos;

use super::{Context, PageFtl};
use crate::buffer::NONE;

/// What lies above page mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ftl) enum Above {
    /// Nothing.
    Nothing,
    /// A layer that keeps its map in units behind the host's.
    Map {
        /// How many.
        units: u32,
    },
}

/// Why a unit's entry of the map changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ftl) enum Event {
    /// The unit was written.
    Written,
    /// It was moved, or trimmed.
    Moved,
    /// It could not be read, and is no more.
    Lost,
}

/// A unit's entry of the map changed.
#[derive(Debug, Clone, Copy)]
pub(in crate::ftl) struct Change {
    pub unit: u32,
    pub event: Event,
}

impl PageFtl {
    /// The layer above has to know.
    pub(super) fn push_event(&mut self, unit: u32, event: Event) {
        if let Some(changes) = &mut self.changes {
            changes.push(Change { unit, event });
        }
    }

    /// A unit of the layer's map has new contents.
    pub(in crate::ftl) fn write_map_unit(&mut self, now: Nanos, unit: u32, context: &mut Context) {
        if self.buffer.merge(unit).is_none() {
            let stream = self.host_streams as u16;
            self.buffer.admit(unit, stream, NONE, self.protected);
        }
        #[cfg(test)]
        if let (Some(shadow), Some(version)) = (&mut context.shadow, self.buffer.version(unit)) {
            shadow.admit(unit, version);
        }
        if !self.stalled {
            self.dispatch(now, context);
        }
    }
}
