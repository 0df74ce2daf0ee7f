//! Asynchronous events (NVMe 1.4 section 5.2).

use std::collections::{BTreeSet, VecDeque};

use stasis_block::Health;

use crate::command::{location, SubmissionEntry};
use crate::commands::Registered;
use crate::controller::Controller;
use crate::slots::CommandId;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::log::page;

/// Most Asynchronous Event Requests that wait at a time: Asynchronous Event
/// Request Limit in Identify Controller, plus one.
pub const MOST_REQUESTS: usize = 4;

/// Types of events that are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Error status: read the error log.
    Error = 0,
    /// SMART / health status: read its log.
    Health = 1,
    /// Something changed: read the log that the event names.
    Notice = 2,
    /// Of Open-Channel drives, that chunks have changed.
    Vendor = 3,
}

impl EventType {
    const COUNT: usize = 4;

    /// Asynchronous Event Type.
    fn number(self) -> u32 {
        match self {
            Self::Vendor => 7,
            other => other as u32,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub kind: EventType,
    /// Asynchronous Event Information.
    pub information: u8,
    /// Log Page Identifier: where more is to be read.
    pub log: u8,
    /// The namespace, where the event tells it; otherwise 0.
    pub nsid: u32,
}

/// Errors of doorbells (section 5.2.1, "Error Status").
const INVALID_DOORBELL_REGISTER: u8 = 0;
const INVALID_DOORBELL_VALUE: u8 = 1;
/// Namespace Attribute Changed (section 5.2.1, "Notice").
const NAMESPACE_ATTRIBUTE_CHANGED: u8 = 0;
/// Namespace Attribute Notices, in the Asynchronous Event Configuration
/// feature and in OAES of Identify Controller.
pub const NAMESPACE_NOTICES: u32 = 1 << 8;

/// Bits of Critical Warning in the SMART log (section 5.14.1.2), and the event
/// of each (section 5.2.1, "SMART / Health Status").
pub const WARNING_SPARE: u8 = 1;
pub const WARNING_TEMPERATURE: u8 = 1 << 1;
pub const WARNING_READ_ONLY: u8 = 1 << 3;
const WARNING_EVENTS: [(u8, u8); 3] =
    [(WARNING_SPARE, 2), (WARNING_TEMPERATURE, 1), (WARNING_READ_ONLY, 0)];

/// Zone Descriptor Changed (ZNS 1.1 section 4.1.1).
const ZONE_DESCRIPTOR_CHANGED: u8 = 0xef;
/// The only event of Open-Channel drives.
const CHUNK_CHANGED: u8 = 0;

/// The requests that wait for events, and the events that wait for requests.
#[derive(Debug, Default)]
pub struct Events {
    requests: VecDeque<u16>,
    /// What has not been told: of errors and of health one each, of notices
    /// one of each information.
    happened: Vec<Event>,
    /// By type, whether it was told and its log not been read since; until
    /// then it is not told again.
    masked: [bool; EventType::COUNT],
    /// Critical warnings that have had their event, and still hold.
    warned: u8,
    /// Namespaces that changed since their log was read.
    pub changed: BTreeSet<u32>,
}

impl Events {
    /// Takes back the waiting request `cid`; whether there was one.
    pub fn withdraw(&mut self, cid: u16) -> bool {
        let place = self.requests.iter().position(|&waiting| waiting == cid);
        place.and_then(|place| self.requests.remove(place)).is_some()
    }

    /// The log `log` of a namespace was read: it has told what waits.
    pub fn forget(&mut self, log: u8, nsid: u32) {
        self.happened.retain(|event| (event.log, event.nsid) != (log, nsid));
    }

    /// The log that belongs to `kind` was read.
    pub fn unmask(&mut self, kind: EventType) {
        self.masked[kind as usize] = false;
    }
}

pub const ASYNCHRONOUS_EVENT_REQUEST: Registered =
    Registered::plain(0x0c, |controller, memory, _, command| {
        controller.request_event(memory, command)
    });

impl Controller {
    /// Asynchronous Event Request: completes when something happens.
    pub(super) fn request_event(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        if self.events.requests.len() >= MOST_REQUESTS {
            return Err(StatusCode::AsynchronousEventLimitExceeded.at(location::OPCODE));
        }
        self.events.requests.push_back(command.cid);
        self.post_events(memory);
        Ok(Outcome::Pending)
    }

    /// Something happened: tells the guest now or when it asks. Errors and
    /// warnings that are masked are forgotten; notices wait.
    pub(crate) fn event(&mut self, memory: &dyn Memory, event: Event) {
        let notice = event.kind == EventType::Notice;
        let known = self.events.happened.iter().any(|other| match notice {
            true => *other == event,
            false => other.kind == event.kind,
        });
        if !known && (notice || !self.events.masked[event.kind as usize]) {
            self.events.happened.push(event);
        }
        self.post_events(memory);
    }

    pub(super) fn post_events(&mut self, memory: &dyn Memory) {
        while !self.events.requests.is_empty() {
            let masked = self.events.masked;
            let next = self.events.happened.iter().position(|of| !masked[of.kind as usize]);
            let Some(next) = next else { return };
            let Event { kind, information, log, nsid } = self.events.happened.remove(next);
            let Some(cid) = self.events.requests.pop_front() else { return };
            self.events.masked[kind as usize] = true;
            let result = kind.number() | u32::from(information) << 8 | u32::from(log) << 16;
            let result = u64::from(result) | u64::from(nsid) << 32;
            self.post(memory, CommandId { sq: 0, cid }, 0, result);
        }
    }

    /// Zones of a namespace have changed by themselves.
    pub(crate) fn notice_zones_changed(&mut self, memory: &dyn Memory, nsid: u32) {
        let (kind, log) = (EventType::Notice, super::log::page::CHANGED_ZONES);
        self.event(memory, Event { kind, information: ZONE_DESCRIPTOR_CHANGED, log, nsid });
    }

    /// Chunks of a namespace have changed by themselves.
    pub(crate) fn notice_chunks_changed(&mut self, memory: &dyn Memory, nsid: u32) {
        let (kind, log) = (EventType::Vendor, super::log::page::CHUNK_NOTIFICATIONS);
        self.event(memory, Event { kind, information: CHUNK_CHANGED, log, nsid });
    }

    /// A doorbell of a queue that is not there was rung.
    pub(crate) fn invalid_doorbell_register(&mut self, memory: &dyn Memory) {
        self.doorbell_error(memory, INVALID_DOORBELL_REGISTER);
    }

    /// A doorbell was set to what it cannot be.
    pub(crate) fn invalid_doorbell_value(&mut self, memory: &dyn Memory) {
        self.doorbell_error(memory, INVALID_DOORBELL_VALUE);
    }

    fn doorbell_error(&mut self, memory: &dyn Memory, information: u8) {
        let log = page::ERROR_INFORMATION;
        self.event(memory, Event { kind: EventType::Error, information, log, nsid: 0 });
    }

    /// What Identify says of a namespace is no longer what it was.
    pub(super) fn namespace_changed(&mut self, memory: &dyn Memory, nsid: u32) {
        self.events.changed.insert(nsid);
        if self.features.events & NAMESPACE_NOTICES != 0 {
            let (kind, log) = (EventType::Notice, page::CHANGED_NAMESPACES);
            self.event(
                memory,
                Event { kind, information: NAMESPACE_ATTRIBUTE_CHANGED, log, nsid: 0 },
            );
        }
    }

    /// Tells how the drive is, for the SMART log; warns the guest if it asked
    /// for that.
    pub fn set_health(&mut self, memory: &dyn Memory, health: Health) {
        if self.condition.set_health(health) {
            self.check_warnings(memory);
        }
    }

    /// Tells a guest that asked for it of a critical warning that it was not
    /// told of since it holds.
    pub(crate) fn check_warnings(&mut self, memory: &dyn Memory) {
        let asked = self.critical_warning() & self.features.events as u8;
        self.events.warned &= asked;
        let waits = |event: &Event| event.kind == EventType::Health;
        if self.events.masked[EventType::Health as usize] || self.events.happened.iter().any(waits)
        {
            return;
        }
        let untold = asked & !self.events.warned;
        let next = WARNING_EVENTS.iter().find(|(bit, _)| untold & bit != 0);
        if let Some(&(bit, information)) = next {
            self.events.warned |= bit;
            let (kind, log) = (EventType::Health, page::HEALTH);
            self.event(memory, Event { kind, information, log, nsid: 0 });
        }
    }
}
