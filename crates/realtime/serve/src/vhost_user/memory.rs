//! A guest's memory, as its client has shared it.

use std::fs::File;
use std::sync::atomic::Ordering;

use stasis_block::memory::{Memory, OutOfMemoryRange};

use crate::vhost_user::mapping::Mapping;
use crate::ServeError;

/// Regions that a client may have.
pub const MAX_REGIONS: usize = 64;

/// A piece of guest memory as a client describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Its first byte as the guest numbers it.
    pub guest: u64,
    /// Its first byte as the client numbers it.
    pub client: u64,
    /// Bytes.
    pub size: u64,
    /// Offset of its beginning in its file.
    pub offset: u64,
}

#[derive(Debug)]
struct Region {
    place: MemoryRegion,
    mapping: std::sync::Arc<Mapping>,
}

/// All of a guest's memory. It never changes: a client that changes it gets
/// another one.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// By guest address, without overlap.
    regions: Vec<Region>,
}

impl GuestMemory {
    /// The memory with one more region.
    ///
    /// # Errors
    /// The region cannot be mapped, or overlaps another one.
    pub fn with(&self, place: MemoryRegion, file: &File) -> Result<Self, ServeError> {
        self.and(place, file, true)
    }

    /// The memory with one more region; `writable`: which may not only be read.
    ///
    /// # Errors
    /// As [`GuestMemory::with`].
    pub(crate) fn and(
        &self,
        place: MemoryRegion,
        file: &File,
        writable: bool,
    ) -> Result<Self, ServeError> {
        let wrong = |message: String| Err(ServeError::Memory(message));
        let MemoryRegion { guest, client, size, offset } = place;
        if self.regions.len() >= MAX_REGIONS {
            return wrong(format!("it has more than {MAX_REGIONS} regions"));
        }
        let ends = [guest, client].map(|start| start.checked_add(size));
        if size == 0 || ends.contains(&None) {
            return wrong(format!("a region of {size} bytes at {guest:#x} cannot be"));
        }
        let overlaps = self.regions.iter().any(|Region { place: other, .. }| {
            guest < other.guest + other.size && other.guest < guest + size
        });
        if overlaps {
            return wrong(format!("a region at {guest:#x} overlaps another"));
        }
        let mapping = Mapping::with(file, offset, size, writable);
        let mapping = mapping.map_err(|source| ServeError::Map { guest, size, source })?;
        let mut regions: Vec<_> = self
            .regions
            .iter()
            .map(|region| Region { place: region.place, mapping: region.mapping.clone() })
            .collect();
        regions.push(Region { place, mapping: mapping.into() });
        regions.sort_by_key(|region| region.place.guest);
        Ok(Self { regions })
    }

    /// The memory without a region; `None` if it has no such one.
    pub fn without(&self, guest: u64, size: u64) -> Option<Self> {
        let goes = |region: &Region| region.place.guest == guest && region.place.size == size;
        if !self.regions.iter().any(goes) {
            return None;
        }
        let rest = self.regions.iter().filter(|region| !goes(region));
        let regions =
            rest.map(|region| Region { place: region.place, mapping: region.mapping.clone() });
        Some(Self { regions: regions.collect() })
    }

    /// The guest's address of the client's address `client`.
    pub fn guest_address(&self, client: u64) -> Option<u64> {
        let mut places = self.regions.iter().map(|region| region.place);
        let place = places.find(|place| {
            client.checked_sub(place.client).is_some_and(|within| within < place.size)
        })?;
        Some(place.guest + (client - place.client))
    }

    /// Returns whether a client has taken memory away that it had given.
    pub fn is_broken(&self) -> bool {
        self.regions.iter().any(|region| region.mapping.is_broken())
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|region| region.place.guest <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (address - region.place.guest < region.place.size).then_some(region)
    }

