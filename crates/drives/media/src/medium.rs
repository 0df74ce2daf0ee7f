//! Operations of a medium, independent of the store behind it.

use std::os::fd::RawFd;

use stasis_block::{Command, Operation};

use crate::{MediumError, OpenError};

/// Names an I/O at one medium while it is under way.
pub type Ticket = u64;

/// Smallest medium (bytes): less holds no partition table and file system.
pub const MIN_CAPACITY: u64 = 1 << 20;

/// A medium's capacity is a multiple of this (bytes): the smallest logical
/// block of NVMe (NVM Command Set 1.0, LBA data size of at least 9).
pub const SECTOR: u64 = 512;

/// When a medium works on its I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// While they are submitted: for runs that repeat exactly.
    Synchronous,
    /// While the caller does other things.
    Asynchronous,
    /// While the caller polls, or waits for [`Medium::descriptors`]: by
    /// io_uring where the kernel has it. An I/O may start as late as at the
    /// next [`Medium::poll`].
    Polled,
}

/// An I/O that a medium has finished.
#[derive(Debug)]
pub struct Finished {
    /// Ticket of the I/O.
    pub ticket: Ticket,
    /// Outcome of the I/O. Data that was read is valid only where this is `Ok`.
    pub result: Result<(), MediumError>,
    /// The buffer it was submitted with; for a read, filled.
    pub data: Vec<u8>,
}

/// A place for bytes.
pub trait Medium: Send {
    /// Capacity in bytes. Only [`Medium::resize`] changes it.
    fn capacity(&self) -> u64;

    /// Gives it another capacity: bytes behind the old end are zero, those behind the new end
    /// are gone. Nothing is in flight.
    ///
    /// # Errors
    /// [`OpenError`] where it cannot be so large; then nothing has changed.
    fn resize(&mut self, _capacity: u64) -> Result<(), OpenError> {
        Err(OpenError::Fixed("this medium".into()))
    }

    /// Starts an I/O. `data` holds the data to write, or room for exactly the data to read; it is
    /// empty for other operations. Errors come back with the I/O.
    fn submit(&mut self, ticket: Ticket, command: Command, data: Vec<u8>);

    /// Appends finished I/Os, without waiting.
    fn poll(&mut self, done: &mut Vec<Finished>);

    /// Appends finished I/Os, and waits for at least one I/O if any is under way.
    fn wait(&mut self, done: &mut Vec<Finished>);

    /// Number of I/Os submitted and not yet handed back.
    fn in_flight(&self) -> usize;

    /// Whether [`Medium::poll`] has something to start or to hand back that no
    /// descriptor announces: a caller that waits for [`Medium::descriptors`]
    /// polls before.
    fn needs_poll(&self) -> bool {
        self.in_flight() > 0 && self.descriptors().is_empty()
    }

    /// Whether a discarded range reads as zeroes afterwards. Otherwise a
    /// discard changes nothing. Never changes.
    fn discard_zeroes(&self) -> bool {
        true
    }

    /// Whether [`Medium::submit`] does nothing that takes time, so that how long it
    /// takes need not be measured. Never changes.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Descriptors of which one is readable whenever [`Medium::poll`] has
    /// something to give, until it did; [`Medium::needs_poll`] has the rest. None where nothing finishes but while
    /// the medium is called, and under [`Execution::Asynchronous`]. Never
    /// changes.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}

impl<M: Medium + ?Sized> Medium for Box<M> {
    fn capacity(&self) -> u64 {
        (**self).capacity()
    }
    fn resize(&mut self, capacity: u64) -> Result<(), OpenError> {
        (**self).resize(capacity)
    }
    fn submit(&mut self, ticket: Ticket, command: Command, data: Vec<u8>) {
        (**self).submit(ticket, command, data);
    }
    fn poll(&mut self, done: &mut Vec<Finished>) {
        (**self).poll(done);
    }
    fn wait(&mut self, done: &mut Vec<Finished>) {
        (**self).wait(done);
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
    fn needs_poll(&self) -> bool {
        (**self).needs_poll()
    }
    fn discard_zeroes(&self) -> bool {
        (**self).discard_zeroes()
    }
    fn is_immediate(&self) -> bool {
        (**self).is_immediate()
    }
    fn descriptors(&self) -> Vec<RawFd> {
        (**self).descriptors()
    }
}

/// Whether `command` with a buffer of `buffer` bytes is one that a medium of
/// `capacity` bytes can carry out.
pub(crate) fn check(command: &Command, buffer: usize, capacity: u64) -> Result<(), MediumError> {
    let Command { operation, offset, length, .. } = *command;
    if matches!(operation, Operation::Flush | Operation::Barrier) {
        return Ok(());
    }
    if offset.checked_add(length).is_none_or(|end| end > capacity) {
        return Err(MediumError::OutOfRange { operation, offset, length, capacity });
    }
    if operation == Operation::Copy {
        let apart = command.source.abs_diff(offset) >= length;
        if !apart || command.source.checked_add(length).is_none_or(|end| end > capacity) {
            let offset = command.source;
            return Err(MediumError::OutOfRange { operation, offset, length, capacity });
        }
    }
    let moves_data = matches!(operation, Operation::Read | Operation::Write);
    if moves_data && buffer as u64 != length {
        return Err(MediumError::Buffer { operation, buffer: buffer as u64, length });
    }
    Ok(())
}
