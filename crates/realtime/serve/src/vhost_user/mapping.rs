//! Files of others mapped into this process, copied from and to.
//!
//! The process that gave the file can make it shorter at any time; an access behind its end then
//! raises SIGBUS. A handler puts empty memory there instead and marks the mapping as broken, so
//! that one bad client ends one connection and not the server.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

use rustix::mm::{MapFlags, ProtFlags};

/// Mappings that can exist at a time, in all connections.
const MAX_MAPPINGS: usize = 1024;

/// Data of a mapping for the signal handler.
struct Entry {
    taken: AtomicBool,
    /// First byte; 0 while there is none.
    start: AtomicUsize,
    length: AtomicUsize,
    broken: AtomicBool,
}

static ENTRIES: [Entry; MAX_MAPPINGS] = [const {
    Entry {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
    }
}; MAX_MAPPINGS];

/// Number of times that a mapping broke, so that a holder of several need not look at each.
static BREAKS: AtomicU64 = AtomicU64::new(0);

/// Number of times that a mapping broke so far.
pub fn breaks() -> u64 {
    BREAKS.load(Ordering::Relaxed)
}

/// A range of a file, mapped and shared with its owner.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    /// Bytes mapped, from `base` on.
    whole: usize,
    /// Beginning of the range, and its length.
    start: usize,
    length: usize,
    entry: usize,
    writable: bool,
}

// SAFETY: the mapping is only memory; all access to it is by copies and atomics
// that allow for others changing it meanwhile.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of `file` from `offset` on, to be read and written.
    ///
    /// # Errors
    /// If the file is too short, or cannot be mapped.
    pub fn new(file: &File, offset: u64, length: u64) -> io::Result<Self> {
        Self::with(file, offset, length, true)
    }

    /// Maps `length` bytes of `file` from `offset` on; `writable`: for writing too.
    ///
    /// # Errors
    /// As [`Mapping::new`].
    pub fn with(file: &File, offset: u64, length: u64, writable: bool) -> io::Result<Self> {
        HANDLER.call_once(install);
        let metadata = file.metadata()?;
        let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
        let end = offset.checked_add(length).filter(|_| length > 0);
        let end = end.ok_or_else(|| invalid("the range is empty or too long"))?;
        if end > metadata.size() {
            return Err(invalid(&format!(
                "the file has {} bytes, but should have {end}",
                metadata.size()
            )));
        }
        // Huge pages are mapped whole; their file system reports their size.
        let page = metadata.blksize().next_power_of_two().max(4096);
        let from = offset & !(page - 1);
        let whole = usize::try_from((end - from).next_multiple_of(page))
            .map_err(|_| invalid("the range is too long"))?;
        let entry = ENTRIES
            .iter()
            .position(|entry| {
                let free = (false, true, Ordering::AcqRel, Ordering::Relaxed);
                entry.taken.compare_exchange(free.0, free.1, free.2, free.3).is_ok()
            })
            .ok_or_else(|| io::Error::other("too many pieces of guest memory are mapped"))?;
        let (mut protection, flags) = (ProtFlags::READ, MapFlags::SHARED);
        protection.set(ProtFlags::WRITE, writable);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let mapped = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                whole,
                protection,
                flags | MapFlags::NORESERVE,
                file,
                from,
            )
        };
        let base = match mapped {
            Ok(base) => base.cast::<u8>(),
            Err(error) => {
                ENTRIES[entry].taken.store(false, Ordering::Release);
                return Err(error.into());
            }
        };
        ENTRIES[entry].broken.store(false, Ordering::Relaxed);
        ENTRIES[entry].length.store(whole, Ordering::Relaxed);
        ENTRIES[entry].start.store(base as usize, Ordering::Release);
        let start = (offset - from) as usize;
        Ok(Self { base, whole, start, length: length as usize, entry, writable })
    }

    /// Returns whether its file turned out shorter than it was.
    pub fn is_broken(&self) -> bool {
        ENTRIES[self.entry].broken.load(Ordering::Relaxed)
    }

    fn place(&self, at: usize, length: usize) -> Option<*mut u8> {
        let end = at.checked_add(length)?;
        if end > self.length {
            return None;
        }
        // SAFETY: inside the mapping, as just checked.
        Some(unsafe { self.base.add(self.start + at) })
    }

    /// Copies from `at` on into all of `into`. Returns whether the range is inside the mapping.
    pub fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.place(at, into.len()) else { return false };
        // SAFETY: both ranges are valid for as many bytes, and do not overlap:
        // the mapping belongs to no Rust object. Others may change it during
        // the copy; any bytes are valid.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies all of `from` to `at`. Returns whether the range is inside the mapping, and may be
    /// written.
    pub fn write(&self, at: usize, from: &[u8]) -> bool {
        let place = self.place(at, from.len()).filter(|_| self.writable);
        let Some(into) = place else { return false };
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        true
    }

    /// The number at `at`, if that is inside and aligned, and may be written.
    pub fn word(&self, at: usize) -> Option<&AtomicU16> {
        let place = self.place(at, 2).filter(|_| self.writable)?.cast::<u16>();
        // SAFETY: inside the mapping, which lives as long as the reference, and
        // aligned. All other access by this process is by copies, which race
        // with the guest in the same way.
        place.is_aligned().then(|| unsafe { AtomicU16::from_ptr(place) })
    }

    /// The number of four bytes at `at`, if that is inside and aligned, and may be written.
    pub fn long(&self, at: usize) -> Option<&AtomicU32> {
        let place = self.place(at, 4).filter(|_| self.writable)?.cast::<u32>();
        // SAFETY: as in `word`.
        place.is_aligned().then(|| unsafe { AtomicU32::from_ptr(place) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let entry = &ENTRIES[self.entry];
        entry.start.store(0, Ordering::Release);
        // SAFETY: mapped by `new`, and nobody has a reference to it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.whole) };
        entry.taken.store(false, Ordering::Release);
    }
}

static HANDLER: Once = Once::new();

fn install() {
    // SAFETY: all zeroes is a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
    // SAFETY: the handler does only the work permitted to a signal handler.
    unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) };
}