    /// Goes through the pieces of a range: a buffer may lie across regions.
    fn pieces(
        &self,
        mut address: u64,
        length: usize,
        mut each: impl FnMut(&Mapping, usize, std::ops::Range<usize>) -> bool,
    ) -> Result<(), OutOfMemoryRange> {
        let error = OutOfMemoryRange { address, length };
        let mut done = 0;
        while done < length {
            let region = self.region(address).ok_or(error)?;
            let within = address - region.place.guest;
            let in_region = usize::try_from(region.place.size - within).unwrap_or(usize::MAX);
            let piece = in_region.min(length - done);
            if !each(&region.mapping, within as usize, done..done + piece) {
                return Err(error);
            }
            done += piece;
            address = address.checked_add(piece as u64).ok_or(error)?;
        }
        Ok(())
    }
}

impl Memory for GuestMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        self.pieces(address, into.len(), |mapping, at, range| mapping.read(at, &mut into[range]))
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        self.pieces(address, from.len(), |mapping, at, range| mapping.write(at, &from[range]))
    }

    fn load(&self, address: u64) -> Result<u16, OutOfMemoryRange> {
        let error = OutOfMemoryRange { address, length: 2 };
        let region = self.region(address).ok_or(error)?;
        let word = region.mapping.word((address - region.place.guest) as usize).ok_or(error)?;
        Ok(u16::from_le(word.load(Ordering::Acquire)))
    }

    fn store(&self, address: u64, value: u16) -> Result<(), OutOfMemoryRange> {
        let error = OutOfMemoryRange { address, length: 2 };
        let region = self.region(address).ok_or(error)?;
        let word = region.mapping.word((address - region.place.guest) as usize).ok_or(error)?;
        word.store(value.to_le(), Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(length: u64) -> File {
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(memory);
        file.set_len(length).unwrap();
        file
    }

    #[test]
    fn regions_are_checked_and_found() {
        let file = file(1 << 20);
        let place = MemoryRegion { guest: 0x1000, client: 0x7000_0000, size: 0x4000, offset: 0 };
        let memory = GuestMemory::default().with(place, &file).unwrap();
        assert!(memory.with(MemoryRegion { guest: 0x4fff, ..place }, &file).is_err());
        assert!(memory.with(MemoryRegion { guest: u64::MAX - 10, ..place }, &file).is_err());
        assert!(memory
            .with(MemoryRegion { guest: 0x9000, offset: 1 << 20, ..place }, &file)
            .is_err());
        let next = MemoryRegion { guest: 0x5000, offset: 0x8000, ..place };
        let memory = memory.with(next, &file).unwrap();
        memory.write(0x4ffe, &[1, 2, 3, 4]).unwrap();
        let mut data = [0; 4];
        memory.read(0x4ffe, &mut data).unwrap();
        assert_eq!(data, [1, 2, 3, 4]);
        assert_eq!(memory.load(0x5000), Ok(0x0403));
        assert!(memory.load(0x5001).is_err() && memory.load(0x8fff).is_err());
        assert_eq!(memory.guest_address(0x7000_0010), Some(0x1010));
        assert_eq!(memory.guest_address(0x6fff_ffff), None);
        assert!(memory.without(0x5000, 1).is_none());
        let rest = memory.without(0x5000, 0x4000).unwrap();
        assert!(rest.read(0x4ffe, &mut data).is_err());
    }

    proptest! {
        /// Against a plain list of which bytes are there.
        #[test]
        fn exactly_what_is_shared_is_reached(
            places in prop::collection::vec((0u64..40, 1u64..8), 0..6),
            accesses in prop::collection::vec((0u64..50 * 512, 0usize..3000), 1..20),
        ) {
            let file = file(64 << 10);
            let mut memory = GuestMemory::default();
            let mut there = vec![false; 64 * 512];
            for (start, length) in places {
                let place =
                    MemoryRegion { guest: start * 512, client: 0, size: length * 512, offset: 0 };
                let range = (start * 512) as usize..((start + length) * 512) as usize;
                let free = !there[range.clone()].contains(&true);
                match memory.with(place, &file) {
                    Ok(more) => {
                        prop_assert!(free);
                        there[range].fill(true);
                        memory = more;
                    }
                    Err(_) => prop_assert!(!free),
                }
            }
            for (address, length) in accesses {
                let range = address as usize..address as usize + length;
                let expected = there[range].iter().all(|&is| is);
                prop_assert_eq!(memory.read(address, &mut vec![0; length]).is_ok(), expected);
            }
        }
    }
}
