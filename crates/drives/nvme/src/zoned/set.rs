//! The zones of a namespace and their states (ZNS 1.1 section 2.1.1.2): a state machine that is
//! independent of queues and of the drive.

mod kept;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::narrow::{count32, size};
use crate::status::StatusCode;

use super::config::Zones;

pub use kept::KeptZones;

/// State of a zone, as descriptors number it (ZNS 1.1 section 3.4.2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ZoneState {
    /// Nothing is written.
    Empty = 0x1,
    /// Opened by a write.
    ImplicitlyOpen = 0x2,
    /// Opened by the host's word.
    ExplicitlyOpen = 0x3,
    /// Written in part, and not open.
    Closed = 0x4,
    /// The zone takes no writes any more.
    ReadOnly = 0xd,
    /// The zone takes no writes until it is reset.
    Full = 0xe,
    /// Its contents are lost, and it takes no writes any more.
    Offline = 0xf,
}

impl ZoneState {
    fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    /// Returns whether it holds an active resource.
    fn is_active(self) -> bool {
        self.is_open() || self == Self::Closed
    }
}

/// Zone Attributes: a random write area is valid.
pub const ZRWA_VALID: u8 = 1 << 3;
/// Zone Attributes: the descriptor extension is valid.
pub const EXTENSION_VALID: u8 = 1 << 7;

/// A zone.
#[derive(Debug, Clone, Copy)]
pub struct Zone {
    pub state: ZoneState,
    pub attributes: u8,
    /// Blocks before the write pointer; in a full zone, blocks that have data.
    pub written: u64,
}

impl Zone {
    pub fn has_zrwa(&self) -> bool {
        self.attributes & ZRWA_VALID != 0
    }
}

/// An action that a host requests for a zone (ZNS 1.1 section 3.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Close,
    Finish,
    Open,
    /// With a random write area.
    OpenRandom,
    Reset,
    Offline,
}

/// A random write area, in blocks.
#[derive(Debug, Clone, Copy)]
struct Area {
    size: u64,
    granularity: u64,
}

/// All zones of a namespace. Addresses and lengths are in blocks, and inside
/// the namespace.
#[derive(Debug)]
pub struct ZoneSet {
    pub size: u64,
    pub capacity: u64,
    zones: Vec<Zone>,
    open: u32,
    active: u32,
    max_open: u32,
    max_active: u32,
    /// Implicitly opened zones, the longest open first; kept only if there is
    /// a limit, for it is as long as that.
    implicit: VecDeque<usize>,
    area: Option<Area>,
    areas_left: u32,
    reads_cross: bool,
    fills: bool,
    extension_size: usize,
    extensions: Vec<u8>,
    /// Returns the number of changes of what is kept of them.
    changes: u64,
}

impl ZoneSet {
    /// Empty zones on `blocks` blocks of `block` bytes.
    pub fn new(config: &Zones, blocks: u64, block: u64) -> Self {
        let count = size(blocks / (config.size / block));
        let extension_size = size(config.extension_size);
        Self {
            size: config.size / block,
            capacity: config.capacity() / block,
            zones: vec![Zone { state: ZoneState::Empty, attributes: 0, written: 0 }; count],
            open: 0,
            active: 0,
            max_open: config.max_open().unwrap_or(u32::MAX),
            max_active: config.max_active.unwrap_or(u32::MAX),
            implicit: VecDeque::new(),
            area: config.zrwa.map(|zrwa| Area {
                size: zrwa.size / block,
                granularity: zrwa.granularity / block,
            }),
            areas_left: config.zrwa.map_or(0, |zrwa| zrwa.count),
            reads_cross: config.reads_cross_zones,
            fills: config.fills,
            extension_size,
            extensions: vec![0; count * extension_size],
            changes: 0,
        }
    }

