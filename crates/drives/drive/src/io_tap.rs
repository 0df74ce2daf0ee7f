//! The I/O tap: reports a layer's commands and their outcomes.

use std::collections::HashMap;

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Command, Operation, Request, Status, Tag};

use crate::{Control, Decorator, Done, Layer};

/// Receiver of an I/O tap's reports: a layer's changes, flushes and barriers.
pub trait TraceSink {
    /// A command is submitted at `at` (ns); `place` is its number, from 0.
    fn request(&mut self, place: u64, at: Nanos, command: &Command, data: &[u8]);

    /// The command `place` has ended at `at` (ns).
    fn completion(&mut self, place: u64, at: Nanos, status: Status);

    /// Sets the size of the largest logical block.
    fn set_block_size(&mut self, _bytes: u32) {}
}

/// A layer with a tap on its changes, flushes and barriers.
pub struct IoTap {
    lower: Box<dyn Layer>,
    sink: Box<dyn TraceSink>,
    places: HashMap<Tag, u64>,
    next: u64,
    now: Nanos,
}

impl IoTap {
    /// Reports to `sink` the commands to `lower` from now on.
    pub fn new(lower: Box<dyn Layer>, sink: Box<dyn TraceSink>) -> Self {
        Self { lower, sink, places: HashMap::new(), next: 0, now: 0 }
    }

    fn submitted(&mut self, command: &Command, data: &[u8]) -> Option<u64> {
        if matches!(command.operation, Operation::Read | Operation::Verify) {
            return None;
        }
        let place = self.next;
        self.next += 1;
        self.sink.request(place, self.now, command, data);
        Some(place)
    }
}

impl Decorator for IoTap {
    fn lower(&self) -> &dyn Layer {
        &*self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut *self.lower
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.now = self.now.max(now);
        if let Some(place) = self.submitted(&request.command, &request.data) {
            self.places.insert(request.tag, place);
        }
        self.lower.submit(now, request);
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.now = self.now.max(now);
        let before = done.len();
        self.lower.advance(now, done);
        for done in &done[before..] {
            if let Some(place) = self.places.remove(&done.tag) {
                self.sink.completion(place, done.at, done.status);
            }
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        // Outside of time nothing is lost.
        let place = self.submitted(&Command { fua: true, ..command }, &data);
        let (status, data) = self.lower.instant(command, data);
        if let Some(place) = place {
            self.sink.completion(place, self.now, status);
        }
        (status, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for IoTap {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        Some(self.lower.control())
    }

    fn set_layout(&mut self, layout: &BlockLayout) {
        self.sink.set_block_size(layout.largest());
        self.lower.control().set_layout(layout);
    }
}