/// Puts empty memory where a mapping has lost its file.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid description of the fault.
    let address = unsafe { (*info).si_addr() } as usize;
    for entry in &ENTRIES {
        let (start, length) =
            (entry.start.load(Ordering::Acquire), entry.length.load(Ordering::Relaxed));
        if start != 0 && (start..start + length).contains(&address) {
            entry.broken.store(true, Ordering::Relaxed);
            BREAKS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: replaces a mapping of this module's, all of it, by memory that is there; a
            // reader gets zeroes. mmap is a bare system call.
            let placed = unsafe {
                libc::mmap(
                    start as *mut libc::c_void,
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if placed != libc::MAP_FAILED {
                return;
            }
        }
    }
    // Not ours: as if there were no handler, when the access is made again.
    // SAFETY: the default action is a valid one.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(length: u64) -> File {
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(memory);
        file.set_len(length).unwrap();
        file
    }

    #[test]
    fn a_range_is_reached_and_nothing_around_it() {
        let file = memory(64 << 10);
        let one = Mapping::new(&file, 4096 + 512, 8192).unwrap();
        let all = Mapping::new(&file, 0, 64 << 10).unwrap();
        assert!(one.write(8190, &[1, 2]) && !one.write(8191, &[1, 2]));
        assert!(!one.write(usize::MAX, &[1, 2]) && one.word(8191).is_none());
        let mut data = [0; 4];
        assert!(all.read(4096 + 512 + 8189, &mut data));
        assert_eq!(data, [0, 1, 2, 0]);
        all.word(4096 + 512).unwrap().store(7, Ordering::Release);
        assert_eq!(one.word(0).unwrap().load(Ordering::Acquire), 7);
        assert!(Mapping::new(&file, 60 << 10, 8192).is_err());
        assert!(Mapping::new(&file, u64::MAX, 8192).is_err());
        assert!(Mapping::new(&file, 0, 0).is_err());
    }

    #[test]
    fn memory_that_is_read_only_is_not_written() {
        let file = memory(4096);
        std::os::unix::fs::FileExt::write_all_at(&file, &[5], 7).unwrap();
        let only_read =
            File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        let only_read = only_read.unwrap();
        assert!(Mapping::new(&only_read, 0, 4096).is_err());
        let mapping = Mapping::with(&only_read, 0, 4096, false).unwrap();
        let mut byte = [0];
        assert!(mapping.read(7, &mut byte) && byte == [5]);
        assert!(!mapping.write(7, &[6]) && mapping.word(8).is_none() && mapping.long(8).is_none());
    }

    #[test]
    fn a_file_that_shrinks_breaks_its_mapping_only() {
        let (file, other) = (memory(64 << 10), memory(4096));
        let mapping = Mapping::new(&file, 0, 64 << 10).unwrap();
        let sound = Mapping::new(&other, 0, 4096).unwrap();
        assert!(mapping.write(60 << 10, &[1; 16]) && !mapping.is_broken());
        file.set_len(4096).unwrap();
        let mut data = [9; 16];
        assert!(mapping.read(60 << 10, &mut data));
        assert!(mapping.is_broken() && data == [0; 16]);
        assert!(mapping.write(61 << 10, &[1; 16]));
        assert!(sound.write(0, &[1]) && !sound.is_broken());
    }
}
