//! Probes at the crossings of one I/O (USDT): from the controller's queue through the scheduler, the model and
//! the medium back to the completion queue. bpftrace, perf, SystemTap and GDB attach to them by name, in a
//! program that runs.
//!
//! A probe to which nobody is attached costs the look at one word. A probe takes no virtual time and changes
//! no result. Times are virtual (ns). `docs/guides/tracers.md` lists the probes and shows their use; a test
//! holds that list, this file and the program together.

// The probes are notes in the executable, which only assembly can make.
#![allow(unsafe_code)]

use probe::probe_lazy;

/// A controller has taken a command from a submission queue: the controller's identifier, the queue, the
/// command's identifier and its opcode.
#[inline(always)]
pub fn command_fetched(controller: u16, queue: u16, command: u16, opcode: u8) {
    probe_lazy!(stasis, command_fetched, controller, queue, command, opcode);
}

/// A controller has posted a completion: its identifier, the submission queue, the command's identifier and
/// its status.
#[inline(always)]
pub fn command_completed(controller: u16, queue: u16, command: u16, status: u16) {
    probe_lazy!(stasis, command_completed, controller, queue, command, status);
}

/// A tenant's request waits at a drive's scheduler: the tenant's number, the request's number among the
/// tenant's, its length (bytes) and the time.
#[inline(always)]
pub fn io_queued(tenant: usize, order: u64, bytes: u64, now: u64) {
    probe_lazy!(stasis, io_queued, tenant, order, bytes, now);
}

/// The scheduler has sent it to the drive: the tenant's number, the request's number among the tenant's, and
/// the time.
#[inline(always)]
pub fn io_dispatched(tenant: usize, order: u64, now: u64) {
    probe_lazy!(stasis, io_dispatched, tenant, order, now);
}

/// A drive has an I/O, which its model and its medium begin: the drive's number, the I/O's slot
/// there until it completes, its operation (0 a read, 1 a write, 2 a flush, ...; the file
/// `docs/guides/tracers.md` has all), its first byte, its length (bytes) and the time.
#[inline(always)]
pub fn io_submitted(drive: u16, slot: u64, operation: u8, offset: u64, bytes: u64, now: u64) {
    probe_lazy!(stasis, io_submitted, drive, slot, operation, offset, bytes, now);
}

/// The model lets it complete: the drive's number, the slot, and the time.
#[inline(always)]
pub fn io_due(drive: u16, slot: u64, at: u64) {
    probe_lazy!(stasis, io_due, drive, slot, at);
}

/// The medium has done its part too, so that the I/O is complete: the drive's number, the slot and the time,
/// which is the model's.
#[inline(always)]
pub fn io_completed(drive: u16, slot: u64, at: u64) {
    probe_lazy!(stasis, io_completed, drive, slot, at);
}
