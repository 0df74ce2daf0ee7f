//! Counts of the SMART / Health Information log (NVMe 1.4 section 5.14.1.2), of all controllers
//! of a subsystem together.
//!
//! Power is on from the making of a subsystem to its end: [`POWER_CYCLES`]. No reset is a power
//! cycle, nor an unsafe shutdown, which is a loss of power without a shutdown before.

use stasis_block::clock::Nanos;
use stasis_block::Operation;

/// Power Cycles: the one in which the subsystem was made.
pub const POWER_CYCLES: u32 = 1;
/// Unsafe Shutdowns: power is not lost while the subsystem is there.
pub const UNSAFE_SHUTDOWNS: u128 = 0;

/// Counts since the subsystem was made; a reset leaves them alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes that completed reads gave to the guest, and that comparisons read.
    pub bytes_read: u128,
    /// Bytes that completed writes took from the guest.
    pub bytes_written: u128,
    /// Completed reads and comparisons.
    pub read_commands: u128,
    /// Completed writes.
    pub write_commands: u128,
    /// Requests whose data the medium could not give back: a write that failed has lost none.
    pub media_errors: u128,
    /// Virtual time with at least one request in flight (ns), as exact as the
    /// carrier calls [`crate::Subsystem::set_time`].
    pub busy: Nanos,
    /// Virtual time since the subsystem was made (ns).
    pub powered_on: Nanos,
    /// Virtual time from the warning temperature up to the critical one (ns).
    pub too_warm: Nanos,
    /// Virtual time from the critical temperature up (ns).
    pub too_hot: Nanos,
}

impl Statistics {
    /// Counts a request that succeeded.
    pub(crate) fn count(&mut self, operation: Operation, bytes: usize) {
        match operation {
            Operation::Read => {
                self.bytes_read += bytes as u128;
                self.read_commands += 1;
            }
            Operation::Write => {
                self.bytes_written += bytes as u128;
                self.write_commands += 1;
            }
            _ => {}
        }
    }
}
