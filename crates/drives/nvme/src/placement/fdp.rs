//! Flexible Data Placement: reclaim groups, reclaim unit handles, and the writes through them (NVMe
//! TP4146).
//!
//! Each endurance group has its own. A namespace that the drive is made with has a placement handle for
//! each of the group's reclaim unit handles, by its number; one that a host creates those of its list,
//! or one. The list is `handles` here: empty for all.

use stasis_nvme_layout::placement::{HandleStatus, HandleStatusHead};
use stasis_nvme_layout::IntoBytes;

use crate::kept::{KeptFdp, KeptHandle};
use crate::narrow::{count16, count8};

use super::events::{EventLog, FdpEvent, INVALID_PLACEMENT, NOT_FULLY_WRITTEN};

/// A reclaim unit handle.
#[derive(Debug, Clone, Default)]
pub struct Handle {
    /// True if data was placed by it.
    pub used: bool,
    /// Which events are logged, a bit for each of `EVENT_TYPES`.
    pub events: u8,
}

/// Bytes that the host wrote, and that the medium took and erased.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    pub host_written: u64,
    pub media_written: u64,
    pub media_erased: u64,
}

/// Flexible Data Placement of an endurance group.
#[derive(Debug)]
pub struct Fdp {
    /// True if it is enabled, as it is at first.
    enabled: bool,
    pub groups: u16,
    /// Reclaim unit handles.
    pub handles: Vec<Handle>,
    /// Size of a reclaim unit in bytes.
    pub unit: u64,
    /// By reclaim group and handle, bytes that its unit has room for.
    room: Vec<u64>,
    /// Bytes that the host wrote.
    pub host_written: u64,
    /// Counts up to the last power-off.
    pub before: Totals,
    pub host_events: EventLog,
    /// Number of changes of something else than a count of bytes.
    changes: u64,
}

/// A placement identifier taken apart.
#[derive(Debug, Clone, Copy)]
struct PlacementId {
    group: u16,
    handle: u8,
}

impl Fdp {
    pub fn new(groups: u16, handles: u16, unit: u64) -> Self {
        Self {
            groups,
            handles: vec![Handle::default(); handles.into()],
            enabled: true,
            unit,
            room: vec![unit; usize::from(groups) * usize::from(handles)],
            host_written: 0,
            before: Totals::default(),
            host_events: EventLog::default(),
            changes: 0,
        }
    }

    /// Returns whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Enables or disables it. Enabled anew, no handle was used, and each has an empty unit.
    pub fn set_enabled(&mut self, enabled: bool) {
        if enabled && !self.enabled {
            self.handles.fill(Handle::default());
            self.room.fill(self.unit);
            self.host_events = EventLog::default();
        }
        self.changes += u64::from(self.enabled != enabled);
        self.enabled = enabled;
    }

    /// Returns the number of changes of what is kept, but for the bytes counted in a reclaim unit
    /// that was begun already.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Enables events of a handle, a bit for each of `EVENT_TYPES`, or disables them.
    pub fn enable_events(&mut self, handle: usize, bits: u8, enabled: bool) {
        let events = &mut self.handles[handle].events;
        *events = if enabled { *events | bits } else { *events & !bits };
        self.changes += 1;
    }

    /// The state that outlives the controller; `media_written` and `media_erased` are the medium's
    /// bytes written and erased since the drive was made.
    pub fn kept(&self, media_written: u64, media_erased: u64) -> KeptFdp {
        let handle = |handle: &Handle| KeptHandle { used: handle.used, events: handle.events };
        KeptFdp {
            handles: self.handles.iter().map(handle).collect(),
            room: self.room.clone(),
            host_written: self.host_written,
            media_written,
            media_erased,
            disabled: !self.enabled,
        }
    }

