//! A page that is shared with programs in the kernel.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use stasis_channel::application_hint::{self, Page};

/// A page of a map of bpf's.
#[derive(Debug)]
pub(super) struct Shared {
    start: NonNull<u8>,
    writable: bool,
}

// SAFETY: the mapping belongs to no thread, and is only used by atomic accesses.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps the page at `offset`.
    pub(super) fn new(map: &OwnedFd, offset: i64, writable: bool) -> io::Result<Self> {
        let size = NonZeroUsize::new(application_hint::PAGE).ok_or(io::ErrorKind::InvalidInput)?;
        let write = if writable { ProtFlags::PROT_WRITE } else { ProtFlags::empty() };
        let access = ProtFlags::PROT_READ | write;
        // SAFETY: a new mapping at an address the kernel chooses.
        let start = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, map, offset) }?;
        Ok(Self { start: start.cast(), writable })
    }

    /// Writes the beginning of a page that is zeroes.
    pub(super) fn write(&mut self, page: &Page) {
        self.set_double_word(0, u64::from(page.version.get()) << 32 | u64::from(page.magic.get()));
    }

    pub(super) fn word(&self, offset: usize) -> u32 {
        assert!(offset + 4 <= application_hint::PAGE && offset.is_multiple_of(4));
        // SAFETY: aligned and within the mapping, which others access atomically.
        let word = unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU32>() };
        word.load(Ordering::Acquire)
    }

    fn at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= application_hint::PAGE && offset.is_multiple_of(8));
        // SAFETY: aligned and within the mapping, which others access atomically.
        unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    pub(super) fn double_word(&self, offset: usize) -> u64 {
        self.at(offset).load(Ordering::Acquire)
    }

    pub(super) fn set_double_word(&mut self, offset: usize, value: u64) {
        assert!(self.writable);
        self.at(offset).store(value, Ordering::Release);
    }

    /// Returns the address of the page in the machine's memory.
    pub(super) fn physical_address(&self) -> io::Result<u64> {
        // proc(5), /proc/PID/pagemap: a page's number in bits 0 to 54, and bit 63
        // where it is in memory. A map's pages stay where they are.
        let place = self.start.as_ptr() as u64 / application_hint::PAGE as u64 * 8;
        let mut entry = [0; 8];
        File::open("/proc/self/pagemap")?.read_exact_at(&mut entry, place)?;
        let entry = u64::from_le_bytes(entry);
        let number = entry & ((1 << 55) - 1);
        if entry >> 63 == 0 || number == 0 {
            return Err(io::Error::other("the kernel does not say where its page is"));
        }
        Ok(number * application_hint::PAGE as u64)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this size, and used no more.
        let _ = unsafe { munmap(self.start.cast(), application_hint::PAGE) };
    }
}
