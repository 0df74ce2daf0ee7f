//! A medium of this host, as what else than a drive needs it.

use std::os::fd::RawFd;

use stasis_block::medium::{Medium, MediumError};
use stasis_block::{Command, Operation};

use crate::OpenError;

/// Time at which a medium works on its I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// While they are submitted: for runs that repeat exactly.
    Synchronous,
    /// While the caller does other things.
    Asynchronous,
    /// While the caller polls, or waits for [`HostMedium::descriptors`]: by
    /// io_uring where the kernel has it. An I/O may start as late as at the
    /// next [`Medium::poll`].
    Polled,
}

/// A medium of this host, which another than a drive can wait for.
pub trait HostMedium: Medium {
    /// Gives it another capacity: bytes behind the old end are zero, those behind the new end
    /// are gone. Nothing is in flight.
    ///
    /// # Errors
    /// [`OpenError`] where it cannot be so large; then nothing has changed.
    fn resize(&mut self, _capacity: u64) -> Result<(), OpenError> {
        Err(OpenError::Fixed("this medium".into()))
    }

    /// Returns whether [`Medium::poll`] has something to start or to hand back that no descriptor
    /// announces: a caller that waits for [`HostMedium::descriptors`] polls before.
    fn needs_poll(&self) -> bool {
        self.in_flight() > 0 && self.descriptors().is_empty()
    }

    /// Descriptors of which one is readable whenever [`Medium::poll`] has
    /// something to give, until it did; [`HostMedium::needs_poll`] has the rest. None where nothing finishes but while
    /// the medium is called, and under [`Execution::Asynchronous`]. Never
    /// changes.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}

impl<M: HostMedium + ?Sized> HostMedium for Box<M> {
    fn resize(&mut self, capacity: u64) -> Result<(), OpenError> {
        (**self).resize(capacity)
    }
    fn needs_poll(&self) -> bool {
        (**self).needs_poll()
    }
    fn descriptors(&self) -> Vec<RawFd> {
        (**self).descriptors()
    }
}

/// Returns whether `command` with a buffer of `buffer` bytes is one that a medium of `capacity`
/// bytes can carry out.
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