    /// Returns the number of changes of what is kept of them.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    pub fn extension(&self, index: usize) -> &[u8] {
        &self.extensions[index * self.extension_size..][..self.extension_size]
    }

    pub fn index(&self, lba: u64) -> usize {
        size(lba / self.size)
    }

    pub fn start(&self, index: usize) -> u64 {
        index as u64 * self.size
    }

    /// Returns whether blocks can be read (ZNS 1.1 section 3.5.1).
    pub fn check_read(&self, lba: u64, blocks: u64) -> Result<(), StatusCode> {
        let last = self.index(lba + blocks - 1);
        let covered = &self.zones[self.index(lba)..=last];
        if covered.len() > 1 && !self.reads_cross {
            return Err(StatusCode::ZoneBoundaryError);
        }
        match covered.iter().any(|zone| zone.state == ZoneState::Offline) {
            true => Err(StatusCode::ZoneIsOffline),
            false => Ok(()),
        }
    }

    /// Returns whether blocks can be written now (ZNS 1.1 section 3.5.2).
    pub fn check_write(&self, lba: u64, blocks: u64) -> Result<(), StatusCode> {
        let index = self.index(lba);
        let zone = &self.zones[index];
        let at = lba - self.start(index);
        self.check_writable(zone, at, blocks)?;
        let right = match self.area.filter(|_| zone.has_zrwa()) {
            // Up to twice the area: a write beyond the area moves the area.
            Some(area) => at >= zone.written && at + blocks <= zone.written + 2 * area.size,
            None => at == zone.written,
        };
        if !right {
            return Err(StatusCode::ZoneInvalidWrite);
        }
        self.check_resources(zone.state)
    }

    /// Returns the place of blocks that were appended to zone `index` (ZNS 1.1 section 3.4.1).
    pub fn check_append(&self, index: usize, blocks: u64) -> Result<u64, StatusCode> {
        let zone = &self.zones[index];
        if zone.has_zrwa() {
            return Err(StatusCode::InvalidZoneOperation);
        }
        self.check_writable(zone, zone.written, blocks)?;
        self.check_resources(zone.state)?;
        Ok(self.start(index) + zone.written)
    }

    fn check_writable(&self, zone: &Zone, at: u64, blocks: u64) -> Result<(), StatusCode> {
        match zone.state {
            ZoneState::Full => return Err(StatusCode::ZoneIsFull),
            ZoneState::ReadOnly => return Err(StatusCode::ZoneIsReadOnly),
            ZoneState::Offline => return Err(StatusCode::ZoneIsOffline),
            _ => {}
        }
        match at + blocks > self.capacity {
            true => Err(StatusCode::ZoneBoundaryError),
            false => Ok(()),
        }
    }

    /// Returns whether a zone of `state` can be opened: where the limit of open zones is reached,
    /// an implicitly opened one makes way.
    fn check_resources(&self, state: ZoneState) -> Result<(), StatusCode> {
        if state.is_open() {
            return Ok(());
        }
        if !state.is_active() && self.active >= self.max_active {
            return Err(StatusCode::TooManyActiveZones);
        }
        if self.open >= self.max_open && self.implicit.is_empty() {
            return Err(StatusCode::TooManyOpenZones);
        }
        Ok(())
    }

    /// Blocks are being written, as `check_write` has allowed.
    pub fn write(&mut self, lba: u64, blocks: u64) {
        let index = self.index(lba);
        if !self.zones[index].state.is_open() {
            self.open(index, ZoneState::ImplicitlyOpen);
        }
        let end = lba - self.start(index) + blocks;
        let zone = &self.zones[index];
        match self.area.filter(|_| zone.has_zrwa()) {
            Some(area) => {
                let beyond = end.saturating_sub(zone.written + area.size);
                let step = beyond.div_ceil(area.granularity) * area.granularity;
                self.advance(index, step);
            }
            None => self.advance(index, blocks),
        }
    }

    fn advance(&mut self, index: usize, blocks: u64) {
        self.changes += 1;
        let zone = &mut self.zones[index];
        zone.written = (zone.written + blocks).min(self.capacity);
        if zone.written == self.capacity {
            self.set(index, ZoneState::Full);
        }
    }

    /// Opens a zone for which resources are free, or can be freed.
    fn open(&mut self, index: usize, state: ZoneState) {
        if self.open >= self.max_open && !self.zones[index].state.is_open() {
            if let Some(&longest) = self.implicit.front() {
                self.set(longest, ZoneState::Closed);
            }
        }
        self.set(index, state);
    }

    /// Changes a zone's state and its share of resources.
    fn set(&mut self, index: usize, state: ZoneState) {
        self.changes += 1;
        let zone = &mut self.zones[index];
        let before = std::mem::replace(&mut zone.state, state);
        self.open = self.open + u32::from(state.is_open()) - u32::from(before.is_open());
        self.active = self.active + u32::from(state.is_active()) - u32::from(before.is_active());
        if !state.is_active() && zone.has_zrwa() {
            zone.attributes &= !ZRWA_VALID;
            self.areas_left += 1;
        }
        if matches!(state, ZoneState::Empty | ZoneState::Offline) {
            zone.written = 0;
            zone.attributes &= !EXTENSION_VALID;
        }
        if self.max_open == u32::MAX {
            return;
        }
        if before == ZoneState::ImplicitlyOpen {
            let place = self.implicit.iter().position(|&open| open == index);
            place.map(|place| self.implicit.remove(place));
        }
        if state == ZoneState::ImplicitlyOpen {
            self.implicit.push_back(index);
        }
    }

    /// Carries out `action` on a zone. Says whether its data went away.
    pub fn act(&mut self, index: usize, action: Action) -> Result<bool, StatusCode> {
        let state = self.zones[index].state;
        match (action, state) {
            (Action::OpenRandom, _) => return self.open_random(index).map(|()| false),
            (Action::Open, ZoneState::ExplicitlyOpen) => {}
            (Action::Open, ZoneState::Empty | ZoneState::ImplicitlyOpen | ZoneState::Closed) => {
                self.check_resources(state)?;
                self.open(index, ZoneState::ExplicitlyOpen);
            }
            (Action::Close, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen) => {
                self.set(index, ZoneState::Closed);
            }
            (Action::Close, ZoneState::Closed) | (Action::Finish, ZoneState::Full) => {}
            (Action::Finish, _) if state == ZoneState::Empty || state.is_active() => {
                // The contents of a random write area become part of the zone.
                let zone = &mut self.zones[index];
                if let Some(area) = self.area.filter(|_| zone.has_zrwa()) {
                    zone.written = (zone.written + area.size).min(self.capacity);
                }
                self.set(index, ZoneState::Full);
            }
            (Action::Reset, ZoneState::Empty) | (Action::Offline, ZoneState::Offline) => {}
            (Action::Reset, _) if state == ZoneState::Full || state.is_active() => {
                self.set(index, ZoneState::Empty);
                return Ok(true);
            }
            (Action::Offline, ZoneState::ReadOnly) => self.set(index, ZoneState::Offline),
            _ => return Err(StatusCode::InvalidZoneStateTransition),
        }
        Ok(false)
    }

    /// The blocks of a zone that its finish writes, if it writes any: the first, and how many. What a
    /// random write area holds is in no order, and so is not filled up.
    pub fn rest(&self, index: usize) -> Option<(u64, u64)> {
        let zone = &self.zones[index];
        let finishes = zone.state == ZoneState::Empty || zone.state.is_active();
        let remaining = self.capacity.saturating_sub(zone.written);
        (self.fills && finishes && !zone.has_zrwa() && remaining > 0)
            .then(|| (self.start(index) + zone.written, remaining))
    }

    /// Opens a zone with a random write area.
    fn open_random(&mut self, index: usize) -> Result<(), StatusCode> {
        let zone = &self.zones[index];
        let has = zone.has_zrwa();
        if self.area.is_none() || !has && zone.state != ZoneState::Empty {
            return Err(StatusCode::InvalidZoneOperation);
        }
        if !has && self.areas_left == 0 {
            return Err(StatusCode::NoZrwaResources);
        }
        self.act(index, Action::Open)?;
        if !has {
            self.changes += 1;
            self.zones[index].attributes |= ZRWA_VALID;
            self.areas_left -= 1;
        }
        Ok(())
    }

    /// Returns whether `action` on all zones concerns one of this state (ZNS 1.1 section 3.4.3,
    /// "Select All").
    pub fn is_meant(action: Action, state: ZoneState) -> bool {
        match action {
            Action::Close => state.is_open(),
            Action::Finish => state.is_active(),
            Action::Open => state == ZoneState::Closed,
            Action::OpenRandom => false,
            Action::Reset => state.is_active() || state == ZoneState::Full,
            Action::Offline => state == ZoneState::ReadOnly,
        }
    }

    /// Returns whether all closed zones can be opened explicitly.
    pub fn check_open_all(&self) -> Result<(), StatusCode> {
        let implicit = count32(self.implicit.len());
        let closed = self.active - self.open;
        match self.open - implicit + closed > self.max_open {
            true => Err(StatusCode::TooManyOpenZones),
            false => Ok(()),
        }
    }

    /// Commits the random write area of the zone of `lba` up to it.
    pub fn flush(&mut self, lba: u64) -> Result<(), StatusCode> {
        let index = self.index(lba);
        let zone = &self.zones[index];
        let Some(area) = self.area else { return Err(StatusCode::InvalidZoneOperation) };
        if !zone.has_zrwa() {
            return Err(StatusCode::InvalidZoneOperation);
        }
        let end = lba - self.start(index) + 1;
        if end <= zone.written || end > (zone.written + area.size).min(self.capacity) {
            return Err(StatusCode::ZoneBoundaryError);
        }
        let step = end - zone.written;
        if !step.is_multiple_of(area.granularity) {
            return Err(StatusCode::InvalidField);
        }
        let state = zone.state;
        self.check_resources(state)?;
        if !state.is_open() {
            self.open(index, ZoneState::ImplicitlyOpen);
        }
        self.advance(index, step);
        Ok(())
    }

    /// Returns whether an extension can be attached to a zone, which makes it active.
    pub fn check_extension(&self, index: usize) -> Result<(), StatusCode> {
        if self.extension_size == 0 {
            return Err(StatusCode::InvalidField);
        }
        if self.zones[index].state != ZoneState::Empty {
            return Err(StatusCode::InvalidZoneStateTransition);
        }
        match self.active >= self.max_active {
            true => Err(StatusCode::TooManyActiveZones),
            false => Ok(()),
        }
    }

    /// Attaches an extension, as `check_extension` has allowed.
    pub fn set_extension(&mut self, index: usize, data: &[u8]) {
        let size = self.extension_size;
        self.extensions[index * size..][..size].copy_from_slice(data);
        self.zones[index].attributes |= EXTENSION_VALID;
        self.set(index, ZoneState::Closed);
    }

    /// Size of an extension in bytes.
    pub fn extension_size(&self) -> usize {
        self.extension_size
    }

    /// Notes a failure of the medium: the zone can no longer be written, or not be used at all.
    /// Returns whether the zone's state has changed.
    pub fn fail(&mut self, index: usize, state: ZoneState) -> bool {
        let before = self.zones[index].state;
        if before == state || before == ZoneState::Offline {
            return false;
        }
        self.set(index, state);
        true
    }

    /// Blocks from `lba` on, at most `blocks`, that lie in one zone, and
    /// whether they have data.
    pub fn run(&self, lba: u64, blocks: u64) -> (u64, bool) {
        let index = self.index(lba);
        let Some(zone) = self.zones.get(index) else { return (blocks, true) };
        let at = lba - self.start(index);
        let ahead = self.area.filter(|_| zone.has_zrwa()).map_or(0, |area| area.size);
        let end = (zone.written + ahead).min(self.capacity);
        match at < end {
            true => (blocks.min(end - at), true),
            false => (blocks.min(self.size - at), false),
        }
    }
}
