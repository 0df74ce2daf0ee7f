//! The view into guests while they run: the times of I/Os in their kernels, and their stacks. Owns what
//! is known of both, and sends what is complete.

use stasis_run_events::RunEvent;

use super::super::event_stream::EventStream;
use super::super::guest_io::GuestIos;
use super::super::guest_waits::GuestWaits;
use super::stacks::Stacks;
use crate::error::Error;

/// I/Os that go to the event stream together.
const BATCH: usize = 512;

/// The view: nothing, until it is opened.
#[derive(Default)]
pub(in super::super) struct View {
    /// The time of I/Os in the guest, if it is kept.
    ios: Option<Box<GuestIos>>,
    /// The waits of its threads likewise.
    waits: Option<Box<GuestWaits>>,
    /// Finds and names the frames of stacks, while they are asked for.
    stacks: Option<Box<Stacks>>,
}

impl View {
    /// Stacks are found from now on, and the times of I/Os and waits are kept, if they are wanted.
    pub(super) fn open(
        &mut self,
        stacks: Stacks,
        ios: Option<GuestIos>,
        waits: Option<GuestWaits>,
    ) {
        (self.stacks, self.ios) = (Some(Box::new(stacks)), ios.map(Box::new));
        self.waits = waits.map(Box::new);
    }

    /// Ends the look at the guest: sends the names and I/Os that have not been sent.
    #[cold]
    pub(super) fn close(&mut self, stream: &mut EventStream) -> Result<(), Error> {
        self.emit_names(stream)?;
        if let Some(ios) = self.ios.take() {
            stream.emit(RunEvent::GuestIos(ios.finish()))?;
        }
        if let Some(mut waits) = self.waits.take() {
            stream.emit(RunEvent::Waits(waits.take()))?;
        }
        self.stacks = None;
        Ok(())
    }

    /// Returns whether the time of I/Os in the guest is kept.
    pub(in super::super) fn keeps_ios(&self) -> bool {
        self.ios.is_some()
    }

    /// The time of I/Os, if it is kept.
    pub(in super::super) fn ios(&mut self) -> Option<&mut GuestIos> {
        self.ios.as_deref_mut()
    }

    /// The stacks, if they are found.
    pub(super) fn stacks(&mut self) -> Option<&mut Stacks> {
        self.stacks.as_deref_mut()
    }

    /// Both, if the time of I/Os is kept.
    pub(super) fn both(&mut self) -> Option<(&mut GuestIos, &mut Stacks)> {
        self.ios.as_deref_mut().zip(self.stacks.as_deref_mut())
    }

    /// Likewise, with the waits of threads, if they are kept.
    pub(super) fn all(&mut self) -> Option<(&mut GuestIos, &mut Stacks, Option<&mut GuestWaits>)> {
        let (ios, stacks) = self.ios.as_deref_mut().zip(self.stacks.as_deref_mut())?;
        Some((ios, stacks, self.waits.as_deref_mut()))
    }

    /// Sends the names that frames of later events have.
    pub(super) fn emit_names(&mut self, stream: &mut EventStream) -> Result<(), Error> {
        let names = self.stacks.as_mut().map(|stacks| stacks.take_names()).unwrap_or_default();
        match names.is_empty() {
            true => Ok(()),
            false => stream.emit(RunEvent::SampleNames(names)),
        }
    }

    /// Sends the I/Os and waits whose time in the guest is whole, if they are at least so many.
    #[cold]
    pub(super) fn flush_ios(&mut self, stream: &mut EventStream) -> Result<(), Error> {
        if self.waits.as_ref().is_some_and(|waits| waits.ended() >= BATCH) {
            self.emit_names(stream)?;
            let ended = self.waits.as_mut().map(|waits| waits.take());
            stream.emit(RunEvent::Waits(ended.unwrap_or_default()))?;
        }
        match &mut self.ios {
            Some(ios) if ios.ended() >= BATCH => {
                let ended = ios.take();
                self.emit_names(stream)?;
                stream.emit(RunEvent::GuestIos(ended))
            }
            _ => Ok(()),
        }
    }
}
