//! Guest memory: anonymous host memory at fixed guest-physical places, reached
//! by checked copies only.
//!
//! Everything a guest names by address goes through [`GuestMemory::read`] and
//! [`GuestMemory::write`], which refuse what is not guest memory.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// First address of the hole below 4 GiB that devices and APICs live in.
pub const HOLE_START: u64 = 0xc000_0000;
/// End of that hole.
pub const HOLE_END: u64 = 0x1_0000_0000;
/// Lowest address of the root file system's persistent memory.
const PMEM_FLOOR: u64 = 0x10_0000_0000;
/// Big pages keep nested page faults, which take guest time unseen, rare.
const HUGE: u64 = 2 << 20;
/// Size of the pieces (bytes) by which memory is known to be written or not.
pub const PIECE: usize = HUGE as usize;

/// The use of a range of guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Ordinary memory.
    Ram,
    /// The root file system, as persistent memory.
    Root,
    /// Memory of a device, at one of its BARs.
    Device,
}

/// One contiguous range of guest memory.
#[derive(Debug)]
pub struct Region {
    /// First guest-physical address.
    pub base: u64,
    /// Length in bytes.
    pub length: u64,
    /// Its use.
    pub purpose: Purpose,
    mapping: Mapping,
}

/// Private anonymous memory of the host, aligned for big pages.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    whole: (NonNull<u8>, usize),
    /// For each piece of [`PIECE`] bytes, whether it has been written to since
    /// [`Self::forget_written`].
    written: Box<[AtomicBool]>,
}

// SAFETY: the mapping is plain memory owned by this value; all access goes
// through raw copies that tolerate concurrent writers (the guest).
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes of zeroes; with `populate`, in memory at once.
    pub fn new(length: u64, populate: bool) -> io::Result<Self> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let whole = length + HUGE as usize;
        // SAFETY: a fresh anonymous mapping, checked below.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                whole,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = (address as usize).next_multiple_of(HUGE as usize) - address as usize;
        // SAFETY: `skip` is less than HUGE, by which `whole` exceeds `length`.
        let start = unsafe { first.add(skip) };
        let pieces = length.div_ceil(PIECE);
        let written = std::iter::repeat_with(AtomicBool::default).take(pieces).collect();
        let mapping = Self { start, length, whole: (first, whole), written };
        // SAFETY: within the mapping. Advice only: failure costs speed, not correctness.
        unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_HUGEPAGE) };
        if populate {
            // SAFETY: within the mapping.
            let result =
                unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_POPULATE_WRITE) };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(mapping)
    }

    /// Address in the host.
    pub fn host_address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// The bytes, for filling before any guest runs.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is ours alone until a guest runs, and no guest
        // runs while this exclusive borrow lives.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Copies from the mapping; the caller has checked the range.
    fn copy_out(&self, offset: usize, into: &mut [u8]) {
        debug_assert!(offset + into.len() <= self.length);
        // SAFETY: in range by the caller's check. A guest may write at the same
        // time; the copy is taken once and only used afterwards.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(offset),
                into.as_mut_ptr(),
                into.len(),
            );
        }
    }

    fn copy_in(&self, offset: usize, from: &[u8]) {
        debug_assert!(offset + from.len() <= self.length);
        self.note_written(offset..offset + from.len());
        // SAFETY: as in `copy_out`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.as_ptr(),
                self.start.as_ptr().add(offset),
                from.len(),
            );
        }
    }

    /// Notes that `bytes`, which lie within the mapping, have been written.
    #[inline]
    pub fn note_written(&self, bytes: Range<usize>) {
        if let Some(pieces) = self.written.get(bytes.start / PIECE..bytes.end.div_ceil(PIECE)) {
            pieces.iter().for_each(|piece| piece.store(true, Ordering::Relaxed));
        }
    }

    /// The pieces that have been written to since [`Self::forget_written`], with the place (byte) of each;
    /// with `all`, every piece.
    pub fn written(&mut self, all: bool) -> impl Iterator<Item = (usize, &mut [u8])> {
        // SAFETY: as in `as_mut_slice`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
        let pieces = bytes.chunks_mut(PIECE).zip(&self.written).enumerate();
        pieces.filter_map(move |(number, (bytes, written))| {
            (all || written.load(Ordering::Relaxed)).then_some((number * PIECE, bytes))
        })
    }

    /// Makes everything zeroes; without `all`, the pieces that are known to have been written.
    fn clear(&mut self, all: bool) {
        self.written(all).for_each(|(_, bytes)| bytes.fill(0));
        self.forget_written();
    }

    /// Begins anew to note what is written.
    pub fn forget_written(&self) {
        self.written.iter().for_each(|piece| piece.store(false, Ordering::Relaxed));
    }

    /// Copies from `offset`, or refuses.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        let at = self.check(offset, into.len())?;
        self.copy_out(at, into);
        Ok(())
    }

    /// Copies to `offset`, or refuses.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        let at = self.check(offset, from.len())?;
        self.copy_in(at, from);
        Ok(())
    }

    fn check(&self, offset: u64, length: usize) -> Result<usize, OutOfMemoryRange> {
        let at = usize::try_from(offset).map_err(|_| OutOfMemoryRange)?;
        match at.checked_add(length) {
            Some(end) if end <= self.length => Ok(at),
            _ => Err(OutOfMemoryRange),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped in `new`.
        unsafe { libc::munmap(self.whole.0.as_ptr().cast(), self.whole.1) };
    }
}

