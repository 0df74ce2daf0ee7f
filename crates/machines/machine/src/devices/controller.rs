//! The part of a controller that a drive needs of any.

use std::any::Any;

use stasis_block::clock::Nanos;
use stasis_block::{Refused, Request};
use stasis_drive::{Done, Layer};
use stasis_run_events::IoRecord;

use crate::memory::GuestMemory;

/// The part of a controller that a drive's device needs, whichever its interface. A controller can
/// have several functions on the bus: its *path* is a function's number among them.
pub trait DriveController: Any {
    /// Returns whether a write to `offset` announces commands.
    fn is_doorbell(&self, offset: u64) -> bool;

    /// The guest reads a path's register.
    fn read(&mut self, path: usize, offset: u64, into: &mut [u8]);

    /// The guest writes the register of a path at `place` at virtual time `now`.
    fn write(
        &mut self,
        memory: &GuestMemory,
        now: Nanos,
        drive: &mut dyn Layer,
        place: (usize, u64),
        data: &[u8],
    );

    /// Looks for commands that the guest has not rung for. Returns whether the controller could
    /// look.
    fn poll(&mut self, memory: &GuestMemory, now: Nanos) -> bool;

    /// The next command for the drive.
    fn pop_request(&mut self) -> Option<Request>;

    /// The next command that was refused.
    fn pop_refused(&mut self) -> Option<Refused>;

    /// The entry of MSI-X that tells the completions of the commands of a path's submission queue, if
    /// one does.
    fn entry_of(&self, path: usize, queue: u16) -> Option<u16>;

    /// Returns the time at which something of the controller's ends, independently of the drive.
    fn next_event(&self) -> Option<Nanos>;

    /// The drive has completed a command; `io` is its record.
    fn complete(
        &mut self,
        memory: &GuestMemory,
        drive: &mut dyn Layer,
        done: Done,
        io: &mut IoRecord,
    );

    /// The next MSI-X vector of a path to signal.
    fn pop_interrupt(&mut self, path: usize) -> Option<u16>;

    /// Itself, for a kind of controllers that has more than the others.
    fn as_any(&mut self) -> &mut dyn Any;
}
