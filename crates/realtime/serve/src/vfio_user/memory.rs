//! A client's memory, as it maps and unmaps it.

use std::fs::File;
use std::os::fd::OwnedFd;

use stasis_vfio_user::{Device, DmaMap, DmaUnmap, Refusal};

use crate::vhost_user::memory::{GuestMemory, MemoryRegion, MAX_REGIONS};
use crate::ServeError;

/// Limit on the pieces that a client does not share: ROMs and registers of other devices.
const MAX_UNSHARED: usize = 256;

/// A client's memory. The device reaches what came with a descriptor.
#[derive(Default)]
pub(super) struct DmaMemory {
    pub(super) shared: GuestMemory,
    /// The memory of a device that is no bus master.
    none: GuestMemory,
    /// Pieces of the shared memory, as they were mapped.
    mapped: Vec<(u64, u64)>,
    /// Pieces without a descriptor.
    unshared: Vec<(u64, u64)>,
}

impl DmaMemory {
    /// The memory that `device` reaches.
    pub(super) fn of(&self, device: &Device) -> &GuestMemory {
        match device.is_bus_master() {
            true => &self.shared,
            false => &self.none,
        }
    }

    /// Bytes that the client has without sharing them.
    pub(super) fn unshared_bytes(&self) -> u64 {
        self.unshared.iter().map(|(_, size)| size).fold(0, |sum, size| sum.saturating_add(*size))
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// The range overlaps another, is one too many, or cannot be mapped.
    pub(super) fn map(&mut self, map: DmaMap, descriptor: Option<OwnedFd>) -> Result<(), Refusal> {
        let DmaMap { address, size, offset, writable } = map;
        let overlaps = |&(other, length): &(u64, u64)| {
            // The protocol has checked that neither goes round.
            address < other + length && other < address + size
        };
        if self.mapped.iter().chain(&self.unshared).any(overlaps) {
            return Err(Refusal::Exists(address));
        }
        let Some(descriptor) = descriptor else {
            if self.unshared.len() >= MAX_UNSHARED {
                return Err(Refusal::TooMany(MAX_UNSHARED));
            }
            self.unshared.push((address, size));
            return Ok(());
        };
        if self.mapped.len() >= MAX_REGIONS {
            return Err(Refusal::TooMany(MAX_REGIONS));
        }
        let place = MemoryRegion { guest: address, client: address, size, offset };
        let shared = self.shared.and(place, &File::from(descriptor), writable);
        self.shared = shared.map_err(|error: ServeError| Refusal::Memory(error.to_string()))?;
        self.mapped.push((address, size));
        Ok(())
    }

    /// Removes a piece, or all.
    ///
    /// # Errors
    /// There is no such piece.
    pub(super) fn unmap(&mut self, which: DmaUnmap) -> Result<(), Refusal> {
        let (address, size) = match which {
            DmaUnmap::All => {
                *self = Self::default();
                return Ok(());
            }
            DmaUnmap::Piece { address, size } => (address, size),
        };
        let is = |piece: &(u64, u64)| *piece == (address, size);
        if let Some(at) = self.unshared.iter().position(is) {
            self.unshared.remove(at);
            return Ok(());
        }
        let without = self.shared.without(address, size);
        self.shared = without.ok_or(Refusal::Missing { address, size })?;
        self.mapped.retain(|piece| !is(piece));
        Ok(())
    }
}