/// The address range is not guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address range is not guest memory")]
pub struct OutOfMemoryRange;

/// Someone who is told before memory in some ranges of guest-physical addresses is written.
#[derive(Clone, Default)]
pub struct Guard {
    /// The ranges.
    pub ranges: Vec<Range<u64>>,
    /// The function that tells; None where nobody is told.
    pub tell: Option<Arc<dyn Fn(Range<u64>) + Send + Sync>>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Guard").field(&self.ranges).finish()
    }
}

impl Guard {
    /// Announces a write of `length` bytes from `address` on.
    pub fn before_write(&self, address: u64, length: u64) {
        let Some(tell) = &self.tell else { return };
        let end = address.saturating_add(length);
        for range in self.ranges.iter().filter(|range| range.start < end && address < range.end) {
            tell(range.start.max(address)..range.end.min(end));
        }
    }
}

/// All memory of a guest.
#[derive(Debug, Default)]
pub struct GuestMemory {
    regions: Vec<Region>,
    guard: Guard,
}

impl GuestMemory {
    /// Lays out `ram` bytes of memory (below and above the hole) and `root`
    /// bytes of persistent memory.
    pub fn new(ram: u64, root: u64) -> io::Result<Self> {
        let low = ram.min(HOLE_START);
        let mut regions = vec![Region::new(0, low, Purpose::Ram)?];
        let mut end = HOLE_END;
        if ram > low {
            regions.push(Region::new(HOLE_END, ram - low, Purpose::Ram)?);
            end += ram - low;
        }
        if root > 0 {
            let base = end.next_multiple_of(1 << 30).max(PMEM_FLOOR);
            regions.push(Region::new(base, root.next_multiple_of(HUGE), Purpose::Root)?);
        }
        Ok(Self { regions, guard: Guard::default() })
    }

    /// A copy, in which `fill` fills the root file system's range as it was before anything was written to it.
    /// Pieces that have been written to, which are to be known, are known in the copy as well.
    pub fn copy<E>(
        &mut self,
        fill: impl FnOnce(&mut Region) -> Result<(), E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<Self, E> {
        let new = |region: &Region| Region::new(region.base, region.length, region.purpose);
        let regions = self.regions.iter().map(new).collect::<io::Result<_>>();
        let mut copy = Self { regions: regions.map_err(failed)?, guard: Guard::default() };
        copy.root_mut().map_or(Ok(()), fill)?;
        for (from, to) in self.regions.iter_mut().zip(&copy.regions) {
            for (place, piece) in from.mapping.written(false) {
                to.mapping.copy_in(place, piece);
            }
        }
        Ok(copy)
    }

    /// Adds `length` bytes of a device's memory at its BAR's address `base`.
    pub fn add_device(&mut self, base: u64, length: u64) -> io::Result<()> {
        self.regions.push(Region::new(base, length, Purpose::Device)?);
        Ok(())
    }

    /// Tells this one before it is written.
    pub fn set_guard(&mut self, guard: Guard) {
        self.guard = guard;
    }

    /// The one that is told before it is written.
    pub fn guard(&self) -> Guard {
        self.guard.clone()
    }

    /// Every range: those of the guest's own memory first, in order of address.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// A guest has written to the `length` bytes at `address` by itself.
    pub fn note_written(&self, address: u64, length: u64) {
        let Ok((region, offset)) = self.find(address) else { return };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = usize::try_from(length).map_or(usize::MAX, |length| start.saturating_add(length));
        region.mapping.note_written(start..end.min(region.mapping.len()));
    }

    /// Forgets everything but the root file system, which is persistent; without `all`, only what is
    /// known to have been written.
    pub fn lose(&mut self, all: bool) {
        for region in self.regions.iter().filter(|region| region.purpose != Purpose::Root) {
            self.guard.before_write(region.base, region.length);
        }
        self.volatile().for_each(|region| region.mapping.clear(all));
    }

    /// The ranges that a machine without power loses.
    pub fn volatile(&mut self) -> impl Iterator<Item = &mut Region> {
        self.regions.iter_mut().filter(|region| region.purpose != Purpose::Root)
    }

    /// The root file system's range.
    pub fn root_mut(&mut self) -> Option<&mut Region> {
        self.regions.iter_mut().find(|region| region.purpose == Purpose::Root)
    }

    /// Copies guest memory from `address`, or refuses.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        let (region, offset) = self.find(address)?;
        region.mapping.read(offset, into)
    }

