//! Writes down what a layer is asked and how it answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stasis_block::{Command, Health, Operation, Status, Tag, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_media::MediumError;

use crate::{Done, History, Layer, Statistics, Submission};

/// Who is told of a layer's changes, flushes and barriers.
pub trait Witness {
    /// A command is submitted at `at` (ns); `place` is its number, from 0.
    fn submitted(&mut self, place: u64, at: Nanos, command: &Command, data: &[u8]);

    /// The command `place` has ended at `at` (ns).
    fn ended(&mut self, place: u64, at: Nanos, status: Status);
}

impl Witness for Arc<Mutex<History>> {
    fn submitted(&mut self, _: u64, at: Nanos, command: &Command, data: &[u8]) {
        lock(self).submitted(at, *command, data.to_vec());
    }

    fn ended(&mut self, place: u64, at: Nanos, status: Status) {
        lock(self).ended(place as usize, at, status);
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A layer, and a witness of its changes, flushes and barriers.
pub struct Recorder {
    lower: Box<dyn Layer>,
    witness: Box<dyn Witness>,
    places: HashMap<Tag, u64>,
    next: u64,
    now: Nanos,
}

impl Recorder {
    /// Records what `lower` is asked from now on; the second value is the
    /// history, as far as it has come.
    pub fn new(lower: Box<dyn Layer>) -> (Self, Arc<Mutex<History>>) {
        let history = Arc::<Mutex<History>>::default();
        (Self::to(lower, Box::new(Arc::clone(&history))), history)
    }

    /// Tells `witness` what `lower` is asked from now on.
    pub fn to(lower: Box<dyn Layer>, witness: Box<dyn Witness>) -> Self {
        Self { lower, witness, places: HashMap::new(), next: 0, now: 0 }
    }

    fn submitted(&mut self, command: &Command, data: &[u8]) -> Option<u64> {
        if matches!(command.operation, Operation::Read | Operation::Verify) {
            return None;
        }
        let place = self.next;
        self.next += 1;
        self.witness.submitted(place, self.now, command, data);
        Some(place)
    }
}

impl Layer for Recorder {
    fn index(&self) -> u16 {
        self.lower.index()
    }

    fn name(&self) -> &str {
        self.lower.name()
    }

    fn capacity(&self) -> u64 {
        self.lower.capacity()
    }

    fn discard_zeroes(&self) -> bool {
        self.lower.discard_zeroes()
    }

    fn barrier(&self) -> Option<Nanos> {
        self.lower.barrier()
    }

    fn in_flight(&self) -> usize {
        self.lower.in_flight()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.now = self.now.max(now);
        if let Some(place) = self.submitted(&submission.command, &submission.data) {
            self.places.insert(submission.tag, place);
        }
        self.lower.submit(now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.lower.next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.now = self.now.max(now);
        let before = done.len();
        self.lower.advance(now, done);
        for done in &done[before..] {
            if let Some(place) = self.places.remove(&done.tag) {
                self.witness.ended(place, done.at, done.status);
            }
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        // Outside of time nothing is lost.
        let place = self.submitted(&Command { fua: true, ..command }, &data);
        let (status, data) = self.lower.instant(command, data);
        if let Some(place) = place {
            self.witness.ended(place, self.now, status);
        }
        (status, data)
    }

    fn frozen(&self) -> Duration {
        self.lower.frozen()
    }

    fn statistics(&self) -> &Statistics {
        self.lower.statistics()
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.lower.take_error()
    }

    fn health(&self) -> Health {
        self.lower.health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.lower.vendor(now, command)
    }

    fn inside(&self, now: Nanos) -> Option<String> {
        self.lower.inside(now)
    }
}
