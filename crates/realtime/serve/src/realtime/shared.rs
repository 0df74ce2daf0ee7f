//! A drive in real time below another layer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_block::{Command, Health, Request, Status, VendorCommand, VendorError};
use stasis_drive::{Control, Done, Layer, Properties};
use stasis_media::MediumError;

use super::RealTime;

/// A drive in real time below another layer, such as a disk image: the thread that serves both
/// looks at the medium before the layer above is asked.
#[derive(Clone)]
pub struct SharedRealTime(Arc<Mutex<RealTime>>);

impl SharedRealTime {
    /// Shares a drive.
    pub fn new(drive: RealTime) -> Self {
        Self(Arc::new(Mutex::new(drive)))
    }

    /// The drive.
    pub fn lock(&self) -> MutexGuard<'_, RealTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`SharedRealTime`] as a layer. The drive keeps its size while another layer stands on it.
pub struct SharedLayer {
    shared: SharedRealTime,
    properties: Properties,
}

impl SharedLayer {
    /// The layer that `shared` is.
    pub fn new(shared: &SharedRealTime) -> Self {
        let properties = shared.lock().properties().clone();
        Self { shared: shared.clone(), properties }
    }
}

impl Layer for SharedLayer {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.shared.lock().submit(now, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.shared.lock().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.shared.lock().advance(now, done);
    }

    fn in_flight(&self) -> usize {
        self.shared.lock().in_flight()
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.shared.lock().instant(command, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for SharedLayer {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }

    fn health(&mut self) -> Health {
        self.shared.lock().control().health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.shared.lock().control().vendor(now, command)
    }

    fn start(&mut self, now: Nanos) {
        self.shared.lock().control().start(now);
    }

    fn inside(&mut self, now: Nanos) -> Option<Inside> {
        self.shared.lock().control().inside(now)
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.shared.lock().control().take_error()
    }
}
