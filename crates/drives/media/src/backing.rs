//! I/O in place, from any thread: the part common to files and block devices.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use stasis_block::{Command, Operation};

use crate::direct::{self, Bounce};
use crate::file_io::{read_to_end, write_all_at};
use crate::medium::check;
use crate::size::check_size;
use crate::workers::{IoResult, Perform};
use crate::{MediumError, OpenError};

/// Zeroes for ranges that the file system cannot zero by itself.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// Limit on the bytes of a copy held in memory.
const COPIED_AT_ONCE: u64 = 1 << 20;

/// An open, locked image or device.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) file: File,
    pub(crate) label: Arc<str>,
    capacity: AtomicU64,
    /// Past the page cache.
    pub(crate) direct: bool,
    /// Bytes in which direct I/O and zeroed ranges are counted.
    pub(crate) block: u64,
    /// True if discards punch holes; otherwise they are ignored.
    pub(crate) punches: bool,
    /// True if the file may be shorter than `capacity`, and grows as it is written; the part behind
    /// its end reads as zeroes.
    pub(crate) grows: bool,
    flush_failed: AtomicBool,
    // Held for writing while part of a block is changed by direct I/O, for
    // reading by every other change.
    partial: RwLock<()>,
}

impl Backing {
    pub(crate) fn new(
        file: File,
        label: Arc<str>,
        capacity: u64,
        direct: bool,
        block: u64,
        punches: bool,
    ) -> Self {
        let (flush_failed, partial) = (AtomicBool::new(false), RwLock::new(()));
        let (grows, capacity) = (false, AtomicU64::new(capacity));
        Self { file, label, capacity, direct, block, punches, grows, flush_failed, partial }
    }

