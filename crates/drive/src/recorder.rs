//! Writes down what a layer is asked and how it answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stasis_block::{Command, Health, Operation, Status, Tag, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_media::MediumError;

use crate::{Done, History, Layer, Statistics, Submission};

/// A layer, and the history of its changes, flushes and barriers.
pub struct Recorder {
    lower: Box<dyn Layer>,
    history: Arc<Mutex<History>>,
    places: HashMap<Tag, usize>,
}

impl Recorder {
    /// Records what `lower` is asked from now on; the second value is the
    /// history, as far as it has come.
    pub fn new(lower: Box<dyn Layer>) -> (Self, Arc<Mutex<History>>) {
        let history = Arc::<Mutex<History>>::default();
        let copy = Arc::clone(&history);
        (Self { lower, history, places: HashMap::new() }, copy)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
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
        let Submission { tag, command, .. } = submission;
        if !matches!(command.operation, Operation::Read | Operation::Verify) {
            let place = self.history().submitted(now, command, submission.data.clone());
            self.places.insert(tag, place);
        }
        self.lower.submit(now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.lower.next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let before = done.len();
        self.lower.advance(now, done);
        for done in &done[before..] {
            if let Some(place) = self.places.remove(&done.tag) {
                self.history().ended(place, done.at, done.status);
            }
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.lower.instant(command, data)
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
