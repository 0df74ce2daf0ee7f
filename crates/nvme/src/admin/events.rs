//! Asynchronous events (NVMe 1.4 section 5.2).

use std::collections::VecDeque;

use crate::command::{location, SubmissionEntry};
use crate::controller::Controller;
use crate::slots::CommandId;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

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
}

/// Errors of doorbells (section 5.2.1, "Error Status").
const INVALID_DOORBELL_REGISTER: u8 = 0;
const INVALID_DOORBELL_VALUE: u8 = 1;
/// Temperature beyond its threshold (section 5.2.1, "SMART / Health Status").
pub const TEMPERATURE_THRESHOLD: u8 = 1;

/// The requests that wait for events, and the events that wait for requests.
#[derive(Debug, Default)]
pub struct Events {
    requests: VecDeque<u16>,
    /// By type, what happened and has not been told.
    happened: [Option<u8>; 2],
    /// By type, whether it was told and its log not been read since; until
    /// then it is not told again.
    masked: [bool; 2],
}

impl Events {
    /// Takes back the waiting request `cid`; whether there was one.
    pub fn withdraw(&mut self, cid: u16) -> bool {
        let place = self.requests.iter().position(|&waiting| waiting == cid);
        place.and_then(|place| self.requests.remove(place)).is_some()
    }

    /// The log that belongs to `kind` was read.
    pub fn unmask(&mut self, kind: EventType) {
        self.masked[kind as usize] = false;
    }
}

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
        self.tell_events(memory);
        Ok(Outcome::Pending)
    }

    /// Something happened: tells the guest now or when it asks. Of each type
    /// one event is kept.
    pub(super) fn event(&mut self, memory: &dyn Memory, kind: EventType, information: u8) {
        if !self.events.masked[kind as usize] {
            self.events.happened[kind as usize].get_or_insert(information);
        }
        self.tell_events(memory);
    }

    pub(super) fn tell_events(&mut self, memory: &dyn Memory) {
        for kind in [EventType::Error, EventType::Health] {
            let index = kind as usize;
            if self.events.masked[index] || self.events.requests.is_empty() {
                continue;
            }
            let Some(information) = self.events.happened[index].take() else { continue };
            let Some(cid) = self.events.requests.pop_front() else { continue };
            self.events.masked[index] = true;
            // The log page of each type is its number plus one.
            let log = index as u32 + 1;
            let result = index as u32 | u32::from(information) << 8 | log << 16;
            self.post(memory, CommandId { sq: 0, cid }, 0, result);
        }
    }

    /// A doorbell of a queue that is not there was rung.
    pub(crate) fn invalid_doorbell_register(&mut self, memory: &dyn Memory) {
        self.event(memory, EventType::Error, INVALID_DOORBELL_REGISTER);
    }

    /// A doorbell was set to what it cannot be.
    pub(crate) fn invalid_doorbell_value(&mut self, memory: &dyn Memory) {
        self.event(memory, EventType::Error, INVALID_DOORBELL_VALUE);
    }
}