    /// As [`crate::Medium::capacity`].
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// As [`crate::Medium::resize`]: for files of a fixed size only.
    pub(crate) fn resize(&self, capacity: u64) -> Result<(), OpenError> {
        let path = || PathBuf::from(self.label.strip_prefix("file:").unwrap_or(&self.label));
        if self.grows || !self.file.metadata().is_ok_and(|found| found.is_file()) {
            return Err(OpenError::Fixed(path()));
        }
        check_size(&path(), capacity, self.direct)?;
        self.file.set_len(capacity).map_err(|source| OpenError::Os {
            path: path(),
            action: "give it another size",
            source,
        })?;
        self.capacity.store(capacity, Ordering::Relaxed);
        // The size has changed: flushes report it if that is not durable.
        if self.file.sync_all().is_err() {
            self.flush_failed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn failed(&self, command: &Command, source: io::Error) -> MediumError {
        let Command { operation, offset, length, .. } = *command;
        MediumError::Os { medium: self.label.clone(), operation, offset, length, source }
    }

    /// A flush has failed, after which none is believed.
    pub(crate) fn lost(&self, command: &Command, source: io::Error) -> MediumError {
        self.flush_failed.store(true, Ordering::Relaxed);
        self.failed(command, source)
    }

    /// Returns whether a flush that ended well can be believed.
    fn believed(&self) -> Result<(), MediumError> {
        match self.flush_failed.load(Ordering::Relaxed) {
            true => Err(MediumError::Lost { medium: self.label.clone() }),
            false => Ok(()),
        }
    }

    fn flush(&self, command: &Command) -> Result<(), MediumError> {
        self.believed()?;
        self.file.sync_data().map_err(|source| self.lost(command, source))?;
        // A flush that failed meanwhile has reported these unwritten bytes as well.
        self.believed()
    }

    fn read(&self, offset: u64, data: &mut [u8], bounce: &mut Bounce) -> io::Result<()> {
        if self.direct {
            direct::read(&self.file, self.block, offset, data, bounce)
        } else if self.grows {
            read_to_end(&self.file, offset, data)
        } else {
            self.file.read_exact_at(data, offset)
        }
    }

    fn write(&self, offset: u64, data: &[u8], fua: bool, bounce: &mut Bounce) -> io::Result<()> {
        if !self.direct {
            return write_all_at(&self.file, data, offset, fua);
        }
        let whole = direct::is_whole(offset, data.len() as u64, self.block);
        let _shared = whole.then(|| self.partial.read().unwrap_or_else(PoisonError::into_inner));
        let _alone = (!whole).then(|| self.partial.write().unwrap_or_else(PoisonError::into_inner));
        direct::write(&self.file, self.block, offset, data, fua, bounce)
    }

    /// Makes a range read as zeroes: whole blocks in the way of `how`, the
    /// rest, and everything where there is no such way, by writing them.
    fn zero(
        &self,
        offset: u64,
        length: u64,
        how: FallocateFlags,
        bounce: &mut Bounce,
    ) -> io::Result<()> {
        let end = offset + length;
        let start = offset.div_ceil(self.block) * self.block;
        let stop = end / self.block * self.block;
        if start >= stop {
            return self.write_zeroes(offset, length, bounce);
        }
        self.write_zeroes(offset, start - offset, bounce)?;
        let allocated = {
            let _shared = self.partial.read().unwrap_or_else(PoisonError::into_inner);
            self.fallocate(start, stop - start, how)
        };
        match allocated {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => {
                self.write_zeroes(start, stop - start, bounce)?;
            }
            Err(error) => return Err(error.into()),
        }
        self.write_zeroes(stop, end - stop, bounce)
    }

    fn fallocate(&self, offset: u64, length: u64, how: FallocateFlags) -> Result<(), Errno> {
        loop {
            let flags = how | FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(&self.file, flags, offset, length) {
                Err(Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }

    /// In pieces: the two ranges do not overlap.
    fn copy(&self, command: &Command, bounce: &mut Bounce) -> io::Result<()> {
        let mut piece = vec![0; command.length.min(COPIED_AT_ONCE) as usize];
        let mut done = 0;
        while done < command.length {
            let length = (command.length - done).min(COPIED_AT_ONCE) as usize;
            self.read(command.source + done, &mut piece[..length], bounce)?;
            self.write(command.offset + done, &piece[..length], command.fua, bounce)?;
            done += length as u64;
        }
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64, bounce: &mut Bounce) -> io::Result<()> {
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let piece = (end - at).min(ZEROES.len() as u64);
            self.write(at, &ZEROES[..piece as usize], false, bounce)?;
            at += piece;
        }
        Ok(())
    }
}

impl Drop for Backing {
    /// Unlocks it now: a ring of the kernel's may hold the file a little longer.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}

impl Perform for Backing {
    fn capacity(&self) -> u64 {
        Backing::capacity(self)
    }

    fn discard_zeroes(&self) -> bool {
        self.punches
    }

    fn resize(&self, capacity: u64) -> Result<(), OpenError> {
        Backing::resize(self, capacity)
    }

    fn perform(&self, command: &Command, data: &mut [u8], bounce: &mut Bounce) -> IoResult {
        check(command, data.len(), self.capacity())?;
        let Command { operation, offset, length, fua, .. } = *command;
        let outcome = match operation {
            Operation::Read => self.read(offset, data, bounce),
            Operation::Write => self.write(offset, data, fua, bounce),
            Operation::Flush => return self.flush(command),
            Operation::Discard if !self.punches => Ok(()),
            Operation::Discard => self.zero(offset, length, FallocateFlags::PUNCH_HOLE, bounce),
            Operation::WriteZeroes => self.zero(offset, length, FallocateFlags::ZERO_RANGE, bounce),
            Operation::Copy => self.copy(command, bounce),
            // A medium can only confirm that the bytes are there; order is the drive's task.
            Operation::Verify | Operation::Barrier => Ok(()),
        };
        if let Err(source) = outcome {
            // A durable write also reports, once, the loss of earlier writes.
            return Err(match fua {
                true => self.lost(command, source),
                false => self.failed(command, source),
            });
        }
        if fua && matches!(operation, Operation::Discard | Operation::WriteZeroes) {
            return self.flush(command);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 1 << 20;

    fn run(backing: &Backing, operation: Operation, offset: u64, length: u64) -> Vec<u8> {
        let mut data = match operation {
            Operation::Read | Operation::Write => vec![7; length as usize],
            _ => vec![],
        };
        let command = Command::new(operation, offset, length);
        backing.perform(&command, &mut data, &mut Bounce::default()).unwrap();
        data
    }

    /// A file in memory punches holes, but does not zero ranges by itself.
    #[test]
    fn zeroes_are_written_where_nothing_else_helps() {
        let memory = rustix::fs::memfd_create("disk", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(memory);
        file.set_len(CAPACITY).unwrap();
        let backing = Backing::new(file, Arc::from("memory"), CAPACITY, false, 512, true);
        let refused = backing.fallocate(0, 4096, FallocateFlags::ZERO_RANGE);
        assert_eq!(refused, Err(Errno::OPNOTSUPP));
        for operation in [Operation::WriteZeroes, Operation::Discard] {
            run(&backing, Operation::Write, 0, CAPACITY);
            run(&backing, operation, 100, 200_000);
            let data = run(&backing, Operation::Read, 0, CAPACITY);
            let zeroes = data.iter().filter(|&&byte| byte == 0).count();
            assert_eq!((data[99], zeroes, data[200_100]), (7, 200_000, 7));
            assert!(data[100..200_100].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn no_flush_is_believed_after_one_has_failed() {
        // Not a file that can be made durable.
        let file = File::open("/dev/null").unwrap();
        let backing = Backing::new(file, Arc::from("null"), CAPACITY, false, 512, true);
        let command = Command::flush();
        let flush = || backing.perform(&command, &mut [], &mut Bounce::default());
        let message = flush().unwrap_err().to_string();
        assert!(message.contains("null: flush") && message.contains("check the disk"), "{message}");
        for _ in 0..3 {
            assert!(matches!(flush(), Err(MediumError::Lost { .. })));
        }
    }
}
