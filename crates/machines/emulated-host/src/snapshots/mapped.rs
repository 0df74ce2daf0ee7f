//! A file's bytes where the system has them in memory: to look at all of them copies none.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// A mapping of a file of this program's own, for reading.
pub(super) struct Mapped {
    start: NonNull<libc::c_void>,
    length: usize,
}

// SAFETY: memory that this value owns, and that it only reads.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps the first `length` bytes of `file`.
    ///
    /// # Errors
    /// If the file is shorter, or the system refuses.
    pub(super) fn new(file: &File, length: usize) -> io::Result<Self> {
        if file.metadata()?.len() < length as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a fresh mapping, checked below.
        let start = unsafe {
            let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_NORESERVE);
            libc::mmap(std::ptr::null_mut(), length, read, shared, file.as_raw_fd(), 0)
        };
        match NonNull::new(start).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, length }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// The bytes, while nobody writes to the file.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `length` bytes that are mapped. The machine that shares them is paused, and the file,
        // which is in a folder of this run's, keeps its length.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: as it was mapped.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}