    /// Resumes from the kept state.
    ///
    /// # Errors
    /// The reason why the drive cannot have such a placement.
    pub fn restore(&mut self, kept: &KeptFdp) -> Result<(), &'static str> {
        if kept.handles.len() != self.handles.len() || kept.room.len() != self.room.len() {
            return Err("it has other reclaim unit handles");
        }
        if kept.room.iter().any(|&room| room == 0 || room > self.unit) {
            return Err("a reclaim unit has more room than its size, or none");
        }
        let handle = |&KeptHandle { used, events }: &KeptHandle| Handle { used, events };
        self.handles = kept.handles.iter().map(handle).collect();
        self.room.clone_from(&kept.room);
        self.enabled = !kept.disabled;
        self.host_written = kept.host_written;
        let KeptFdp { host_written, media_written, media_erased, .. } = *kept;
        self.before = Totals { host_written, media_written, media_erased };
        Ok(())
    }

    /// RGIF: how many of a placement identifier's highest bits are the reclaim
    /// group.
    pub fn group_bits(&self) -> u32 {
        self.groups.next_power_of_two().trailing_zeros()
    }

    fn identifier(&self, place: PlacementId) -> u16 {
        // Without groups nothing is shifted, by any number of bits.
        place.group.checked_shl(16 - self.group_bits()).unwrap_or(0) | u16::from(place.handle)
    }

    /// The place of an identifier, if it is one.
    fn place(&self, handles: &[u8], identifier: u16) -> Option<PlacementId> {
        let bits = self.group_bits();
        let group = identifier.checked_shr(16 - bits).unwrap_or(0);
        let handle = self.handle(handles, identifier & u16::MAX >> bits)?;
        (group < self.groups).then_some(PlacementId { group, handle })
    }

    /// The reclaim unit handle of a placement handle.
    pub fn handle(&self, handles: &[u8], number: u16) -> Option<u8> {
        if !handles.is_empty() {
            return handles.get(usize::from(number)).copied();
        }
        u8::try_from(number).ok().filter(|&handle| usize::from(handle) < self.handles.len())
    }

    /// Returns whether an identifier names a place.
    pub fn is_place(&self, handles: &[u8], identifier: u16) -> bool {
        self.place(handles, identifier).is_some()
    }

    /// Returns the number of places.
    pub fn places(&self, handles: &[u8]) -> usize {
        match handles.len() {
            0 => self.room.len(),
            count => usize::from(self.groups) * count,
        }
    }

    fn room_of(&mut self, place: PlacementId) -> &mut u64 {
        let index = usize::from(place.group) * self.handles.len() + usize::from(place.handle);
        &mut self.room[index]
    }

    /// `length` bytes are written by placement identifier `identifier`: which
    /// the drive is to take. A wrong one is the first handle's.
    pub fn write(
        &mut self,
        (nsid, handles): (u32, &[u8]),
        identifier: u16,
        length: u64,
        now: u64,
    ) -> u16 {
        let place = self.place(handles, identifier).unwrap_or_else(|| {
            let handle = handles.first().copied().unwrap_or(0);
            let event = FdpEvent { nsid, identifier, location: None };
            self.log(handle, INVALID_PLACEMENT, event, now);
            PlacementId { group: 0, handle }
        });
        let first = !std::mem::replace(&mut self.handles[usize::from(place.handle)].used, true);
        self.host_written += length;
        let unit = self.unit;
        let room = self.room_of(place);
        // A full unit is followed by an empty one.
        let past = length % unit;
        let begins = length >= *room;
        *room = if past < *room { *room - past } else { *room + unit - past };
        self.changes += u64::from(first || begins);
        self.identifier(place)
    }

    /// Moves a handle to its next reclaim unit, as the host asks.
    pub fn update(&mut self, (nsid, handles): (u32, &[u8]), identifier: u16, now: u64) {
        let Some(place) = self.place(handles, identifier) else { return };
        let unit = self.unit;
        let room = std::mem::replace(self.room_of(place), unit);
        self.changes += 1;
        if room < unit {
            let location = Some((place.group, place.handle));
            let event = FdpEvent { nsid, identifier, location };
            self.log(place.handle, NOT_FULLY_WRITTEN, event, now);
        }
    }

    fn log(&mut self, handle: u8, kind: u8, event: FdpEvent, now: u64) {
        let enabled = super::events::bit(kind)
            .is_some_and(|bit| self.handles[usize::from(handle)].events & bit != 0);
        if enabled {
            self.host_events.add(kind, event, now);
        }
    }

    /// Reclaim Unit Handle Status (TP4146): header, and a descriptor for each
    /// placement handle of each group.
    pub fn status(&mut self, handles: &[u8], block_size: u32) -> Vec<u8> {
        let nruhsd = count16(self.places(handles)).into();
        let mut data = HandleStatusHead { nruhsd, ..Default::default() }.as_bytes().to_vec();
        let all: Vec<u8> = (0..count8(self.handles.len())).collect();
        let handles = if handles.is_empty() { &all } else { handles };
        let places = (0..self.groups).flat_map(|group| {
            (0u8..).zip(handles).map(move |(number, &handle)| (group, number, handle))
        });
        for (group, number, handle) in places {
            let named = PlacementId { group, handle: number };
            // Estimated active time remaining is not reported (0).
            let status = HandleStatus {
                pid: self.identifier(named).into(),
                ruhid: u16::from(handle).into(),
                ruamw: (*self.room_of(PlacementId { group, handle }) / u64::from(block_size))
                    .into(),
                ..Default::default()
            };
            data.extend(status.as_bytes());
        }
        data
    }
}
