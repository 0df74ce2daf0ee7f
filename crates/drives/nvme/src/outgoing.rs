//! Output of the controller: requests for the drive, and notices of refused commands.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::{Refused, Request};

/// Refused commands that are kept for [`crate::Subsystem::pop_refused`]; more are forgotten.
pub const MAX_REFUSED: usize = 1 << 16;

/// Requests, and refused commands, in the order in which they came.
#[derive(Debug, Default)]
pub struct Outgoing {
    requests: VecDeque<Request>,
    // They do not reach the drive before that time (ns).
    held_until: Nanos,
    refused: VecDeque<Refused>,
}

impl Outgoing {
    /// A request for the drive.
    pub fn send(&mut self, request: Request) {
        self.requests.push_back(request);
    }

    /// Requests do not reach the drive before that time (ns).
    pub fn hold_until(&mut self, time: Nanos) {
        self.held_until = time;
    }

    /// The next one that can reach the drive at `now`.
    pub fn next_due(&mut self, now: Nanos) -> Option<Request> {
        if now < self.held_until {
            return None;
        }
        self.next_request()
    }

    /// The time from which on requests that wait for it reach the drive.
    pub fn next_time(&self, now: Nanos) -> Option<Nanos> {
        (now < self.held_until && !self.requests.is_empty()).then_some(self.held_until)
    }

    /// The next one, whenever it may reach the drive.
    pub fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether one more refused command is kept.
    pub fn keeps_refused(&self) -> bool {
        self.refused.len() < MAX_REFUSED
    }

    /// A command that was refused. Beyond [`MAX_REFUSED`] it is forgotten.
    pub fn refuse(&mut self, refused: Refused) {
        if self.keeps_refused() {
            self.refused.push_back(refused);
        }
    }

    /// The next one.
    pub fn next_refused(&mut self) -> Option<Refused> {
        self.refused.pop_front()
    }
}
