//! The data of commands under way, as the memory that their data blocks are in.

use std::cell::RefCell;

use slab::Slab;
use stasis_nvme::{Memory, OutOfMemoryRange};

/// Bits of an address that are an offset in a buffer: one is shorter than 16 MiB.
const OFFSET_BITS: u32 = 24;

/// The buffers of all connections.
#[derive(Debug, Default)]
pub struct Arena {
    buffers: Slab<RefCell<Vec<u8>>>,
    /// Buffers to be used again.
    free: Vec<Vec<u8>>,
}

/// Buffers that are kept to be used again.
const KEPT: usize = 256;

/// Names a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferId(usize);

impl BufferId {
    /// Returns the buffer's address.
    pub fn address(self) -> u64 {
        // Address 0 is none's.
        (self.0 as u64 + 1) << OFFSET_BITS
    }
}

impl Arena {
    /// A buffer of `length` zeroes, less than 16 MiB.
    pub fn take(&mut self, length: usize) -> BufferId {
        debug_assert!(length < 1 << OFFSET_BITS);
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(length, 0);
        BufferId(self.buffers.insert(RefCell::new(buffer)))
    }

    /// Takes a buffer back.
    pub fn give(&mut self, id: BufferId) {
        if let Some(buffer) = self.buffers.try_remove(id.0) {
            if self.free.len() < KEPT {
                self.free.push(buffer.into_inner());
            }
        }
    }

    /// Returns the buffer's bytes.
    pub fn bytes(&mut self, id: BufferId) -> &mut [u8] {
        self.buffers.get_mut(id.0).map_or(&mut [], |buffer| buffer.get_mut())
    }

    /// Returns the number in use.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        self.buffers.len()
    }

    fn with<R>(
        &self,
        address: u64,
        length: usize,
        act: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, OutOfMemoryRange> {
        let outside = OutOfMemoryRange { address, length };
        let index = (address >> OFFSET_BITS).checked_sub(1).ok_or(outside)?;
        let start = (address & ((1 << OFFSET_BITS) - 1)) as usize;
        let buffer = usize::try_from(index).ok().and_then(|index| self.buffers.get(index));
        let mut buffer = buffer.ok_or(outside)?.try_borrow_mut().map_err(|_| outside)?;
        let end = start.checked_add(length).ok_or(outside)?;
        buffer.get_mut(start..end).map(act).ok_or(outside)
    }
}

impl Memory for Arena {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        self.with(address, into.len(), |bytes| into.copy_from_slice(bytes))
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        self.with(address, from.len(), |bytes| bytes.copy_from_slice(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_the_address_says_and_nowhere_else() {
        let mut arena = Arena::default();
        let (one, other) = (arena.take(8), arena.take(4));
        arena.write(one.address() + 2, &[1, 2]).unwrap();
        assert_eq!(arena.bytes(one), [0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(arena.bytes(other), [0; 4]);
        assert!(arena.write(other.address() + 1, &[0; 4]).is_err(), "beyond its end");
        assert!(arena.read(0, &mut [0]).is_err());
        arena.give(one);
        assert!(arena.read(one.address(), &mut [0]).is_err());
        let again = arena.take(3);
        assert_eq!(arena.bytes(again), [0; 3], "nothing of the last user's is left");
        assert_eq!(arena.in_use(), 2);
    }
}