    /// Copies into guest memory at `address`, or refuses.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        let (region, offset) = self.find(address)?;
        self.guard.before_write(address, from.len() as u64);
        region.mapping.write(offset, from)
    }

    // A range that spans two regions is refused: none is adjacent to another.
    fn find(&self, address: u64) -> Result<(&Region, u64), OutOfMemoryRange> {
        self.regions
            .iter()
            .find(|region| address >= region.base && address - region.base < region.length)
            .map(|region| (region, address - region.base))
            .ok_or(OutOfMemoryRange)
    }
}

impl Region {
    fn new(base: u64, length: u64, purpose: Purpose) -> io::Result<Self> {
        Ok(Self { base, length, purpose, mapping: Mapping::new(length, true)? })
    }

    /// The host's memory behind it.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The host's memory behind it, for filling.
    pub fn mapping_mut(&mut self) -> &mut Mapping {
        &mut self.mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_outside_memory_are_refused() {
        let memory = GuestMemory::new(4 << 20, 4096).unwrap();
        let mut byte = [0];
        assert_eq!(memory.write(0, &[7]), Ok(()));
        assert_eq!(memory.read(0, &mut byte), Ok(()));
        assert_eq!(byte, [7]);
        assert_eq!(memory.read((4 << 20) - 1, &mut [0; 2]), Err(OutOfMemoryRange));
        assert_eq!(memory.read(HOLE_START, &mut byte), Err(OutOfMemoryRange));
        assert_eq!(memory.write(u64::MAX, &[1, 2]), Err(OutOfMemoryRange));
        assert_eq!(memory.read(PMEM_FLOOR, &mut byte), Ok(()));
    }

    #[test]
    fn what_is_known_to_be_written_is_lost() {
        const MIB: u64 = 1 << 20;
        let mut memory = GuestMemory::new(8 * MIB, 4096).unwrap();
        memory.write(4 * MIB - 1, &[7, 8]).unwrap();
        let places = |memory: &mut GuestMemory| {
            let ram = memory.volatile().next().unwrap();
            ram.mapping_mut().written(false).map(|(place, _)| place as u64).collect::<Vec<_>>()
        };
        assert_eq!(places(&mut memory), [2 * MIB, 4 * MIB]);
        // By the guest itself, which nobody sees.
        memory.volatile().next().unwrap().mapping_mut().as_mut_slice()[0] = 9;
        memory.lose(false);
        let mut bytes = [1; 2];
        memory.read(4 * MIB - 1, &mut bytes).unwrap();
        assert_eq!((bytes, places(&mut memory)), ([0, 0], vec![]));
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [9, 0], "nobody said that it was written");
        memory.note_written(0, 2 * MIB);
        memory.note_written(PMEM_FLOOR, u64::MAX);
        assert_eq!(places(&mut memory), [0]);
        memory.lose(false);
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0]);
    }

    #[test]
    fn a_guard_hears_of_writes_to_its_ranges() {
        let mut memory = GuestMemory::new(4 << 20, 4096).unwrap();
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        memory.set_guard(Guard {
            ranges: vec![100..200, PMEM_FLOOR..PMEM_FLOOR + 4096],
            tell: Some(Arc::new(move |range| hears.lock().unwrap().push(range))),
        });
        memory.write(0, &[1; 100]).unwrap();
        memory.write(150, &[1; 100]).unwrap();
        memory.write(PMEM_FLOOR + 8, &[1]).unwrap();
        memory.lose(false);
        let floor = PMEM_FLOOR;
        assert_eq!(*heard.lock().unwrap(), [150..200, floor + 8..floor + 9, 100..200]);
    }

    #[test]
    fn memory_of_devices_is_lost_and_the_root_is_kept() {
        let mut memory = GuestMemory::new(4 << 20, 4096).unwrap();
        let device = HOLE_START + (2 << 20);
        memory.add_device(device, 2 << 20).unwrap();
        for address in [0, device, PMEM_FLOOR] {
            memory.write(address, &[7]).unwrap();
        }
        assert_eq!(memory.write(device + (2 << 20) - 1, &[1, 2]), Err(OutOfMemoryRange));
        memory.lose(true);
        let found = [0, device, PMEM_FLOOR].map(|address| {
            let mut byte = [1];
            memory.read(address, &mut byte).map(|()| byte[0])
        });
        assert_eq!(found, [Ok(0), Ok(0), Ok(7)]);
    }
}
