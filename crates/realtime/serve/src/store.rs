//! The layers of a drive's bytes.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll;
use stasis_block::clock::Nanos;
use stasis_block::{
    BlockLayout, Command, Health, Model, Request, Status, VendorCommand, VendorError,
};
use stasis_drive::faults::FaultChange;
use stasis_drive::{Done, DriveFault, DriveFaultKind, Faults, Layer, Properties};
use stasis_media::{MediumError, OpenError};
use stasis_run_events::FaultRecord;

use crate::realtime::{SharedLayer, SharedRealTime};
use crate::ServeError;

/// Data of a descriptor in the events of a thread, if its only meaning is that the thread should
/// look again.
pub(crate) const LOOK: u64 = u64::MAX - 1;

/// Makes a drive's store, on the thread that is to serve it.
pub type OpenStore = Box<dyn FnOnce() -> Result<Store, String> + Send>;

/// The layers of a drive's bytes: a drive in real time, and an optional layer on top of it.
pub struct Store {
    /// The drive itself.
    pub drive: SharedRealTime,
    /// A layer on top of it, such as a disk image. Faults need a layer below that
    /// ([`Store::with_image`]).
    pub top: Option<Box<dyn Layer>>,
    /// The drive's faults, and the seed of what they draw.
    faults: Vec<DriveFault>,
    seed: u64,
}

/// Limit on the faults that a drive has at a time.
const MAX_FAULTS: usize = 1024;

impl Store {
    /// A drive alone.
    pub fn new(drive: SharedRealTime) -> Self {
        Self { drive, top: None, faults: Vec::new(), seed: 0 }
    }

