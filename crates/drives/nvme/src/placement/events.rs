//! Events of Flexible Data Placement, as their log page has them (NVMe
//! TP4146, "FDP Events").

use std::collections::VecDeque;

use stasis_nvme_layout::placement::{self as layout, FdpEventsHead};
use stasis_nvme_layout::IntoBytes;

use crate::narrow::count32;

/// A reclaim unit was left before it was full.
pub const NOT_FULLY_WRITTEN: u8 = 0x00;
/// A write named a placement identifier that is none.
pub const INVALID_PLACEMENT: u8 = 0x03;
/// All that are logged.
pub const EVENT_TYPES: [u8; 2] = [NOT_FULLY_WRITTEN, INVALID_PLACEMENT];

/// Maximum number of events that a log keeps.
const MAX_EVENTS: usize = 63;

/// The bit of an event type in a handle's filter.
pub fn bit(kind: u8) -> Option<u8> {
    EVENT_TYPES.iter().position(|&other| other == kind).map(|index| 1 << index)
}

/// The subject of an event.
#[derive(Debug, Clone, Copy)]
pub struct FdpEvent {
    pub nsid: u32,
    /// Placement identifier.
    pub identifier: u16,
    /// Reclaim group, and reclaim unit handle.
    pub location: Option<(u16, u8)>,
}

/// The last events, oldest first.
#[derive(Debug, Default)]
pub struct EventLog {
    events: VecDeque<layout::FdpEvent>,
}

impl EventLog {
    /// Adds an event at `now`, a value of the Timestamp feature; the oldest
    /// makes room.
    pub fn add(&mut self, kind: u8, event: FdpEvent, now: u64) {
        const IDENTIFIER_VALID: u8 = 1;
        const NAMESPACE_VALID: u8 = 1 << 1;
        const LOCATION_VALID: u8 = 1 << 2;
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        let mut entry = layout::FdpEvent {
            etype: kind,
            valid: IDENTIFIER_VALID | NAMESPACE_VALID,
            pid: event.identifier.into(),
            timestamp: now.into(),
            nsid: event.nsid.into(),
            ..Default::default()
        };
        if let Some((group, handle)) = event.location {
            entry.valid |= LOCATION_VALID;
            entry.rgid.set(group);
            entry.ruhid = handle;
        }
        self.events.push_back(entry);
    }

    /// The log page.
    pub fn to_page(&self) -> Vec<u8> {
        let count = count32(self.events.len()).into();
        let mut page = FdpEventsHead { count, ..Default::default() }.as_bytes().to_vec();
        page.extend(self.events.iter().flat_map(|event| event.as_bytes()));
        page
    }
}
