//! A drive in real time below another layer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{Command, Health, PowerLoss, Status, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_drive::{Done, Layer, Statistics, Submission};
use stasis_media::MediumError;

use super::RealTime;

/// A drive in real time below another layer, such as a disk image: the thread that serves both
/// looks at the medium before the layer above is asked.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<RealTime>>);

impl Shared {
    /// Shares a drive.
    pub fn new(drive: RealTime) -> Self {
        Self(Arc::new(Mutex::new(drive)))
    }

    /// The drive.
    pub fn lock(&self) -> MutexGuard<'_, RealTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Shared`] as a layer.
pub struct SharedLayer {
    shared: Shared,
    name: String,
    statistics: Statistics,
}

impl SharedLayer {
    /// The layer that `shared` is.
    pub fn new(shared: &Shared) -> Self {
        let name = shared.lock().name.clone();
        Self { shared: shared.clone(), name, statistics: Statistics::default() }
    }
}

impl Layer for SharedLayer {
    fn index(&self) -> u16 {
        self.shared.lock().index()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capacity(&self) -> u64 {
        self.shared.lock().capacity()
    }

    fn discard_zeroes(&self) -> bool {
        self.shared.lock().discard_zeroes()
    }

    fn barrier(&self) -> Option<Nanos> {
        self.shared.lock().barrier()
    }

    fn power_loss(&self) -> PowerLoss {
        self.shared.lock().power_loss()
    }

    fn in_flight(&self) -> usize {
        self.shared.lock().in_flight()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.shared.lock().submit(now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.shared.lock().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let before = done.len();
        self.shared.lock().advance(now, done);
        for Done { command, status, .. } in &done[before..] {
            self.statistics.add(command.operation, command.length, *status);
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.shared.lock().instant(command, data)
    }

    fn frozen(&self) -> Duration {
        Duration::ZERO
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.shared.lock().take_error()
    }

    fn health(&self) -> Health {
        self.shared.lock().health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.shared.lock().vendor(now, command)
    }

    fn help(&mut self, now: Nanos, on: bool) {
        self.shared.lock().help(now, on);
    }

    fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        self.shared.lock().urge(sectors);
    }

    fn start(&mut self, now: Nanos) {
        self.shared.lock().start(now);
    }

    fn inside(&self, now: Nanos) -> Option<String> {
        self.shared.lock().inside(now)
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.shared.lock().watch(tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        self.shared.lock().take_spans(spans);
    }
}
