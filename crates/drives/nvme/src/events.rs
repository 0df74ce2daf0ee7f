//! Asynchronous events: notifications to the guest (NVMe 1.4 section 5.2).

use std::collections::{BTreeSet, VecDeque};

use stasis_nvme_layout::identify::NamespaceList;

use crate::condition::{WARNING_READ_ONLY, WARNING_SPARE, WARNING_TOO_WARM};
use crate::log_page;

/// Maximum number of Asynchronous Event Requests that wait at a time: Asynchronous Event
/// Request Limit in Identify Controller, plus one.
pub const MAX_EVENT_REQUESTS: usize = 4;

/// Types of events that are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Error status: read the error log.
    Error = 0,
    /// SMART / health status: read its log.
    Health = 1,
    /// Something changed: read the log that the event names.
    Notice = 2,
    /// Changed chunks of an Open-Channel drive.
    Vendor = 3,
    /// Reservations, of an I/O command set.
    CommandSet = 4,
    /// The end of a sanitize operation, of an I/O command set.
    Sanitize = 5,
}

impl EventType {
    const COUNT: usize = 6;

    /// Asynchronous Event Type.
    fn number(self) -> u32 {
        match self {
            Self::Vendor => 7,
            Self::CommandSet | Self::Sanitize => 6,
            other => other as u32,
        }
    }
}

/// An asynchronous event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    kind: EventType,
    /// Asynchronous Event Information.
    information: u8,
    /// Log Page Identifier: where more is to be read.
    log: u8,
    /// The namespace, for events that report one; otherwise 0.
    nsid: u32,
}

impl Event {
    /// A doorbell of a queue that is not there was rung (section 5.2.1, "Error
    /// Status").
    pub const INVALID_DOORBELL_REGISTER: Self = Self::error(0);
    /// A doorbell was set to an invalid value.
    pub const INVALID_DOORBELL_VALUE: Self = Self::error(1);
    /// Asymmetric Namespace Access Change (section 5.2.1, "Notice").
    pub const ACCESS_CHANGED: Self = Self::notice(3, log_page::ANA);
    /// Namespace Attribute Changed (section 5.2.1, "Notice"): the Identify data of a namespace has
    /// changed.
    pub const NAMESPACE_CHANGED: Self = Self::notice(0, log_page::CHANGED_NAMESPACES);

    const fn notice(information: u8, log: u8) -> Self {
        Self { kind: EventType::Notice, information, log, nsid: 0 }
    }

    const fn error(information: u8) -> Self {
        Self { kind: EventType::Error, information, log: log_page::ERROR_INFORMATION, nsid: 0 }
    }

    /// Reservation Log Page Available (section 5.2.1, "NVM Command Set Events").
    pub const RESERVATION: Self =
        Self { kind: EventType::CommandSet, information: 0, log: log_page::RESERVATIONS, nsid: 0 };

    /// Sanitize Operation Completed (the same section): with success or not.
    pub const SANITIZED: Self =
        Self { kind: EventType::Sanitize, information: 1, log: log_page::SANITIZE, nsid: 0 };

    /// Firmware Activation Starting (section 5.2.1, "Notice").
    pub const FIRMWARE_ACTIVATION: Self = Self::notice(1, log_page::FIRMWARE_SLOTS);

    /// Endurance Group Event Aggregate Log Page Change (the same section).
    pub const GROUP_EVENTS: Self = Self::notice(6, log_page::GROUP_EVENTS);

    /// Telemetry Log Changed (the same section): the controller has captured its state.
    pub const TELEMETRY: Self = Self::notice(2, log_page::TELEMETRY_OF_CONTROLLER);

    /// Returns whether it is an error that no command has.
    pub fn is_error(&self) -> bool {
        self.kind == EventType::Error
    }

    /// Zone Descriptor Changed (ZNS 1.1 section 4.1.1): zones of a namespace have changed by
    /// themselves.
    pub fn zones_changed(nsid: u32) -> Self {
        const ZONE_DESCRIPTOR_CHANGED: u8 = 0xef;
        let (kind, log) = (EventType::Notice, log_page::CHANGED_ZONES);
        Self { kind, information: ZONE_DESCRIPTOR_CHANGED, log, nsid }
    }

    /// Chunks of an Open-Channel namespace have changed by themselves: the only event of such
    /// drives.
    pub fn chunks_changed(nsid: u32) -> Self {
        const CHUNK_CHANGED: u8 = 0;
        let (kind, log) = (EventType::Vendor, log_page::CHUNK_NOTIFICATIONS);
        Self { kind, information: CHUNK_CHANGED, log, nsid }
    }
}

