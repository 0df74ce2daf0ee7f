//! The layers of a drive's bytes.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll;
use stasis_block::clock::Nanos;
use stasis_block::{
    BlockLayout, Command, Health, Model, Request, Status, VendorCommand, VendorError,
};
use stasis_drive::{Done, Layer, Properties};
use stasis_media::{MediumError, OpenError};

use crate::realtime::SharedRealTime;
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
    /// A layer on top of it, such as a disk image.
    pub top: Option<Box<dyn Layer>>,
}

impl Store {
    /// A drive alone.
    pub fn new(drive: SharedRealTime) -> Self {
        Self { drive, top: None }
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

/// Has a thread look again when a descriptor becomes readable.
///
/// # Safety
/// The descriptor is open, and only its sole holder closes it.
pub(crate) unsafe fn register(epoll: &OwnedFd, raw: RawFd) -> Result<(), rustix::io::Errno> {
    // SAFETY: the caller's promise.
    let descriptor = unsafe { BorrowedFd::borrow_raw(raw) };
    epoll::add(epoll, descriptor, epoll::EventData::new_u64(LOOK), epoll::EventFlags::IN)
}
