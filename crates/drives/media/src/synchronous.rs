//! Media in place: an I/O is over when its submission returns.

use std::collections::VecDeque;

use stasis_block::{Command, Operation, Request};

use crate::backing::Backing;
use crate::direct::Bounce;
use crate::medium::check;
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

/// Bytes of data that a divided medium moves in a call; the last I/O or piece of one may exceed it.
const SLICE: u64 = 256 << 10;
/// Length of the pieces in which a divided medium carries out an I/O that moves no data of the
/// caller's: of a copy as many bytes are moved, of the others a part ([`UNMOVED`]) counts.
const PIECE: u64 = 256 << 10;
/// The pieces of an I/O that moves nothing are so many times longer: whole chunks are dropped.
const UNMOVED: u64 = 16;

/// A medium that performs each I/O while it is submitted; or, divided, a slice of them then and in each
/// poll, in their order: so that no I/O keeps its caller for long.
#[derive(Debug)]
pub struct Synchronous<C> {
    pub(crate) contents: C,
    divides: bool,
    /// Bytes moved since the last poll.
    moved: u64,
    // The I/Os to be carried out, and how many bytes of the first one are.
    waiting: VecDeque<Request>,
    at: u64,
    finished: Vec<Finished>,
}

impl<C: Contents> Synchronous<C> {
    /// A medium of these bytes.
    pub fn of(contents: C) -> Self {
        let (waiting, finished) = (VecDeque::new(), Vec::new());
        Self { contents, divides: false, moved: 0, waiting, at: 0, finished }
    }

    /// The same, whose I/Os are carried out in slices.
    #[must_use]
    pub fn divided(self) -> Self {
        Self { divides: true, ..self }
    }

    /// Carries out what waits, until the slice is used up.
    fn work(&mut self) {
        while self.moved < SLICE {
            let Some(request) = self.waiting.front_mut() else { return };
            let command = request.command;
            let moves = matches!(command.operation, Operation::Read | Operation::Write);
            let most = if command.operation == Operation::Copy { PIECE } else { PIECE * UNMOVED };
            // A wrong I/O is wrong as a whole.
            let wrong = check(&command, request.data.len(), self.contents.capacity()).is_err();
            let length = match moves || wrong {
                true => command.length,
                // Pieces end at multiples of their length.
                false => (command.length - self.at).min(most - (command.offset + self.at) % most),
            };
            let piece = Command {
                offset: command.offset + self.at,
                source: command.source + self.at,
                length,
                ..command
            };
            let result = match self.at == 0 && length == command.length {
                true => self.contents.perform(&command, &mut request.data),
                false => self.contents.perform(&piece, &mut request.data),
            };
            let counts = moves || command.operation == Operation::Copy;
            let cost = if counts { length } else { length / UNMOVED };
            // No I/O is for nothing.
            self.moved += cost.max(SLICE / 128);
            self.at += length;
            if result.is_err() || self.at >= command.length {
                self.at = 0;
                let Some(Request { tag, data, .. }) = self.waiting.pop_front() else { return };
                self.finished.push(Finished { tag, result, data });
            }
        }
    }
}

impl<C: Contents> Medium for Synchronous<C> {
    fn capacity(&self) -> u64 {
        self.contents.capacity()
    }

    fn submit(&mut self, request: Request) {
        if self.divides {
            self.waiting.push_back(request);
            return self.work();
        }
        let Request { tag, command, mut data, .. } = request;
        let result = self.contents.perform(&command, &mut data);
        self.finished.push(Finished { tag, result, data });
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        // I/Os carried out while they were submitted are of the slice that ends here.
        self.work();
        self.moved = 0;
        done.append(&mut self.finished);
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        let before = done.len();
        self.poll(done);
        while done.len() == before && !self.waiting.is_empty() {
            self.poll(done);
        }
    }

    fn in_flight(&self) -> usize {
        self.finished.len() + self.waiting.len()
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