    /// The drive's faults draw by `seed`.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// A drive below a disk image, which stands on the layer that it is given.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn with_image<E>(
        drive: SharedRealTime,
        open: impl FnOnce(Box<dyn Layer>) -> Result<Box<dyn Layer>, E>,
    ) -> Result<Self, E> {
        // An image keeps the layer below it from its opening on.
        let below = Faults::joining(Box::new(SharedLayer::new(&drive)), 0, None);
        let top = Some(open(Box::new(below))?);
        Ok(Self { top, ..Self::new(drive) })
    }

    /// Returns whether faults befall the drive, or have.
    pub(crate) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Its faults.
    pub(crate) fn faults(&self) -> &[DriveFault] {
        &self.faults
    }

    /// The drive has one more fault from `now` (ns) on, of those that it can have ([`check_served`]): its
    /// times count from now.
    ///
    /// # Errors
    /// It has too many already, or an image without the layer that brings them about.
    pub(crate) fn add_fault(&mut self, now: Nanos, fault: DriveFault) -> Result<(), String> {
        if self.faults.len() >= MAX_FAULTS {
            return Err(format!("it has {MAX_FAULTS} faults already: end some"));
        }
        if self.top.is_none() {
            let submitted = self.drive.lock().submitted();
            let below = Box::new(SharedLayer::new(&self.drive));
            self.top = Some(Box::new(Faults::joining(below, submitted, Some(now))));
        }
        let number = fault.number;
        let fault = DriveFault { triggered: true, ..fault };
        let faults: Vec<_> = self.faults.iter().cloned().chain([fault]).collect();
        let change = FaultChange { faults: faults.clone(), seed: self.seed, begun: Some(now) };
        let Some(top) = &mut self.top else { return Err("no layer brings faults about".into()) };
        top.control().set_faults(change).map_err(|_| "no layer brings faults about")?;
        top.control().begin_fault(number, now);
        self.faults = faults;
        Ok(())
    }

    /// Ends a fault at `now` (ns); commands that it holds up are let go. Returns how often it has
    /// happened; `None` if there is no such fault.
    pub(crate) fn end_fault(&mut self, number: u16, now: Nanos) -> Option<u64> {
        let place = self.faults.iter().position(|fault| fault.number == number)?;
        self.faults.remove(place);
        self.top.as_mut()?.control().end_fault(number, now)
    }

    /// Hands over the faults that have happened since the last call.
    pub(crate) fn take_faults(&mut self, records: &mut Vec<FaultRecord>) {
        if let Some(top) = self.top.as_mut().filter(|_| !self.faults.is_empty()) {
            top.control().take_faults(records);
        }
    }

    /// As [`Layer::properties`].
    pub fn properties(&self) -> Properties {
        match &self.top {
            Some(top) => top.properties().clone(),
            None => self.drive.lock().properties().clone(),
        }
    }

    /// As [`Layer::submit`].
    pub fn submit(&mut self, now: Nanos, request: Request) {
        match &mut self.top {
            Some(top) => top.submit(now, request),
            None => self.drive.lock().submit(now, request),
        }
    }

    /// The host's blocks lie so. On a layer on top none have metadata.
    pub(crate) fn set_layout(&mut self, layout: &BlockLayout) {
        self.drive.lock().control().set_layout(layout);
    }

    /// As [`Layer::advance`]; returns whether anything happened, be it on the drive below a
    /// layer only.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) -> bool {
        let completed = done.len();
        let mut drive = self.drive.lock();
        let Some(top) = &mut self.top else {
            drive.advance(now, done);
            return done.len() > completed;
        };
        let before = drive.progress();
        drive.turn(now);
        drop(drive);
        top.advance(now, done);
        done.len() > completed || self.drive.lock().progress() > before
    }

    /// As [`Layer::next_event`].
    pub fn next_event(&self) -> Option<Nanos> {
        match &self.top {
            Some(top) => top.next_event(),
            None => self.drive.lock().next_event(),
        }
    }

    /// As [`crate::RealTime::resize`].
    pub(crate) fn resize(
        &mut self,
        now: Nanos,
        capacity: u64,
        model: Option<Box<dyn Model>>,
    ) -> Result<(), OpenError> {
        let mut drive = self.drive.lock();
        match &self.top {
            // Faults know the size of their drive.
            Some(_) => Err(OpenError::Fixed(drive.properties().name.as_str().into())),
            None => drive.resize(now, capacity, model),
        }
    }

    /// Commands under way, those of the layer on top included.
    pub fn in_flight(&self) -> usize {
        let above = self.top.as_ref().map_or(0, |top| top.in_flight());
        above + self.drive.lock().in_flight()
    }

    /// Makes all data durable. Returns whether the flush succeeded. Nothing may be under way.
    pub(crate) fn flush(&mut self) -> bool {
        let flush = Command::flush();
        let (status, _) = match &mut self.top {
            Some(top) => top.instant(flush, Vec::new()),
            None => self.drive.lock().instant(flush, Vec::new()),
        };
        status == Status::Ok
    }

    /// As [`stasis_drive::Control::health`], of the drive below.
    pub(crate) fn health(&mut self) -> Health {
        self.drive.lock().control().health()
    }

    /// As [`stasis_drive::Control::vendor`], of the drive below.
    pub(crate) fn vendor(
        &mut self,
        now: Nanos,
        command: &mut VendorCommand,
    ) -> Result<u32, VendorError> {
        self.drive.lock().control().vendor(now, command)
    }

    /// As [`stasis_drive::Control::take_error`].
    pub(crate) fn take_error(&mut self) -> Option<MediumError> {
        match &mut self.top {
            Some(top) => top.control().take_error(),
            None => self.drive.lock().control().take_error(),
        }
    }

    /// Waits for its descriptors from now on.
    pub(crate) fn register(&self, epoll: &OwnedFd) -> Result<(), ServeError> {
        for raw in self.drive.lock().descriptors() {
            // SAFETY: the medium keeps its descriptors open for as long as it
            // lives; closing them takes them out.
            unsafe { register(epoll, raw) }
                .map_err(|source| ServeError::Wait { source: source.into() })?;
        }
        Ok(())
    }
}

/// Refuses the kinds of faults that a served drive cannot have, by name; `controller`: its host sees an
/// NVMe controller's own queues, by vfio-user.
///
/// # Errors
/// The kind, and what to do instead.
pub fn check_served(fault: &DriveFault, controller: bool) -> Result<(), String> {
    use DriveFaultKind as Kind;
    let instead = match fault.kind {
        Kind::Full => "what was written before the server began is not known",
        Kind::Gone => "detach the drive, or end its server",
        Kind::PathInaccessible | Kind::PathNonOptimized => "say `ana`",
        Kind::NamespaceDetached => "say `detach-namespace`",
        Kind::NamespaceResized => "a namespace that is served keeps its size",
        _ if fault.kind.delivery().is_some() && !controller => "or of a drive by --vfio-user",
        _ => return Ok(()),
    };
    let kind = fault.kind.name();
    Err(format!("`{kind}` is of `stasis run`, and has no effect on a served drive: {instead}"))
}

/// Has a thread look again when a descriptor becomes readable.
///
/// # Safety
/// The descriptor is open, and only its sole holder closes it.
pub(crate) unsafe fn register(epoll: &OwnedFd, raw: RawFd) -> Result<(), rustix::io::Errno> {
    // SAFETY: the caller's promise.
    let descriptor = unsafe { BorrowedFd::borrow_raw(raw) };
    epoll::add(epoll, descriptor, epoll::EventData::new_u64(LOOK), epoll::EventFlags::IN)
}
