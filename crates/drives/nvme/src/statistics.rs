//! What the SMART / Health Information log counts (NVMe 1.4 section 5.14.1.2).

use stasis_block::Operation;
use stasis_clock::Nanos;

/// Counts since the controller was made; a reset leaves them alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes that completed reads gave to the guest.
    pub bytes_read: u128,
    /// Bytes that completed writes took from the guest.
    pub bytes_written: u128,
    /// Completed reads.
    pub read_commands: u128,
    /// Completed writes.
    pub write_commands: u128,
    /// Commands that failed for an error of the medium.
    pub media_errors: u128,
    /// Entries ever made in the error log.
    pub error_log_entries: u64,
    /// Times that the controller was enabled first or after a shutdown.
    pub power_cycles: u64,
    /// Resets without a shutdown before.
    pub unsafe_shutdowns: u64,
    /// Virtual time with at least one request in flight (ns), as exact as the
    /// carrier calls [`crate::Controller::set_time`].
    pub busy: Nanos,
    /// Virtual time since the controller was made (ns).
    pub powered_on: Nanos,
    /// Virtual time above the warning temperature (ns).
    pub too_warm: Nanos,
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