/// The event of each bit of Critical Warning in the SMART log (section 5.2.1, "SMART /
/// Health Status").
const WARNING_EVENTS: [(u8, u8); 3] =
    [(WARNING_SPARE, 2), (WARNING_TOO_WARM, 1), (WARNING_READ_ONLY, 0)];

/// The requests that wait for events, and the events that wait for requests.
#[derive(Debug, Default)]
pub struct Events {
    requests: VecDeque<u16>,
    /// Events not reported yet: at most one of errors, one of health, and one notice of each
    /// information value.
    happened: Vec<Event>,
    /// By type, whether an event was reported and its log not read since; until then the type is
    /// not reported again.
    masked: [bool; EventType::COUNT],
    /// Critical warnings that have had their event, and still hold.
    warned: u8,
    /// Namespaces that changed since their log was read.
    changed: BTreeSet<u32>,
    /// Endurance groups that had events since their log was read.
    groups: BTreeSet<u16>,
}

impl Events {
    /// Takes the request `cid`, which completes at the next event. Returns whether there was room
    /// for it.
    pub fn request(&mut self, cid: u16) -> bool {
        let has_room = self.requests.len() < MAX_EVENT_REQUESTS;
        if has_room {
            self.requests.push_back(cid);
        }
        has_room
    }

    /// Takes back the waiting request `cid`. Returns whether there was one.
    pub fn withdraw(&mut self, cid: u16) -> bool {
        let place = self.requests.iter().position(|&waiting| waiting == cid);
        place.and_then(|place| self.requests.remove(place)).is_some()
    }

    /// Something happened. Errors and warnings that are masked are forgotten; notices wait.
    pub fn add(&mut self, event: Event) {
        let notice = event.kind == EventType::Notice;
        let known = self.happened.iter().any(|other| match notice {
            true => *other == event,
            false => other.kind == event.kind,
        });
        if !known && (notice || !self.masked[event.kind as usize]) {
            self.happened.push(event);
        }
    }

    /// The next request that can complete, and Dwords 0 and 1 of its completion.
    pub fn next(&mut self) -> Option<(u16, u64)> {
        let masked = self.masked;
        let next = self.happened.iter().position(|event| !masked[event.kind as usize])?;
        let cid = self.requests.pop_front()?;
        let Event { kind, information, log, nsid } = self.happened.remove(next);
        self.masked[kind as usize] = true;
        let result = kind.number() | u32::from(information) << 8 | u32::from(log) << 16;
        Some((cid, u64::from(result) | u64::from(nsid) << 32))
    }

    /// The next critical warning to report: one of `asked`, the warnings that hold and of which the
    /// guest requested events, that was not reported since it holds.
    pub fn next_warning(&mut self, asked: u8) -> Option<Event> {
        self.warned &= asked;
        let kind = EventType::Health;
        if self.masked[kind as usize] || self.happened.iter().any(|event| event.kind == kind) {
            return None;
        }
        let untold = asked & !self.warned;
        let &(bit, information) = WARNING_EVENTS.iter().find(|(bit, _)| untold & bit != 0)?;
        self.warned |= bit;
        Some(Event { kind, information, log: log_page::HEALTH, nsid: 0 })
    }

    /// The log `log` of a namespace was read, which reported the waiting events.
    pub fn forget(&mut self, log: u8, nsid: u32) {
        self.happened.retain(|event| (event.log, event.nsid) != (log, nsid));
    }

    /// The log that belongs to `kind` was read.
    pub fn unmask(&mut self, kind: EventType) {
        self.masked[kind as usize] = false;
    }

    /// Notes an event of an endurance group. Returns whether the group had no unread event before.
    pub fn group_event(&mut self, group: u16) -> bool {
        self.groups.insert(group)
    }

    /// The log of an endurance group was read.
    pub fn clear_group(&mut self, group: u16) {
        self.groups.remove(&group);
    }

    /// Endurance Group Event Aggregate (NVMe 2.0 section 5.16.1.16).
    pub fn groups_page(&self) -> Vec<u8> {
        let mut log = (self.groups.len() as u64).to_le_bytes().to_vec();
        log.extend(self.groups.iter().flat_map(|group| group.to_le_bytes()));
        // Logs are read in dwords.
        log.resize(log.len().next_multiple_of(4), 0);
        log
    }

    /// The Identify data of a namespace has changed.
    pub fn namespace_changed(&mut self, nsid: u32) {
        self.changed.insert(nsid);
    }

    /// Changed Namespace List (section 5.14.1.4): there are fewer than it has
    /// room for.
    pub fn changed_namespaces_page(&self) -> NamespaceList {
        let mut log = NamespaceList::default();
        log.nsids.iter_mut().zip(&self.changed).for_each(|(entry, nsid)| entry.set(*nsid));
        log
    }

    /// Notes that the list was read.
    pub fn clear_changed_namespaces(&mut self) {
        self.changed.clear();
    }
}
