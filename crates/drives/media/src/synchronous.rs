//! Media in place: an I/O is over when its submission returns.

use stasis_block::{Command, Request};

use crate::backing::Backing;
use crate::direct::Bounce;
use crate::workers::Perform;
use crate::{Finished, HostMedium, Medium, MediumError};

/// Bytes on which an I/O is carried out at once.
pub trait Contents: Send {
    /// As [`Medium::capacity`].
    fn capacity(&self) -> u64;

    /// Carries out an I/O; `data` as in [`Medium::submit`].
    ///
    /// # Errors
    /// The error of the I/O.
    fn perform(&mut self, command: &Command, data: &mut [u8]) -> Result<(), MediumError>;

    /// As [`Medium::discard_zeroes`].
    fn discard_zeroes(&self) -> bool;

    /// As [`Medium::is_immediate`].
    fn is_immediate(&self) -> bool;
}

/// A medium that performs each I/O while it is submitted.
#[derive(Debug)]
pub struct Synchronous<C> {
    pub(crate) contents: C,
    finished: Vec<Finished>,
}

impl<C: Contents> Synchronous<C> {
    /// A medium of these bytes.
    pub fn of(contents: C) -> Self {
        Self { contents, finished: Vec::new() }
    }
}

impl<C: Contents> Medium for Synchronous<C> {
    fn capacity(&self) -> u64 {
        self.contents.capacity()
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, command, mut data, .. } = request;
        let result = self.contents.perform(&command, &mut data);
        self.finished.push(Finished { tag, result, data });
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        done.append(&mut self.finished);
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        self.poll(done);
    }

    fn in_flight(&self) -> usize {
        self.finished.len()
    }

    fn discard_zeroes(&self) -> bool {
        self.contents.discard_zeroes()
    }

    fn is_immediate(&self) -> bool {
        self.contents.is_immediate()
    }
}

impl<C: Contents> HostMedium for Synchronous<C> {}

/// A file or a device.
#[derive(Debug)]
pub(crate) struct InPlace {
    backing: Backing,
    bounce: Bounce,
}

impl InPlace {
    pub(crate) fn new(backing: Backing) -> Self {
        Self { backing, bounce: Bounce::default() }
    }
}

impl Contents for InPlace {
    fn capacity(&self) -> u64 {
        self.backing.capacity()
    }

    fn perform(&mut self, command: &Command, data: &mut [u8]) -> Result<(), MediumError> {
        self.backing.perform(command, data, &mut self.bounce)
    }

    fn discard_zeroes(&self) -> bool {
        self.backing.punches
    }

    fn is_immediate(&self) -> bool {
        false
    }
}
