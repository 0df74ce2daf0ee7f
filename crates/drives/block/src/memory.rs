//! Guest memory as devices see it, and the buffers that their data passes
//! through.
//!
//! Promises:
//! - A device reaches guest memory by checked copies only, with every carrier: a virtual machine, a
//!   server of other programs' machines, or a test.
//! - Buffers are used again, so that an I/O allocates nothing.

mod pool;
mod requests;
mod segments;

pub use pool::Pool;
pub use requests::{PendingRequest, Requests};
pub use segments::{append, gather, scatter, Segment, NOWHERE};

/// An access outside guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{length} bytes at guest address {address:#x} are not all guest memory; the guest's driver gave a wrong address")]
pub struct OutOfMemoryRange {
    /// First byte of the range.
    pub address: u64,
    /// Length of the range in bytes.
    pub length: usize,
}

/// Guest memory as a device sees it.
///
/// Implementations check bounds, including an `address` near `u64::MAX`. A
/// range that is not wholly guest memory is an error; how much of it was
/// transferred then is not defined.
pub trait Memory {
    /// Copies guest memory from `address` on into all of `into`.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange>;

    /// Copies all of `from` to guest memory from `address` on.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange>;

    /// Reads the little-endian number at `address`, a multiple of 2. Where the
    /// guest runs at the same time, this is to be one access (acquire), which
    /// the default is not.
    fn load(&self, address: u64) -> Result<u16, OutOfMemoryRange> {
        let mut raw = [0; 2];
        self.read(address, &mut raw)?;
        Ok(u16::from_le_bytes(raw))
    }

    /// Writes a little-endian number to `address`, a multiple of 2. Where the
    /// guest runs at the same time, this is to be one access (release), which
    /// the default is not.
    fn store(&self, address: u64, value: u16) -> Result<(), OutOfMemoryRange> {
        self.write(address, &value.to_le_bytes())
    }

    /// Returns whether the `length` bytes from `address` on, at least one, begin and end in guest
    /// memory.
    fn contains(&self, address: u64, length: usize) -> bool {
        let Some(last) = (length as u64).checked_sub(1).and_then(|rest| address.checked_add(rest))
        else {
            return false;
        };
        let mut byte = [0];
        self.read(address, &mut byte).is_ok() && self.read(last, &mut byte).is_ok()
    }
}
